"""The methods in the paper's own regime: many seeds, trained in stacks, stored puzzle by puzzle.

python -m experiments.campaign list                             # studies and their runs
python -m experiments.campaign run STUDY --data DIR --out DIR   # train, test; a killed one goes on
python -m experiments.campaign store STUDY --out DIR            # finished runs to docs/results
runs/campaign.sh, runs/table1.sh, runs/adapter_rates.sh         # all of it, from nothing
python -m experiments.campaign table [STUDY ...]                # tables of the stored figures

The studies are in `experiments/studies.py`. Runs that differ in seed, selector,
penalty and optimizer alone share their updates (`focus/training/stack.py`), at most `--together` of
them; one that has nobody to share with is trained as by `focus train`. What is tested is the last
checkpoint, on all test puzzles and on the validation puzzles; what is chosen is chosen on
validation puzzles alone. Of the methods only FOCUS is tested at K = 1,024. A solver with a language
model is also tested with what that says taken away, mixed up or unadapted.

With `--minutes` a call saves all runs when its time is over; the same command goes on. `--portable`
makes the states small, to go on elsewhere: carry last, metrics.jsonl and start.json of OUT/RUN.
`python -m experiments.verdicts` says what the stored bits mean for the paper's claims.
"""

import argparse
import contextlib
import gc
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from experiments.stored import (
    RESULTS,
    command_line,
    one_line,
    pack,
    rate_of,
    this_device,
    unpack,
    weights_of,
)
from experiments.studies import STUDIES
from focus.data.table import Table
from focus.errors import UserError
from focus.evaluation.controls import CONTROLS, controlled
from focus.evaluation.puzzles import evaluate
from focus.files import only_one, parse_object, read_object, read_text, sha256, write_text
from focus.folders import MANIFEST, find_folder
from focus.model.base import Model
from focus.model.checkpoint import load_weights, save_model
from focus.model.solver import Solver
from focus.serialization import to_json
from focus.training.config import RunConfig, first_difference, read_config
from focus.training.loop import NotFiniteError, Trainer
from focus.training.stack import Stack, why_not_stackable
from focus.training.time_limit import TimeLimit, time_limit

LONGEST = 1024  # K that only FOCUS is tested at
START = "start.json"  # in a run's folder: what it began with
TESTED = "tested.json"  # and its tests so far, until run.json has them all
STEPS = {"sudoku": (16, 32, 64, 128, 256, LONGEST), "maze": (8, 16, 32, 64, 256, LONGEST)}


def groups(runs: dict[str, RunConfig], most: int) -> list[dict[str, RunConfig]]:
    """Runs that can share their updates, at most so many together."""
    result: list[dict[str, RunConfig]] = []
    for name, config in runs.items():
        fitting = (
            group for group in result
            if len(group) < most and not why_not_stackable(config, next(iter(group.values())))
        )  # fmt: skip
        group = next(fitting, None)
        if group is None:
            result.append(group := {})
        group[name] = config
    return result


def train(
    group: dict[str, RunConfig], out: Path, device: str, splits: Sequence[str],
    is_over: TimeLimit,
) -> str | None:  # fmt: skip
    """Train a group and test each of its runs; where they stand when the time is over before."""
    begun = time.monotonic()

    def report(update: int, lines: list[dict]) -> None:
        if lines and lines[0]:
            losses = " ".join(f"{line['loss']:.3f}" for line in lines)
            valid = [f"{line['validation']['exact']:.3f}" for line in lines if "validation" in line]
            seconds = time.monotonic() - begun
            print(f"{update:6} {seconds:6.0f} s  {losses}  {' '.join(valid)}", flush=True)

    folders = {out / name: config for name, config in group.items()}
    for folder, config in folders.items():
        note_start(folder, config, len(group))
    first = next(iter(group.values()))
    if len(group) > 1:
        stack = Stack(folders, device)
        stack.run(report, is_over)
        trainers = stack.trainers
    else:
        trainers = []
        for folder, config in folders.items():
            trainer = Trainer(config, folder, device)
            trainer.resume()
            trainer.run(lambda update, line: report(update, [line]), is_over)
            trainers.append(trainer)
    last = min(trainer.update for trainer in trainers)
    stand = f"at update {last:,} of {first.optimizer.updates:,}"
    if any(trainer.goes_on for trainer in trainers):
        return stand
    for number, (name, trainer) in enumerate(zip(group, trainers, strict=True), 1):
        done = test(trainer, out / name, splits, is_over)
        if not done or (number < len(group) and is_over()):
            return f"{stand}, with tests left"
    return None


def note_start(folder: Path, config: RunConfig, together: int) -> None:
    """What a run began with and its config does not say; a resumed run must have the same teacher.

    The name of a teacher may stand for several trainings, one after the other.
    """
    noted: dict = {"together": together, "device": this_device()[1]}
    if name := config.teacher.checkpoint:
        noted["teacher"] = weights_of(name)
    path = folder / START
    if find_folder(folder / "last") is None:  # what was noted before belongs to no state
        write_text(path, json.dumps(noted) + "\n")
    elif not path.exists():
        raise UserError(
            f"{folder} has a saved state without {START}, which says what it began with: "
            "carry that file too"
        )
    elif read_object(path).get("teacher") != noted.get("teacher"):
        raise UserError(
            f"{folder} was begun with a teacher of other weights than {name} has now; put those "
            "back, or choose another --out"
        )


