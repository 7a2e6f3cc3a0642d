"""Why long rollouts collapse in the paper's regime: short runs of variants, and transplants.

python -m experiments.paper_regime train VARIANT SEED --data DIR --out DIR [--updates 10000]
    one run on a GPU; variants: as-is, probabilities, log-probabilities, probabilities-decay,
    random-constant, no-penalty, no-replay; ends in OUT/VARIANT-SEED.json
python -m experiments.paper_regime store DIR     # add its JSON files to docs/results
python -m experiments.paper_regime transplant RUN --data DIR [--limit 200] [--store]
    parts of an early state put into a late one and back, for stored weights

The data is train and extra, the schedule the paper's, rescaled; one mini-batch of 16 an update; no
decay but in `probabilities-decay`. A random constant per cell in the start logits of base rollouts
is patched in: it tells a clock from other causes, and is no way to train.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from experiments.stored import RESULTS, command_line
from focus.data.corpus import CorpusConfig
from focus.data.sources import open_source
from focus.data.splits import load_split
from focus.evaluation.puzzles import evaluate
from focus.files import write_text
from focus.model.base import evaluating
from focus.model.recurrence import Rollout
from focus.model.solver import Solver
from focus.model.state import State
from focus.model.updater import UpdaterConfig
from focus.recipes import recipe
from focus.tasks import Sudoku
from focus.training.config import RunConfig, TeacherConfig
from focus.training.loop import Trainer

STORED = RESULTS / "paper-regime-trials.json"
STEPS = (16, 32, 48, 64, 128, 256, 1024)
LOOKED_AT = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
_CONSTANT = 4.0  # deviation of the random constant
EARLY, LATE, FURTHER = 16, 96, (0, 32, 128)  # steps of the transplants


def patch(variant: str) -> None:
    """What is no setting of the task."""
    if variant == "random-constant":
        initial = Sudoku.initial

        def shifted(task: Sudoku, x) -> Tensor:
            z = initial(task, x)
            if not torch.is_grad_enabled():  # selection and evaluation start from s_0
                return z
            constant = torch.randn(*x.grid.shape, 1, device=z.device) * _CONSTANT
            return task.clamp(z + constant, x)

        Sudoku.initial = shifted


def a_run(variant: str, seed: int, updates: int, data: str) -> RunConfig:
    """The paper's recipe, rescaled, with what the variant changes."""
    method = variant if variant in ("no-penalty", "no-replay") else "focus"
    config = recipe(f"sudoku/{method}")
    features = {"log-probabilities": variant, "probabilities": "probabilities"}
    seen = features.get(variant.removesuffix("-decay"), "logits")
    updater = UpdaterConfig(answer_decay=0.05 if variant.endswith("-decay") else 0.0)
    config = replace(
        config, task=replace(config.task, answer_features=seen), corpus=CorpusConfig(),
        solver=replace(config.solver, updater=updater), augment=True, teacher=TeacherConfig(),
    )  # fmt: skip
    optimizer = replace(
        config.optimizer, accumulate=1, updates=updates, warmup=min(300, updates // 5)
    )
    return replace(
        config, seed=seed, data=data, more_data=("extra",), optimizer=optimizer,
        eval_every=updates, save_every=updates, log_every=max(1, updates // 20),
    )  # fmt: skip


@torch.no_grad()
def along(solver: Solver, x, y) -> list[dict]:
    """What the logits of blank cells and the solved puzzles do over a rollout."""
    task, blank, rows = solver.task, x.grid == 0, []
    with evaluating(solver):
        rollout = solver.rollout(x)
        for step in range(LOOKED_AT[-1] + 1):
            state = next(rollout) if step else rollout.state
            if step in LOOKED_AT:
                z = state.z[blank]
                rows.append({
                    "k": step, "mean_logit": z.mean().item(),
                    "spread": (z.amax(-1) - z.amin(-1)).mean().item(),
                    "at_bound": (z.abs() >= task.logit_bound - 0.1).float().mean().item(),
                    "exact": task.exact(state.z, x, y).float().mean().item(),
                    "energy": task.energy(state.z, x, y).mean().item(),
                })  # fmt: skip
    return rows


def train(words: argparse.Namespace) -> None:
    """One run, and its rollouts on validation puzzles."""
    patch(words.variant)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    config = a_run(words.variant, words.seed, words.updates, words.data)
    trainer = Trainer(config, words.out / f"{words.variant}-{words.seed}", device)
    trainer.run()
    solver = Solver.from_pretrained(trainer.folder).to(device)
    validation = trainer.splits.validation
    rates = evaluate(solver, validation, list(STEPS))
    part = validation[:500]
    x, y = solver.task.unpack(solver.task.pack(part.questions, part.answers).to(device))
    result = {
        "variant": words.variant, "seed": words.seed, "updates": words.updates,
        "exact": {rate.steps: float(rate.exact.mean()) for rate in rates}, "n": len(validation),
        "along": along(solver, x, y),
    }  # fmt: skip
    write_text(words.out / f"{words.variant}-{words.seed}.json", json.dumps(result) + "\n")


def _common_mode(z: Tensor) -> Tensor:
    return z.mean(-1, keepdim=True)


TRANSPLANTS: dict[str, Callable[[State, State], State]] = {
    "late, as it is": lambda early, late: late,
    "late answer, early memory": lambda early, late: State(late.z, early.u),
    "early answer, late memory": lambda early, late: State(early.z, late.u),
    "late, common mode of early": lambda early, late: State(
        late.z - _common_mode(late.z) + _common_mode(early.z), late.u
    ),
    "early, common mode of late": lambda early, late: State(
        early.z - _common_mode(early.z) + _common_mode(late.z), early.u
    ),
    "late, spread of early": lambda early, late: State(
        _common_mode(late.z) + (late.z - _common_mode(late.z)) * _ratio(early.z, late.z), late.u
    ),
}


def _ratio(early: Tensor, late: Tensor) -> Tensor:
    deviation = late.std(-1, keepdim=True).clamp(min=1e-3)
    return (early.std(-1, keepdim=True) / deviation).clamp(max=1.0)


@torch.no_grad()
def transplant(words: argparse.Namespace) -> None:
    """Exact rates after further steps from states put together of an early and a late one."""
    patch(words.run.name.rpartition("-")[0])
    solver = Solver.from_pretrained(words.run).eval()
    table = load_split(open_source(words.data), solver.task, "validation")[: words.limit]
    x, y = solver.task.unpack(solver.task.pack(table.questions, table.answers))
    conditioning = solver.encode(x)
    states = [solver.updater.initial(x)]
    states += islice(Rollout(solver.updater, x, conditioning, states[0]), LATE)
    rows = {}
    for name, build in TRANSPLANTS.items():
        mixed = build(states[EARLY], states[LATE])
        start = State(solver.task.clamp(mixed.z, x), mixed.u)
        tail = [start, *islice(Rollout(solver.updater, x, conditioning, start), FURTHER[-1])]
        exact = {t: solver.task.exact(tail[t].z, x, y).float().mean().item() for t in FURTHER}
        rows[name] = exact
        print(name, exact, flush=True)
    if words.store:
        stored = json.loads(STORED.read_text(encoding="utf-8"))
        stored.setdefault("transplants", {})[words.run.name] = {
            "n": len(table), "early": EARLY, "late": LATE, "exact_after_further_steps": rows
        }  # fmt: skip
        write_text(STORED, json.dumps(stored, indent=1) + "\n")


def store(words: argparse.Namespace) -> None:
    """All runs of a folder, as docs/results keeps them."""
    runs = [json.loads(path.read_text()) for path in sorted(words.folder.glob("*-4?.json"))]
    what = (
        "sudoku, 10,000 updates of 16, train and extra, no language model; validation puzzles of "
        "Sudoku-Extreme; one H200, two runs at a time"
    )
    write_text(STORED, json.dumps({"what": what, "runs": runs}, indent=1) + "\n")


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("train")
    one.add_argument("variant")
    one.add_argument("seed", type=int)
    one.add_argument("--updates", type=int, default=10_000)
    one.add_argument("--out", type=Path, required=True)
    one.set_defaults(call=train)
    moved = parts.add_parser("transplant")
    moved.add_argument("run", type=Path)
    moved.add_argument("--limit", type=int, default=200)
    moved.add_argument("--store", action="store_true")
    moved.set_defaults(call=transplant)
    for part in (one, moved):
        part.add_argument("--data", required=True)
    kept = parts.add_parser("store")
    kept.add_argument("folder", type=Path)
    kept.set_defaults(call=store)
    words = parser.parse_args()
    words.call(words)


if __name__ == "__main__":
    main()
