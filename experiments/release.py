"""Turn a finished run into a released checkpoint: bf16 weights, card, curve, test results.

python -m experiments.release RUN NAME --trained "one sentence" [--results-only]

The release goes to releases/NAME, or where one of that name is: the light ones in focus/releases
come with the package. What is tested, on all test puzzles of the run's data, are the rounded
weights that are released. docs/results/NAME.json gets the rates, which puzzles are solved, what
the last K changes over the one before it, and the controls of the language model;
docs/results/NAME.jsonl the curve.
"""

import argparse
import json
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import torch

from experiments.stored import RESULTS, command_line, numbers, one_line, pack, this_device
from focus.data.sources import open_source
from focus.data.splits import load_split
from focus.evaluation.controls import CONTROLS, adapter_norm, controlled
from focus.evaluation.puzzles import Evaluation, evaluate
from focus.evaluation.statistics import paired_difference
from focus.files import write_text
from focus.model.checkpoint import RELEASES, load_model, releases, save_model
from focus.serialization import to_json
from focus.training.config import read_config

_CURVE = ("update", "loss", "exact", "replayed", "replayed_solved", "seconds", "K_p", "validation")


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--trained", required=True, help="data, device and minutes, for the card")
    parser.add_argument(
        "--steps", type=numbers(), default="16,64,128", help="numbers of steps K of the test"
    )
    parser.add_argument(
        "--early-stop", type=numbers(), help="the same, stopped at answers that obey the rules"
    )
    parser.add_argument("--control-steps", type=int, help="K of the controls; default validation's")
    parser.add_argument("--batch", type=int, help="puzzles at a time")
    parser.add_argument("--results-only", action="store_true", help="no weights: for a control")
    parser.add_argument("--shared", action="store_true", help="no seconds: the GPU was shared")
    words = parser.parse_args()
    with one_line("release"), tempfile.TemporaryDirectory() as temporary:
        here = releases().get(words.name, RELEASES[-1] / words.name)
        release(words, Path(temporary) / words.name if words.results_only else here)


def release(words: argparse.Namespace, folder: Path) -> None:
    """Write the checkpoint to `folder`, and what was measured to docs/results."""
    device, name = this_device()
    save_model(load_model(words.run), folder, dtype=torch.bfloat16)
    model = load_model(folder).to(device)
    assert model.record is not None
    _, notes = model.record
    run = read_config(words.run / "config.json")
    # Where the puzzles lay on this machine is nobody's business.
    files = tuple(Path(name).name for name in run.more_data)
    config = to_json(replace(run, data="", more_data=files))
    table = load_split(open_source(run.data), run.task, "test")
    tested = evaluate(model, table, words.steps, words.batch)
    notes |= {"test": [result.summary() for result in tested], "trained": words.trained}
    if model.has_adapter:
        notes["adapter"], notes["controls"] = adapter_norm(model), {}
        for control in CONTROLS[1:]:
            with controlled(model, control):
                steps = words.control_steps or run.eval_steps
                (result,) = evaluate(model, table, [steps], words.batch)
            notes["controls"][control] = result.summary()
    save_model(model, folder, config, notes, torch.bfloat16)
    figures = {**notes, "device": name, **_details(tested)}
    if words.early_stop:
        figures["early_stop"] = [
            {**result.summary(), "exact_by_puzzle": pack(result.exact)}
            for result in evaluate(model, table, words.early_stop, words.batch, early_stop=True)
        ]
    write_text(RESULTS / f"{words.name}.json", json.dumps(figures, indent=1) + "\n")
    lines = (words.run / "metrics.jsonl").read_text().splitlines()
    shown = [name for name in _CURVE if not (words.shared and name == "seconds")]
    curve = [{k: v for k, v in json.loads(line).items() if k in shown} for line in lines]
    write_text(RESULTS / f"{words.name}.jsonl", "".join(json.dumps(line) + "\n" for line in curve))
    size = sum(path.stat().st_size for path in folder.rglob("*"))
    print(f"{folder}: {size / 2**20:.1f} MiB")
    for result in [*notes["test"], *notes.get("controls", {}).values()]:
        print(json.dumps(result))


def _details(tested: list[Evaluation]) -> dict:
    """Which puzzles are solved at each K, and what each K changes over the one before it."""
    exact = {str(r.steps): pack(r.exact) for r in tested}
    changes = []
    for before, after in pairwise(tested):
        difference, low, high = paired_difference(after.exact, before.exact)
        changes.append(
            {"from": before.steps, "to": after.steps, "gain": difference, "low": low, "high": high}
        )
    return {"changes": changes, "exact_by_puzzle": exact}


if __name__ == "__main__":
    main()
