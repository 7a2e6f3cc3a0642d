"""Store the bits of reference texts, with those of every item.

python -m experiments.transfer_bits RUN NAME     # docs/results/NAME.json

RUN is a folder of `focus transfer --bits`. Items stand in the order of their numbers, so that
anyone can pair two variants again; those of a part (MATH-Hard) are among those of the whole.
"""

import json
from pathlib import Path

from experiments.store_transfer import check_no_variant_is_lost, natural
from experiments.stored import RESULTS, command_line, one_line, that_holds
from focus.evaluation.transfer import BENCHMARKS
from focus.evaluation.transfer.store import Bits, Store
from focus.files import read_object, write_text


def stored_run(run: Path) -> dict:
    """The figures of a run."""
    figures = read_object(run / "bits.json")
    base = read_object(run / figures["results"][0]["variant"] / "bits" / "settings.json")
    figures["settings"] = {name: base[name] for name in ("thinking", "precision")}
    for row in figures["results"]:
        if BENCHMARKS[row["benchmark"]].part_of:
            continue
        lines = Store(run / row["variant"] / "bits").read(Bits, row["benchmark"])
        items = [lines[item] for item in sorted(lines, key=natural)]
        row["items"] = {
            "id": [item.id for item in items],
            "tokens": [item.tokens for item in items],
            "bits": [round(item.bits, 3) for item in items],
            "end_bits": [round(item.end_bits, 3) for item in items],
        }
    return figures


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    words = parser.parse_args()
    with one_line("transfer_bits"), that_holds(words.run, "a run of focus transfer --bits"):
        figures, path = stored_run(words.run), RESULTS / f"{words.name}.json"
        check_no_variant_is_lost(path, figures)
        write_text(path, json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