def test(trainer: Trainer, folder: Path, splits: Sequence[str], is_over: TimeLimit) -> bool:
    """Store the last weights, averaged where the run averages, and which puzzles they solve.

    Each split and control is stored when it is done: a test that was killed goes on. False when the
    time is over before the last of them.
    """
    load_weights(trainer.model, trainer.step_runner.optimizer.average, folder)
    config = to_json(trainer.config)
    save_model(trainer.model, folder / "final", config, dtype=torch.bfloat16)
    weights = sha256(folder / "final" / MANIFEST)
    figures = _tested(folder, weights)
    parts = {name: _test_split for name in splits if name not in figures}
    if "test" in splits:
        done = figures.get("controls", {})
        controls = (name for name in _controls(trainer.model) if name not in done)
        parts |= dict.fromkeys(controls, _test_control)
    for number, (name, measure) in enumerate(parts.items()):
        if number and is_over():
            return False
        with torch.compiler.set_stance("force_eager"):
            measure(trainer, name, figures, folder.name)
        tested = {"weights": weights, "figures": figures}
        write_text(folder / TESTED, json.dumps(tested) + "\n")
    config = trainer.config
    about = {
        "method": config.method, "seed": config.seed, "updates": config.optimizer.updates,
        **read_object(folder / START),
    }  # fmt: skip
    write_text(folder / "run.json", json.dumps(about | figures) + "\n")
    (folder / TESTED).unlink(missing_ok=True)
    return True


def _tested(folder: Path, weights: str) -> dict:
    """What a call before has tested of the same weights.

    A run that went on from a portable state has slightly others.
    """
    path = folder / TESTED
    stored = read_object(path) if path.exists() else {}
    return stored["figures"] if stored.get("weights") == weights else {}


def _test_split(trainer: Trainer, split: str, figures: dict, run: str) -> None:
    config = trainer.config
    every = sorted({config.eval_steps, *STEPS[config.task.name]})  # One-step: K = 1 too
    to_the_end = split != "test" or config.method == "focus"
    steps = [k for k in every if to_the_end or k != LONGEST]
    table: Table = getattr(trainer.splits, split)
    results = evaluate(trainer.model, table, steps)
    figures[split] = {str(result.steps): pack(result.exact) for result in results}
    figures[f"n_{split}"] = len(table)
    rates = [f"{result.steps}: {100 * result.exact.mean():.1f}" for result in results]
    print(f"{run:28} {split:10} {'  '.join(rates)}", flush=True)


def _test_control(trainer: Trainer, control: str, figures: dict, run: str) -> None:
    with controlled(trainer.model, control):
        (result,) = evaluate(trainer.model, trainer.splits.test, trainer.config.eval_steps)
    figures.setdefault("controls", {})[control] = pack(result.exact)
    rate = 100 * result.exact.mean()
    print(f"{run:28} {control:10} {result.steps}: {rate:.1f}", flush=True)


def _controls(model: Model) -> tuple[str, ...]:
    """The controls that a model can have; one that writes has none."""
    if not isinstance(model, Solver) or model.language_model is None:
        return ()
    return CONTROLS[1:] if model.has_adapter else ("zeroed", "shuffled")


def run(words: argparse.Namespace) -> None:
    """All runs of a study that are not finished yet."""
    if words.together < 1:
        raise UserError(f"--together takes a number from 1, not {words.together}")
    is_over = time_limit(words.minutes)
    device, _ = this_device()
    study = STUDIES[words.study]
    if words.updates is not None:
        if words.updates < 1:
            raise UserError(f"--updates takes a number from 1, not {words.updates}")
        study = replace(study, updates=words.updates)
    every = dict(study.runs(words.data))
    asked = [
        name for name in every
        if not words.only or any(f"-{one}-" in f"-{name}-" for one in words.only)
    ]  # fmt: skip
    if not asked:
        raise UserError(f"--only {' '.join(words.only)}: the runs are {', '.join(every)}")
    runs = {name: replace(every[name], portable=words.portable) for name in asked}
    with only_one(words.out), _one_line_ends():
        unfinished = [  # grouped before: what is finished must not bring others into a group
            {n: config for n, config in group.items() if not (words.out / n / "run.json").exists()}
            for group in groups(runs, words.together)
        ]
        for number, group in enumerate(filter(None, unfinished)):
            stand = f"before {next(iter(group))} begins" if number and is_over() else None
            if stand is None:
                print("together:", ", ".join(group), flush=True)
                stand = train(group, words.out, device, study.splits, is_over)
                torch.compiler.reset()
                gc.collect()
            if stand is not None:
                print(f"the time is over {stand}; the same command goes on", flush=True)
                break


