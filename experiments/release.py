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
    that_holds,
    this_device,
    unpack,
)
from focus.data.sources import open_source
from focus.data.splits import load_split
from focus.errors import UserError
from focus.evaluation.controls import CONTROLS, adapter_norm, controlled
from focus.evaluation.puzzles import evaluate
from focus.evaluation.statistics import paired_difference, wilson_interval
from focus.files import parse_object, read_object, read_text, write_text
from focus.model.base import Model
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
        "--steps", type=numbers(), help="numbers of steps K of the test; default 16,64,128"
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
        release(words, Path(temporary), Path(temporary) / "made" if words.results_only else here)


def release(words: argparse.Namespace, temporary: Path, folder: Path) -> None:
    """Write the checkpoint to `folder`, and what was measured to docs/results."""
    run, metrics = read_config(words.run / "config.json"), words.run / "metrics.jsonl"
    lines = [parse_object(line, str(metrics)) for line in read_text(metrics).splitlines()]
    if not lines:
        raise UserError(f"{metrics} is empty: nothing was trained")
    if (words.run / "final").is_dir():
        model, notes, figures = _of_campaign(words, run, lines[-1])
    else:
        model, notes, figures = _tested(words, run, temporary)
    notes["trained"] = words.trained
    if model.has_adapter:
        notes["adapter"] = adapter_norm(model)
    # Where the puzzles lay on this machine is nobody's business.
    files = tuple(Path(name).name for name in run.more_data)
    config = to_json(replace(run, data="", more_data=files))
    save_model(model, folder, config, notes, torch.bfloat16)
    write_text(RESULTS / f"{words.name}.json", json.dumps({**notes, **figures}, indent=1) + "\n")
    shown = [name for name in _CURVE if not (words.shared and name == "seconds")]
    curve = [{k: v for k, v in line.items() if k in shown} for line in lines]
    write_text(RESULTS / f"{words.name}.jsonl", "".join(json.dumps(line) + "\n" for line in curve))
    size = sum(path.stat().st_size for path in folder.rglob("*"))
    print(f"{folder}: {size / 2**20:.1f} MiB")
    for result in [*notes["test"], *notes.get("controls", {}).values()]:
        print(json.dumps(result))


def _tested(words: argparse.Namespace, run: RunConfig, temporary: Path) -> tuple[Model, dict, dict]:
    """The rounded weights, what their card says of them, and what is stored besides."""
    device, name = this_device()
    save_model(load_model(words.run), temporary / "rounded", dtype=torch.bfloat16)
    model = load_model(temporary / "rounded").to(device)
    assert model.record is not None
    _, notes = model.record
    table = load_split(open_source(run.data), run.task, "test")
    tested = evaluate(model, table, words.steps or [16, 64, 128], words.batch)
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
    return model, notes, figures


def _of_campaign(words: argparse.Namespace, run: RunConfig, last: dict) -> tuple[Model, dict, dict]:
    """The same of a run that a campaign has tested: its last weights, before they were rounded."""
    for name in ("steps", "early_stop", "control_steps", "batch"):
        if getattr(words, name) is not None:
            raise UserError(
                f"--{name.replace('_', '-')} is for a run that is tested now; {words.run} has the "
                "tests of a campaign"
            )
    stored = read_object(words.run / "run.json")
    with that_holds(words.run, "a campaign's run with tests on test puzzles"):
        solved = {int(k): unpack(bits, stored["n_test"]) for k, bits in stored["test"].items()}
        notes = {
            "update": last["update"], "method": stored["method"],
            "validation": last["validation"],
            "test": [_summary(steps, exact) for steps, exact in solved.items()],
        }  # fmt: skip
        if "controls" in stored:
            notes["controls"] = {
                control: _summary(run.eval_steps, unpack(bits, stored["n_test"]))
                for control, bits in stored["controls"].items()
            }
        figures = {"device": stored["device"], **_details(solved)}
    return load_model(words.run / "final"), notes, figures


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
