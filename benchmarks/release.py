"""Turn a finished run into a released checkpoint: bf16 weights, card, curve, test results.

python -m benchmarks.release RUN NAME --tested DIR --trained "one sentence"

RUN is the run's folder, DIR what `focus eval RUN --out DIR` wrote on the test split. The release
goes to focus/releases/NAME and from there into the package.
"""

import argparse
import json
from pathlib import Path

import torch

from focus.files import write_text
from focus.model.checkpoint import RELEASES, load_model, save_model

_KEPT = ("update", "loss", "exact", "replayed", "seconds", "K_p", "validation")  # of the curve


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--tested", type=Path, required=True)
    parser.add_argument("--trained", required=True, help="data, device and minutes, for the card")
    words = parser.parse_args()
    model = load_model(words.run)
    assert model.record is not None
    config, notes = model.record
    test = json.loads((words.tested / "results.json").read_text())["results"]
    notes = {**notes, "test": test, "trained": words.trained}
    lines = (words.run / "metrics.jsonl").read_text().splitlines()
    curve = [{k: v for k, v in json.loads(line).items() if k in _KEPT} for line in lines]
    save_model(model, RELEASES / words.name, config, notes, torch.bfloat16)
    write_text(
        Path(__file__).parents[1] / "docs" / "results" / f"{words.name}.jsonl",
        "".join(json.dumps(line) + "\n" for line in curve),
    )
    size = sum(path.stat().st_size for path in (RELEASES / words.name).rglob("*"))
    print(f"{RELEASES / words.name}: {size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
