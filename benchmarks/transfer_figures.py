"""Store the figures of a transfer run, with every verdict in a bit.

python -m benchmarks.transfer_figures RUN NAME     # docs/results/NAME.json

RUN is a folder of `focus transfer` that has been scored. Verdicts are packed in the order of the
items' numbers, so that anyone can pair two variants again.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.stored import pack
from focus.evaluation.transfer.store import Store
from focus.files import write_text

_RESULTS = Path(__file__).parents[1] / "docs" / "results"


def natural(item: str) -> tuple[int, str]:
    """Puts sample_9 before sample_10."""
    return len(item), item


def verdicts(run: Path, variant: str, benchmark: str) -> str:
    """Which items came out right."""
    scores = Store(run / variant).scores(benchmark)
    return pack(np.array([scores[item].correct for item in sorted(scores, key=natural)]))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    words = parser.parse_args()
    figures = json.loads((words.run / "results.json").read_text(encoding="utf-8"))
    settings = json.loads((words.run / "base" / "settings.json").read_text(encoding="utf-8"))
    figures["settings"] = {name: settings[name] for name in ("max_tokens", "thinking", "precision")}
    for row in figures["results"]:
        row["correct"] = verdicts(words.run, row["variant"], row["benchmark"])
    write_text(_RESULTS / f"{words.name}.json", json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
