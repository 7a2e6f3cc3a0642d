"""Turn a finished run into a released checkpoint: bf16 weights, card, curve, test results.

python -m benchmarks.release RUN NAME --trained "one sentence"

The release goes to focus/releases/NAME and from there into the package. What is tested, on all
test puzzles of the run's data, are the rounded weights that are released.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch

from focus.config import to_json
from focus.data.sources import open_source
from focus.data.splits import make_splits
from focus.evaluation.source import evaluate
from focus.files import write_text
from focus.model.checkpoint import RELEASES, load_model, save_model
from focus.training.config import read_config

_KEPT = ("update", "loss", "exact", "replayed", "held", "seconds", "K_p", "validation")
_RESULTS = Path(__file__).parents[1] / "docs" / "results"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--trained", required=True, help="data, device and minutes, for the card")
    parser.add_argument("--steps", default="16,64,128", help="numbers of updates K of the test")
    words = parser.parse_args()
    folder, device = RELEASES / words.name, "cuda" if torch.cuda.is_available() else "cpu"
    save_model(load_model(words.run), folder, dtype=torch.bfloat16)
    model = load_model(folder).to(device)
    assert model.record is not None
    _, notes = model.record
    run = read_config(words.run / "config.json")
    # Where the puzzles lay on this machine is nobody's business.
    files = tuple(Path(name).name for name in run.more_data)
    config = to_json(replace(run, data="", more_data=files))
    tested = evaluate(
        model, make_splits(open_source(run.data), run.task).test,
        [int(steps) for steps in words.steps.split(",")],
    )  # fmt: skip
    notes |= {"test": [result.summary() for result in tested], "trained": words.trained}
    save_model(model, folder, config, notes, torch.bfloat16)
    lines = (words.run / "metrics.jsonl").read_text().splitlines()
    curve = [{k: v for k, v in json.loads(line).items() if k in _KEPT} for line in lines]
    write_text(_RESULTS / f"{words.name}.jsonl", "".join(json.dumps(line) + "\n" for line in curve))
    size = sum(path.stat().st_size for path in folder.rglob("*"))
    print(f"{folder}: {size / 2**20:.1f} MiB")
    print(json.dumps(notes["test"]))


if __name__ == "__main__":
    main()
