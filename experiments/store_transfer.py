"""Store the figures of a transfer run, with every verdict in a bit.

python -m experiments.store_transfer RUN NAME [--completions [--most-mb 10]]

The figures go to docs/results/NAME.json.

RUN is a folder of `focus transfer` that has been scored. Verdicts are packed in the order of the
items' numbers, so that anyone can pair two variants again. `repeats` is the share of completions
that zlib shrinks to less than a fifth: they say the same again and again. With
`--completions` they are kept in NAME.tar.xz: unpacked into an empty folder, a run that
`focus transfer --out` judges again or adds to. Whole variants are kept, in the order of the run, as
far as they fit into so many megabytes.
"""

import io
import json
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from experiments.stored import RESULTS, command_line, one_line, pack, that_holds
from focus.errors import UserError
from focus.evaluation.transfer.store import Scored, Store
from focus.files import atomic_path, read_object, write_text

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


def keep_completions(
    run: Path, archive: Path, variants: Sequence[str], most: float
) -> tuple[int, list[str]]:
    """Pack settings and completions of the first variants that fit into `most` bytes together.

    Says how many bytes it took, and which variants were left out. The same run gives the same
    bytes.
    """
    size, fitting = 0, 0
    for variant in variants:  # alone a variant takes no less than among others
        packed = io.BytesIO()
        _pack(run, [variant], packed)
        size += len(packed.getvalue())
        if size > most:
            break
        fitting += 1
    if not fitting:
        raise UserError(
            f"the completions of {variants[0]} alone take {size / 1e6:.1f} MB; "
            f"--most-mb allows {most / 1e6:g}"
        )
    with atomic_path(archive) as unfinished, open(unfinished, "wb") as stream:
        _pack(run, variants[:fitting], stream)
    return archive.stat().st_size, list(variants[fitting:])


def _pack(run: Path, variants: Sequence[str], stream: IO[bytes]) -> None:
    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 0, 0, "", ""
        return member

    with tarfile.open(fileobj=stream, mode="w:xz") as packed:
        for folder in (run / variant for variant in variants):
            for file in sorted([*folder.glob("settings.json"), *folder.glob("*.written.jsonl")]):
                packed.add(file, str(file.relative_to(run)), filter=plain)


def stored_run(run: Path) -> dict:
    """The figures of a run."""
    figures = read_object(run / "results.json")
    settings = read_object(run / "base" / "settings.json")
    figures["settings"] = {name: settings[name] for name in ("max_tokens", "thinking", "precision")}
    for row in figures["results"]:
        scores = Store(run / row["variant"]).scores(row["benchmark"])
        row["repeats"], row["correct"] = repeats(scores), verdicts(scores)
    return figures


def check_no_variant_is_lost(path: Path, figures: dict) -> None:
    """Refuse figures of fewer variants than are stored there: those of the others would go."""
    stored, ours = (
        {row["variant"] for row in found.get("results", ())}
        for found in (read_object(path) if path.exists() else {}, figures)
    )
    if lost := sorted(stored - ours):
        raise UserError(
            f"{path.name} has {', '.join(lost)} too; name all variants in one call of focus "
            "transfer, or choose another NAME"
        )


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--completions", action="store_true", help="keep their texts too")
    parser.add_argument("--most-mb", type=float, default=10, help="of all texts, compressed")
    words = parser.parse_args()
    with one_line("store_transfer"):
        with that_holds(words.run, "a scored run of focus transfer"):
            figures = stored_run(words.run)
        check_no_variant_is_lost(RESULTS / f"{words.name}.json", figures)
        if words.completions:
            archive = RESULTS / f"{words.name}.tar.xz"
            variants = list(dict.fromkeys(row["variant"] for row in figures["results"]))
            size, left_out = keep_completions(words.run, archive, variants, 1e6 * words.most_mb)
            without = f"; left out: {', '.join(left_out)}" if left_out else ""
            print(f"{archive.name}: {size / 1e6:.1f} MB{without}")
        write_text(RESULTS / f"{words.name}.json", json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
