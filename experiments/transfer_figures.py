"""Store the figures of a transfer run, with every verdict in a bit, and its completions.

python -m experiments.transfer_figures RUN NAME     # docs/results/NAME.json and NAME.tar.xz

RUN is a folder of `focus transfer` that has been scored. Verdicts are packed in the order of the
items' numbers, so that anyone can pair two variants again. `repeats` is the share of completions
that zlib shrinks to less than a fifth: they say the same again and again. What the archive holds,
unpacked into an empty folder, is a run that `focus transfer --out` judges again or adds to.
"""

import json
import tarfile
import zlib
from pathlib import Path

import numpy as np

from experiments.stored import RESULTS, command_line, pack
from focus.evaluation.transfer.store import Scored, Store
from focus.files import write_text

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

    with tarfile.open(archive, "w:xz") as packed:
        for file in sorted([*run.glob("*/settings.json"), *run.glob("*/*.written.jsonl")]):
            packed.add(file, str(file.relative_to(run)), filter=plain)


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    words = parser.parse_args()
    figures = json.loads((words.run / "results.json").read_text(encoding="utf-8"))
    settings = json.loads((words.run / "base" / "settings.json").read_text(encoding="utf-8"))
    figures["settings"] = {name: settings[name] for name in ("max_tokens", "thinking", "precision")}
    for row in figures["results"]:
        scores = Store(words.run / row["variant"]).scores(row["benchmark"])
        row["repeats"], row["correct"] = repeats(scores), verdicts(scores)
    write_text(RESULTS / f"{words.name}.json", json.dumps(figures, indent=1) + "\n")
    keep_completions(words.run, RESULTS / f"{words.name}.tar.xz")


if __name__ == "__main__":
    main()
