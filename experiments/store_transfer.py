"""Store the figures of a transfer run, with every verdict in a bit.

python -m experiments.store_transfer RUN NAME [--completions]     # docs/results/NAME.json

RUN is a folder of `focus transfer` that has been scored. Verdicts are packed in the order of the
items' numbers, so that anyone can pair two variants again. `repeats` is the share of completions
that zlib shrinks to less than a fifth: they say the same again and again. With
`--completions` they are kept in NAME.tar.xz: unpacked into an empty folder, a run that
`focus transfer --out` judges again or adds to.
"""

import json
import os
import tarfile
import zlib
from pathlib import Path

import numpy as np

from experiments.stored import RESULTS, command_line, one_line, pack, that_holds
from focus.evaluation.transfer.store import Scored, Store
from focus.files import read_object, write_text

_SHRUNK = 0.2  # of its size, under which a text repeats itself


def natural(item: str) -> tuple[int, str]:
    """Puts sample_9 before sample_10."""
    return len(item), item


def verdicts(scores: dict[str, Scored]) -> str:
    """Which items are right."""
    return pack(np.array([scores[item].correct for item in sorted(scores, key=natural)]))


def repeats(scores: dict[str, Scored]) -> float:
    """The share of completions that repeat themselves."""
    texts = [line.completion.encode() for line in scores.values()]
    return float(np.mean([len(zlib.compress(text)) < _SHRUNK * len(text) for text in texts]))


def keep_completions(run: Path, archive: Path) -> None:
    """Settings and completions of every variant, packed; the same bytes from the same run."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 0, 0, "", ""
        return member

    unfinished = archive.with_name(f".{archive.name}")
    with tarfile.open(unfinished, "w:xz") as packed:
        for file in sorted([*run.glob("*/settings.json"), *run.glob("*/*.written.jsonl")]):
            packed.add(file, str(file.relative_to(run)), filter=plain)
    os.replace(unfinished, archive)


def stored_run(run: Path) -> dict:
    """The figures of a run."""
    figures = read_object(run / "results.json")
    settings = read_object(run / "base" / "settings.json")
    figures["settings"] = {name: settings[name] for name in ("max_tokens", "thinking", "precision")}
    for row in figures["results"]:
        scores = Store(run / row["variant"]).scores(row["benchmark"])
        row["repeats"], row["correct"] = repeats(scores), verdicts(scores)
    return figures


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--completions", action="store_true", help="keep their texts too")
    words = parser.parse_args()
    with one_line("store_transfer"):
        with that_holds(words.run, "a scored run of focus transfer"):
            figures = stored_run(words.run)
        write_text(RESULTS / f"{words.name}.json", json.dumps(figures, indent=1) + "\n")
        if words.completions:
            keep_completions(words.run, RESULTS / f"{words.name}.tar.xz")


if __name__ == "__main__":
    main()
