"""The methods in the paper's own regime: many seeds, trained in stacks, stored puzzle by puzzle.

python -m experiments.campaign list                             # studies and their runs
python -m experiments.campaign run STUDY --data DIR --out DIR   # train, test; a killed one goes on
python -m experiments.campaign store STUDY --out DIR            # finished runs to docs/results
python -m experiments.campaign table [STUDY ...]                # tables of the stored figures

A study is a recipe, a number of updates, methods and seeds. Runs that differ in seed, selector,
penalty and optimizer alone share their updates (`focus/training/stack.py`), at most `--together` of
them. What is tested is the last checkpoint, on all test puzzles and on the validation puzzles; what
is chosen is chosen on validation puzzles alone. Of the methods only FOCUS is tested at K = 1,024. A
solver with a language model is also tested with what that says taken away, mixed up or unadapted.
`python -m experiments.verdicts` says what the stored bits mean for the paper's claims.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import numpy as np
import torch

from experiments.stored import RESULTS, command_line, one_line, pack, unpack
from focus.data.table import Table
from focus.errors import UserError
from focus.evaluation.controls import CONTROLS, controlled
from focus.evaluation.puzzles import evaluate
from focus.evaluation.statistics import wilson_interval
from focus.files import write_text
from focus.model.base import Model
from focus.model.checkpoint import save_model
from focus.model.solver import Solver
from focus.recipes import recipe
from focus.training.config import RunConfig, TextKLConfig
from focus.training.loop import Trainer
from focus.training.stack import Stack, why_not_stackable

STEPS = {"sudoku": (16, 32, 64, 128, 256, 1024), "maze": (8, 16, 32, 64, 256, 1024)}
TEACHER, MAZE_TEACHER = "sudoku-teacher", "maze-teacher"  # runs/sudoku_teacher.sh and so on
Change = Callable[[RunConfig], RunConfig]


def _optimizer(**values) -> Change:
    return lambda config: replace(config, optimizer=replace(config.optimizer, **values))


def _updater(**values) -> Change:
    def change(config: RunConfig) -> RunConfig:
        updater = replace(config.solver.updater, **values)
        return replace(config, solver=replace(config.solver, updater=updater))

    return change


def _task(**values) -> Change:
    return lambda config: replace(config, task=replace(config.task, **values))


def _all(*changes: Change) -> Change:
    return lambda config: reduce(lambda made, change: change(made), changes, config)


# What the paper leaves open, one choice changed at a time.
CHOICES: dict[str, Change] = {
    "as-is": lambda config: config,
    "uniform-steps": lambda config: replace(config, step_weights="uniform"),
    "late-annealing": _optimizer(knots=((0.6, 0.9), (1.0, 0.02))),
    "beta2-0.99": _optimizer(beta2=0.99),
    "qk-norm": _updater(qk_norm=True),
    "coin-of-two": _optimizer(accumulate=8),
    "decay-0.05": _updater(answer_decay=0.05),
    "decay-0.1": _updater(answer_decay=0.1),
}
_EARLY_STAGES = ((0.05, 16, 4), (0.1, 32, 4), (0.4, 64, 8), (0.7, 96, 8), (1.0, 128, 8))
# What may let a long run learn sooner, or keep it from learning its puzzles by heart.
LONG_CHOICES: dict[str, Change] = {
    "half-rate": _optimizer(learning_rate=1.5e-4),
    # Second moments over a thousand updates, as PyTorch has them, instead of over twenty.
    "beta2-0.999": _optimizer(beta2=0.999),
    "beta2-0.999-no-clip": _optimizer(beta2=0.999, clip=1e9),
    # Long rollouts and eight replayed steps sooner; the paper does not say when its stages change.
    "early-stages": lambda config: replace(
        config, replay=replace(config.replay, stages=_EARLY_STAGES)
    ),
    "no-dropout": _updater(dropout=0.0),
    "gradient-scale-0.8": _updater(bptt_gradient_scale=0.8),
    "gradient-scale-0.6": _updater(bptt_gradient_scale=0.6),
    "fresh-symmetries": lambda config: replace(config, augment=True),
}
# Does the language model matter? Without its adapter; with givens that it alone can tell.
LANGUAGE_MODEL_CHOICES: dict[str, Change] = {
    "frozen": lambda config: replace(
        config, solver=replace(config.solver, backbone=replace(config.solver.backbone, frozen=True))
    ),
    "givens-hidden": _task(givens_shown=False),
}
# Does a puzzle adapter have to cost its text? The adapter's rate, and a term that holds the text.
RATES: dict[str, Change] = {
    f"adapter-rate-{rate:g}": _optimizer(lora_learning_rate=rate)
    for rate in (1e-5, 2e-5, 5e-5, 1e-4, 2e-4)
}
TEXT_KL: dict[str, Change] = {
    f"adapter-rate-0.0001-text-kl-{weight:g}": _all(
        RATES["adapter-rate-0.0001"],
        lambda config, weight=weight: replace(config, text_kl=TextKLConfig(weight)),
    )
    for weight in (0.1, 1.0)
}
# What the updater sees of a maze's answer, and how much of it is forgotten at each step.
MAZE_CHOICES: dict[str, Change] = {
    "as-is": lambda config: config,
    "decay-0.2": _updater(answer_decay=0.2),
    "decay-0.2-raw-logits": _all(_updater(answer_decay=0.2), _task(answer_features="logits")),
    "bound-8": _task(logit_bound=8.0),
    "bound-8-decay-0.1": _all(_task(logit_bound=8.0), _updater(answer_decay=0.1)),
    "bound-8-decay-0.2": _all(_task(logit_bound=8.0), _updater(answer_decay=0.2)),
}


def _few(config: RunConfig) -> RunConfig:
    """The 1,000 puzzles of train alone."""
    return replace(config, more_data=())


# What may keep a solver from knowing 1,000 puzzles by heart.
_DECAY = _optimizer(weight_decay=0.3)  # summed over the run, times the rate: 1.8, as it is 0.06
_SCALE, _DROPOUT = _updater(bptt_gradient_scale=0.5), _updater(dropout=0.2)
THOUSAND_CHOICES: dict[str, Change] = {
    "thousand": _few,
    "thousand-decay": _all(_few, _DECAY),
    "thousand-scale": _all(_few, _SCALE),
    "thousand-dropout": _all(_few, _DROPOUT),
    "thousand-adamw": _all(
        _few, _SCALE, _optimizer(kind="adamw", learning_rate=4e-4, weight_decay=1.0)
    ),
    "thousand-all": _all(_few, _DECAY, _SCALE, _DROPOUT),
}

ALL_CHOICES = (
    CHOICES | LONG_CHOICES | LANGUAGE_MODEL_CHOICES | RATES | TEXT_KL | MAZE_CHOICES
    | THOUSAND_CHOICES
)  # fmt: skip


@dataclass(frozen=True)
class Study:
    """Runs that are compared with each other."""

    recipe: str
    updates: int
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    choices: tuple[str, ...] = ("as-is",)
    splits: tuple[str, ...] = ("test", "validation")  # that the last checkpoint is tested on
    teacher: str = ""  # its checkpoint
    gradient_scale: float | None = None  # between steps, where it is not the recipe's

    def runs(self, data: str) -> Iterator[tuple[str, RunConfig]]:
        """Name and config of every run."""
        for choice in self.choices:
            for seed in self.seeds:
                for method in self.methods:
                    config = recipe(f"{self.recipe}/{method}")
                    if self.teacher and config.step_weights != "final":  # for methods of curation
                        taught = replace(config.teacher, checkpoint=self.teacher)
                        config = replace(config, teacher=taught)
                    if self.gradient_scale is not None:
                        config = _updater(bptt_gradient_scale=self.gradient_scale)(config)
                    warmup = min(config.optimizer.warmup, self.updates // 5)
                    config = replace(
                        config, seed=seed, data=data,
                        optimizer=replace(config.optimizer, updates=self.updates, warmup=warmup),
                        eval_every=max(1, self.updates // 5), log_every=max(1, self.updates // 100),
                        save_every=max(1, self.updates // 10),
                    )  # fmt: skip
                    yield f"{choice}-{method}-{seed}", ALL_CHOICES[choice](config)


STUDIES = {
    "choices": Study(
        "sudoku", 10_000, ("focus",), (42, 43), tuple(CHOICES), ("validation",), gradient_scale=1.0
    ),
    "choices-mini-maze": Study(
        "mini-maze", 300, ("focus",), (1, 2, 3, 4, 5), tuple(MAZE_CHOICES), ("validation",)
    ),
    "primary": Study(
        "sudoku", 50_000, ("focus", "random", "no-penalty", "random-penalty"), (1, 2, 3, 4, 5),
        teacher=TEACHER,
    ),
    # As the paper has it: gradients go back through all steps of a rollout unscaled.
    "primary-unscaled": Study(
        "sudoku", 50_000, ("focus", "random"), (1, 2, 3), teacher=TEACHER, gradient_scale=1.0
    ),
    "long-choices": Study(
        "sudoku", 50_000, ("focus",), (1, 2), ("fresh-symmetries", "gradient-scale-0.6"),
        teacher=TEACHER,
    ),
    "secondary": Study(
        "sudoku", 16_667,
        ("focus", "random", "no-replay", "recurrent", "energy-hard", "fixed-mix", "no-memory",
         "one-step", "permuted", "easiest", "hardest"), (1, 2, 3),
        teacher=TEACHER,
    ),
    "secondary-untaught": Study("sudoku", 16_667, ("focus",), (1, 2, 3)),
    "secondary-unscaled": Study(
        "sudoku", 16_667, ("focus", "no-replay"), (1, 2, 3), teacher=TEACHER, gradient_scale=1.0
    ),
    # The paper's Table 1 for a real language model, and the same without one.
    "table1": Study(
        "sudoku/qwen2.5-coder-0.5b", 20_000, ("focus", "random"), (1, 2, 3), teacher=TEACHER
    ),
    "table1-others": Study(
        "sudoku/qwen2.5-coder-0.5b", 20_000, ("recurrent", "one-step", "direct"), (1,)
    ),
    "table1-controls": Study(
        "sudoku/qwen2.5-coder-0.5b", 20_000, ("focus",), (1,),
        tuple(LANGUAGE_MODEL_CHOICES), teacher=TEACHER,
    ),
    "adapter-rates": Study(
        "sudoku/qwen2.5-coder-0.5b", 10_000, ("focus",), (1,), (*RATES, *TEXT_KL), teacher=TEACHER
    ),
    "table1-none": Study("sudoku", 20_000, ("focus", "random"), (1, 2, 3), teacher=TEACHER),
    "thousand": Study(
        "sudoku-quick", 6_000, ("focus",), (1,), tuple(THOUSAND_CHOICES), ("validation",)
    ),
    "primary-maze": Study(
        "maze", 16_000, ("focus", "random", "no-penalty", "random-penalty"), (1, 2, 3),
        teacher=MAZE_TEACHER,
    ),
}  # fmt: skip


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


def train(group: dict[str, RunConfig], out: Path, device: str, splits: Sequence[str]) -> None:
    """Train a group and test each of its runs."""
    begun = time.monotonic()

    def report(update: int, lines: list[dict]) -> None:
        if lines and lines[0]:
            losses = " ".join(f"{line['loss']:.3f}" for line in lines)
            valid = [f"{line['validation']['exact']:.3f}" for line in lines if "validation" in line]
            seconds = time.monotonic() - begun
            print(f"{update:6} {seconds:6.0f} s  {losses}  {' '.join(valid)}", flush=True)

    folders = {out / name: config for name, config in group.items()}
    first = next(iter(group.values()))
    if not why_not_stackable(first, first):
        stack = Stack(folders, device)
        stack.run(report)
        trainers = stack.trainers
    else:
        trainers = []
        for folder, config in folders.items():
            trainer = Trainer(config, folder, device)
            trainer.resume()
            trainer.run(lambda update, line: report(update, [line]))
            trainers.append(trainer)
    for name, trainer in zip(group, trainers, strict=True):
        test(trainer, out / name, device, splits, len(group))


def test(trainer: Trainer, folder: Path, device: str, splits: Sequence[str], together: int) -> None:
    """Store the last weights, and which puzzles they solve."""
    config = trainer.config
    save_model(trainer.model, folder / "final", dtype=torch.bfloat16)
    figures: dict = {
        "method": config.method, "seed": config.seed, "updates": config.optimizer.updates,
        "together": together, "device": torch.cuda.get_device_name() if device != "cpu" else "cpu",
    }  # fmt: skip
    every = STEPS[config.task.name]
    with torch.compiler.set_stance("force_eager"):
        for split in splits:
            steps = every[:-1] if split == "test" and config.method != "focus" else every
            table: Table = getattr(trainer.splits, split)
            results = evaluate(trainer.model, table, steps)
            figures[split] = {str(result.steps): pack(result.exact) for result in results}
            figures[f"n_{split}"] = len(table)
            rates = [f"{result.steps}: {100 * result.exact.mean():.1f}" for result in results]
            print(f"{folder.name:28} {split:10} {'  '.join(rates)}", flush=True)
        for control in _controls(trainer.model) if "test" in splits else ():
            with controlled(trainer.model, control):
                (result,) = evaluate(trainer.model, trainer.splits.test, config.eval_steps)
            figures.setdefault("controls", {})[control] = pack(result.exact)
            rate = 100 * result.exact.mean()
            print(f"{folder.name:28} {control:10} {result.steps}: {rate:.1f}", flush=True)
    write_text(folder / "run.json", json.dumps(figures) + "\n")


def _controls(model: Model) -> tuple[str, ...]:
    """The controls that a model can have; one that writes has none."""
    if not isinstance(model, Solver) or model.language_model is None:
        return ()
    return CONTROLS[1:] if model.has_adapter else ("zeroed", "shuffled")


def run(words: argparse.Namespace) -> None:
    """All runs of a study that are not finished yet."""
    if words.together < 1:
        raise UserError(f"--together takes a number from 1, not {words.together}")
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    study = STUDIES[words.study]
    if words.updates:
        study = replace(study, updates=words.updates)
    runs = {
        name: config for name, config in study.runs(words.data)
        if not (words.out / name / "run.json").exists()
        and (not words.only or any(part in name for part in words.only))
    }  # fmt: skip
    for group in groups(runs, words.together):
        print("together:", ", ".join(group), flush=True)
        train(group, words.out, device, study.splits)
        torch.compiler.reset()
        gc.collect()


def stored(study: str) -> Path:
    """Where the figures of a study are kept."""
    return RESULTS / f"campaign-{study}.json"


def store(words: argparse.Namespace) -> None:
    """Add the finished runs of a study to its stored figures."""
    path = stored(words.study)
    known = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else {}
    for file in sorted(words.out.glob("*/run.json")):
        text = (file.parent / "metrics.jsonl").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        exact = {line["update"]: round(line["exact"], 4) for line in lines}
        run = json.loads(file.read_text(encoding="utf-8"))
        seconds = round(lines[-1]["seconds"], 1)  # of all sittings
        known[file.parent.name] = {**run, "seconds": seconds, "training_exact": exact}
    study = STUDIES[words.study]
    scale = study.gradient_scale
    scaled = "" if scale is None else f" with gradients scaled by {scale:g}"
    what = f"{study.recipe}{scaled}, {study.updates:,} updates, last checkpoint"
    write_text(path, json.dumps({"what": what, "runs": known}, indent=1) + "\n")


def table(words: argparse.Namespace) -> None:
    """Rates of every stored run."""
    for study in words.studies or [name for name in STUDIES if stored(name).exists()]:
        if not stored(study).exists():
            raise UserError(f"no runs of {study} are stored; studies: {', '.join(STUDIES)}")
        figures = json.loads(stored(study).read_text(encoding="utf-8"))
        print(f"{study}: {figures['what']}")
        for name, figure in figures["runs"].items():
            rates, split = [], "test" if "test" in figure else "validation"
            for steps, bits in figure[split].items():
                solved = unpack(bits, figure[f"n_{split}"])
                low, high = wilson_interval(int(solved.sum()), len(solved))
                rates.append(
                    f"{steps}: {100 * np.mean(solved):.1f} [{100 * low:.1f}, {100 * high:.1f}]"
                )
            print(f"  {name:28} {'  '.join(rates)}")


def show(words: argparse.Namespace) -> None:
    """The studies."""
    for name, study in STUDIES.items():
        runs = dict(study.runs(""))
        print(f"{name}: {study.recipe}, {study.updates:,} updates, {len(runs)} runs")
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
    trained.add_argument("--only", nargs="*", help="runs whose names have one of these parts")
    trained.set_defaults(call=run)
    for part in (listed, trained):
        part.add_argument("--together", type=int, default=20, help="runs in a stack, at most")
    kept = parts.add_parser("store")
    kept.add_argument("study", choices=STUDIES)
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
