"""Turn a finished run into a released checkpoint: bf16 weights, card, curve, test results.

python -m experiments.release RUN NAME --trained "one sentence" [--results-only]

The release goes to releases/NAME, or where one of that name is: the light ones in focus/releases
come with the package. What is tested, on all test puzzles of the run's data, are the rounded
weights that are released. docs/results/NAME.json gets the rates, which puzzles are solved, what
the last K changes over the one before it, and the controls of the language model;
docs/results/NAME.jsonl the curve. Of a finished run of experiments.campaign the last weights are
released, with the tests that it made before they were rounded.
"""

import argparse
import json
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from experiments.stored import (
    RESULTS,
    command_line,
    numbers,
    one_line,
    pack,
    this_device,
    unpack,
)
from focus.data.sources import open_source
from focus.data.splits import load_split
from focus.errors import UserError
from focus.evaluation.controls import CONTROLS, adapter_norm, controlled
from focus.evaluation.puzzles import evaluate
from focus.evaluation.statistics import paired_difference, wilson_interval
from focus.files import read_object, write_text
from focus.model.checkpoint import RELEASES, load_model, releases, save_model
from focus.serialization import to_json
from focus.training.config import RunConfig, read_config

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
    run = read_config(words.run / "config.json")
    # Where the puzzles lay on this machine is nobody's business.
    files = tuple(Path(name).name for name in run.more_data)
    config = to_json(replace(run, data="", more_data=files))
    of_campaign = (words.run / "run.json").is_file()
    if of_campaign and "test" not in read_object(words.run / "run.json"):
        raise UserError(f"{words.run} has not been tested on test puzzles: its study asks for none")
    model = load_model(words.run / "final" if of_campaign else words.run)
    save_model(model, folder, dtype=torch.bfloat16)
    notes, figures = _of_campaign(words) if of_campaign else _tested(words, folder, run)
    notes["trained"] = words.trained
    if model.has_adapter:
        notes["adapter"] = adapter_norm(model)
    save_model(model, folder, config, notes, torch.bfloat16)
    write_text(RESULTS / f"{words.name}.json", json.dumps({**notes, **figures}, indent=1) + "\n")
    lines = (words.run / "metrics.jsonl").read_text().splitlines()
    shown = [name for name in _CURVE if not (words.shared and name == "seconds")]
    curve = [{k: v for k, v in json.loads(line).items() if k in shown} for line in lines]
    write_text(RESULTS / f"{words.name}.jsonl", "".join(json.dumps(line) + "\n" for line in curve))
    size = sum(path.stat().st_size for path in folder.rglob("*"))
    print(f"{folder}: {size / 2**20:.1f} MiB")
    for result in [*notes["test"], *notes.get("controls", {}).values()]:
        print(json.dumps(result))


def _tested(words: argparse.Namespace, folder: Path, run: RunConfig) -> tuple[dict, dict]:
    """What the card says of the rounded weights, and what is stored besides."""
    device, name = this_device()
    model = load_model(folder).to(device)
    assert model.record is not None
    _, notes = model.record
    table = load_split(open_source(run.data), run.task, "test")
    tested = evaluate(model, table, words.steps, words.batch)
    notes["test"] = [result.summary() for result in tested]
    if model.has_adapter:
        notes["controls"] = {}
        for control in CONTROLS[1:]:
            with controlled(model, control):
                steps = words.control_steps or run.eval_steps
                (result,) = evaluate(model, table, [steps], words.batch)
            notes["controls"][control] = result.summary()
    figures = {"device": name, **_details({r.steps: r.exact for r in tested})}
    if words.early_stop:
        figures["early_stop"] = [
            {**result.summary(), "exact_by_puzzle": pack(result.exact)}
            for result in evaluate(model, table, words.early_stop, words.batch, early_stop=True)
        ]
    return notes, figures


def _of_campaign(words: argparse.Namespace) -> tuple[dict, dict]:
    """The same of a run that a campaign has tested."""
    tested = read_object(words.run / "run.json")
    solved = {int(k): unpack(bits, tested["n_test"]) for k, bits in tested["test"].items()}
    at = read_config(words.run / "config.json").eval_steps
    last = json.loads((words.run / "metrics.jsonl").read_text().splitlines()[-1])
    notes = {
        "update": last["update"], "method": tested["method"], "validation": last["validation"],
        "test": [_summary(steps, exact) for steps, exact in solved.items()],
        "controls": {
            control: _summary(at, unpack(bits, tested["n_test"]))
            for control, bits in tested.get("controls", {}).items()
        },
    }  # fmt: skip
    return notes, {"device": tested["device"], **_details(solved)}


def _summary(steps: int, exact: np.ndarray) -> dict:
    low, high = wilson_interval(int(exact.sum()), len(exact))
    return {
        "steps": steps, "n": len(exact), "exact": float(exact.mean()), "low": low, "high": high
    }  # fmt: skip


def _details(solved: dict[int, np.ndarray]) -> dict:
    """Which puzzles are solved at each K, and what each K changes over the one before it."""
    changes = []
    for before, after in pairwise(solved):
        difference, low, high = paired_difference(solved[after], solved[before])
        changes.append({"from": before, "to": after, "gain": difference, "low": low, "high": high})
    exact = {str(steps): pack(bits) for steps, bits in solved.items()}
    return {"changes": changes, "exact_by_puzzle": exact}


if __name__ == "__main__":
    main()