@contextlib.contextmanager
def _one_line_ends() -> Iterator[None]:
    try:
        yield
    except NotFiniteError as error:
        raise UserError(f"{error}; --only has the others go on without it") from error
    except torch.OutOfMemoryError as error:
        raise UserError("the GPU's memory is full; --together 1 takes the least") from error


def stored(study: str) -> Path:
    """Where the figures of a study are kept."""
    return RESULTS / f"campaign-{study}.json"


def store(words: argparse.Namespace) -> None:
    """Add the finished runs of a study to its stored figures, or put them in place of these."""
    path, study = stored(words.study), STUDIES[words.study]
    scale = study.gradient_scale
    scaled = "" if scale is None else f" with gradients scaled by {scale:g}"
    what = f"{study.recipe}{scaled}, {study.updates:,} updates, last checkpoint"
    go_on = path.exists() and not words.anew
    figures = read_object(path) if go_on else {"what": what, "runs": {}}
    runs = figures["runs"]
    files = sorted(words.out.glob("*/run.json"))
    if not files:
        raise UserError(f"{words.out} holds no finished run (NAME/run.json)")
    for file in files:
        folder = file.parent
        config = _check_run(folder, words.study)
        metrics = folder / "metrics.jsonl"
        text = read_text(metrics) if config.optimizer.updates else ""  # base trains nothing
        lines = [parse_object(line, str(metrics)) for line in text.splitlines()]
        curves = {
            "training_exact": {line["update"]: round(line["exact"], 4) for line in lines},
            "validation_exact": {
                line["update"]: round(line["validation"]["exact"], 4)
                for line in lines if line.get("validation")
            },
        }  # fmt: skip
        seconds = round(lines[-1]["seconds"], 1) if lines else 0.0  # of all sittings
        runs[folder.name] = {**read_object(file), "seconds": seconds, **curves}
    if len({runs[name].get("teacher", "not noted") for name in study.taught() & runs.keys()}) > 1:
        raise UserError(
            f"runs of {words.study} would have teachers of different weights ({path.name} and "
            f"{words.out}); train them with the same one, or store the new ones alone with --anew"
        )
    write_text(path, json.dumps(figures, indent=1) + "\n")


def _check_run(folder: Path, study: str) -> RunConfig:
    """The config of a run; refuses one that is none of a study's."""
    config = read_config(folder / "config.json")
    expected = dict(STUDIES[study].runs(config.data)).get(folder.name)
    if expected is None:
        raise UserError(f"{folder} is no run of {study}: it has none of this name")
    if other := first_difference(config, expected):
        raise UserError(f"{folder} is no run of {study}: it differs in --{other}")
    return config


def table(words: argparse.Namespace) -> None:
    """Rates of every stored run."""
    for study in words.studies or [name for name in STUDIES if stored(name).exists()]:
        if not stored(study).exists():
            raise UserError(f"no runs of {study} are stored; studies: {', '.join(STUDIES)}")
        figures = read_object(stored(study))
        print(f"{study}: {figures['what']}")
        for name, figure in figures["runs"].items():
            split = "test" if "test" in figure else "validation"
            rates = [
                f"{steps}: {rate_of(unpack(bits, figure[f'n_{split}']))}"
                for steps, bits in figure[split].items()
            ]
            print(f"  {name:28} {'  '.join(rates)}")


def show(words: argparse.Namespace) -> None:
    """The studies, and how many of their runs are stored."""
    for name, study in STUDIES.items():
        runs = dict(study.runs(""))
        known = read_object(stored(name))["runs"] if stored(name).exists() else {}
        count = f"{len(runs)} runs, {len(runs.keys() & known.keys())} of them stored"
        print(f"{name}: {study.recipe}, {study.updates:,} updates, {count}")
        for group in groups(runs, words.together):
            print("  together:", ", ".join(group))


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parts = parser.add_subparsers(required=True)
    listed = parts.add_parser("list")
    listed.set_defaults(call=show)
    trained = parts.add_parser("run")
    trained.add_argument("study", choices=STUDIES)
    trained.add_argument("--data", required=True)
    trained.add_argument("--updates", type=int, help="fewer than the study's, to try it out")
    trained.add_argument("--only", nargs="*", help="runs with these words in their names: focus-1")
    trained.add_argument("--minutes", type=float, help="then save all runs and end")
    trained.add_argument("--portable", action="store_true", help="small states, to be carried")
    trained.set_defaults(call=run)
    for part in (listed, trained):
        part.add_argument("--together", type=int, default=20, help="runs in a stack, at most")
    kept = parts.add_parser("store")
    kept.add_argument("study", choices=STUDIES)
    kept.add_argument("--anew", action="store_true", help="drop what was stored before")
    kept.set_defaults(call=store)
    for part in (trained, kept):
        part.add_argument("--out", type=Path, required=True)
    shown = parts.add_parser("table")
    shown.add_argument("studies", nargs="*")
    shown.set_defaults(call=table)
    words = parser.parse_args()
    with one_line("campaign"):
        words.call(words)


if __name__ == "__main__":
    main()
