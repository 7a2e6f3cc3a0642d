"""Does the frontier predict what helps? Held-out loss after one optimizer step on visited states.

python -m experiments.one_step RUN [RUN ...] [--pools 8] [--out NAME]

A run is taken up where it was saved, with its optimizer. A pool of training puzzles is rolled out;
for each candidate t the puzzles are sorted by |D - gamma| and cut into groups. From the same
weights, each group makes one step on its replay loss, and the loss of held-out puzzles says what
that step was worth. The gain is the loss before less the loss after, in thousandths. Then every
selector chooses a state for each puzzle of the pool, and the same groups make their steps on these.
The figures go to docs/results/NAME.json.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from experiments.stored import RESULTS, command_line, markdown, one_line, resumed, this_device
from focus.curation.algorithm import replay_loss
from focus.curation.defect import contraction_defect
from focus.curation.records import Batch, Scores, Selection
from focus.curation.selectors import SELECTORS
from focus.files import write_text
from focus.model.base import evaluating
from focus.model.precision import mixed_precision
from focus.model.solver import solver_of
from focus.model.state import State, pick_states
from focus.training.config import TeacherConfig, read_config
from focus.training.puzzles import load_puzzles
from focus.training.schedule import scheduled


@dataclass(frozen=True)
class Pool:
    """Training puzzles with the scored states of their rollouts."""

    batch: Batch
    steps: list[int]  # t of the candidates
    states: list[State]  # s_t
    energy: Tensor  # E_x at each t (candidates, puzzles)
    defect: Tensor
    eligible: Tensor


class OneStep:
    """A saved run, from whose weights single steps are tried."""

    def __init__(self, folder: Path, device: str, held_out: int):
        config = replace(read_config(folder / "config.json"), capture=False, compile=False)
        self.config = config
        untaught = replace(config, teacher=TeacherConfig())  # which has no part in a replay
        self.trainer = resumed(config, folder, device, load_puzzles(untaught, device))
        self.solver = solver_of(self.trainer.model, str(folder))
        self.optimizer = self.trainer.step_runner.optimizer
        now = scheduled(min(self.trainer.update, config.optimizer.updates - 1), config)
        self.stage = now.stage
        self.optimizer.set_learning_rates(now.learning_rate_share)
        table = self.trainer.splits.validation[:held_out]
        packed = config.task.pack(table.questions, table.answers)
        self.x, self.y = (part.to(device) for part in config.task.unpack(packed))
        self.saved = [tensor.clone() for tensor in self.optimizer.tensors()]

    def pool(self, number: int, size: int) -> Pool:
        """Training puzzles, drawn anew."""
        sampler, config, (K_p, h) = self.trainer.step_runner.sampler, self.config, self.stage
        update = torch.tensor(config.optimizer.updates + number, device=self.trainer.device)
        batch = sampler.batch(update, update, torch.arange(size, device=self.trainer.device))
        steps = [t for t in config.curation.candidates if t + h <= K_p]
        x, y, task = batch.x, batch.y, self.solver.task
        with torch.no_grad(), evaluating(self.solver):
            tau = self.solver.roll(
                self.solver.updater.initial(x), self.solver.encode(x), x, K_p,
                keep={*steps, *(t + h for t in steps)},
            )  # fmt: skip
            z_t, z_h = (torch.stack([tau.states[t + d].z for t in steps]) for d in (0, h))
            before, after = task.energy(z_t, x, y), task.energy(z_h, x, y)
            eligible = task.eligible(
                exact_at=task.exact(z_t, x, y), exact_after=task.exact(z_h, x, y),
                exact_end=task.exact(tau.last.z, x, y),
            )  # fmt: skip
        curation = config.curation
        defect = contraction_defect(before, after, h, curation.rho, curation.epsilon)
        # s_0 is a view of a weight, which steps change.
        states = [tau.states[t].detach().map(torch.clone) for t in steps]
        return Pool(batch, steps, states, before, defect, eligible)

    @torch.no_grad()
    def held_out(self) -> float:
        """Loss of base rollouts of held-out puzzles."""
        x, y, solver = self.x, self.y, self.solver
        with evaluating(solver):
            tau = solver.roll(solver.updater.initial(x), solver.encode(x), x, self.config.steps)
            return float(solver.loss(tau.answers, x, y, self.config.step_weights).mean())

    def after_step(self, pool: Pool, puzzles: Tensor, chosen: Tensor) -> float:
        """What is held out after a step on the chosen states of some puzzles; undone again."""
        whole = pool.batch
        batch = Batch(
            whole.x[puzzles], whole.y[puzzles], whole.keys[puzzles], whole.puzzle_keys[puzzles],
            whole.row[puzzles], whole.symmetry[puzzles], whole.stratified[puzzles],
        )  # fmt: skip
        states = [state.map(lambda tensor: tensor[puzzles]) for state in pool.states]
        steps = torch.tensor(pool.steps, device=chosen.device)[chosen]
        yes = torch.ones_like(puzzles, dtype=torch.bool)
        scores = Scores(steps, pool.energy[chosen, puzzles], pool.defect[chosen, puzzles])
        selection = Selection(pick_states(states, chosen).detach(), yes, ~yes, ~yes, scores)
        config, solver = self.config, self.solver
        solver.train()
        torch.manual_seed(config.seed)  # the same dropout for every step
        with mixed_precision(torch.device(self.trainer.device)):
            loss = replay_loss(
                solver, batch, solver.encode(batch.x), selection, self.stage, config.curation,
                config.curation.beta,
            )  # fmt: skip
            (config.replay.weight * loss.mean()).backward()
        self.optimizer.step(torch.tensor(self.trainer.update), 1)
        result = self.held_out()
        with torch.no_grad():
            for tensor, value in zip(self.optimizer.tensors(), self.saved, strict=True):
                tensor.copy_(value)
        return result

    def study(self, pools: int, size: int, group: int) -> dict:
        """Gains of groups by t and |D|, and of the states that each selector chooses."""
        loss = self.held_out()
        gamma = self.config.curation.gamma
        groups: list[dict] = []
        chosen_by: dict[str, list[float]] = {name: [] for name in SELECTORS}
        for number in range(pools):
            pool = self.pool(number, size)
            for index, t in enumerate(pool.steps):
                usable = pool.eligible[index].nonzero()[:, 0]
                distance = (pool.defect[index] - gamma).abs()
                for part in usable[distance[usable].argsort()].split(group):
                    if len(part) < group:
                        continue
                    after = self.after_step(pool, part, torch.full_like(part, index))
                    groups.append(
                        {
                            "pool": number, "t": t, "distance": float(distance[part].mean()),
                            "energy": float(pool.energy[index, part].mean()),
                            "gain": 1e3 * (loss - after),
                        }
                    )  # fmt: skip
            usable = pool.eligible.any(0).nonzero()[:, 0]
            for name, make in SELECTORS.items():
                choice = make(gamma)(pool.defect, pool.energy, pool.eligible, pool.batch.keys)
                for part in usable.split(group):
                    if len(part) == group:
                        after = self.after_step(pool, part, choice[part])
                        chosen_by[name].append(1e3 * (loss - after))
        return {
            "update": self.trainer.update, "stage": list(self.stage), "loss": loss,
            "groups": groups, "selectors": chosen_by,
        }  # fmt: skip


def rank_correlation(first: list[float], second: list[float]) -> float:
    """Spearman's; not a number where one of the two does not vary."""
    if len(first) < 2:
        return float("nan")
    ranks = []
    for values in (first, second):
        _, place, count = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(count) - (count - 1) / 2)[place])  # equal values share their ranks
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.corrcoef(*ranks)[0, 1])


def _interval(values: Iterable[float]) -> str:
    """Mean and its standard error."""
    known = [value for value in values if np.isfinite(value)]
    if not known:
        return "–"
    error = np.std(known, ddof=1) / len(known) ** 0.5 if len(known) > 1 else float("nan")
    return f"{np.mean(known):+.2f} ± {error:.2f}"


def table(figures: dict) -> str:
    """For each saved run: rank correlations with the gain, and what selectors lose to FOCUS."""
    others = [name for name in SELECTORS if name != "focus"]
    head = ["updates", "distance, all t", "distance, within a t", "t", "gain of focus"]
    rows = [[*head, *(f"over {name}" for name in others)]]
    for run in figures["runs"].values():
        by_pool: dict[int, list[dict]] = {}
        for group in run["groups"]:
            by_pool.setdefault(group["pool"], []).append(group)

        def of(groups: list[dict], key: str) -> float:
            gains = [group["gain"] for group in groups]
            return rank_correlation([group[key] for group in groups], gains)

        overall = [of(groups, "distance") for groups in by_pool.values()]
        by_step = [of(groups, "t") for groups in by_pool.values()]
        within = [
            of([group for group in groups if group["t"] == t], "distance")
            for groups in by_pool.values() for t in {group["t"] for group in groups}
        ]  # fmt: skip
        gains = {name: np.array(values) for name, values in run["selectors"].items()}
        ahead = [gains["focus"] - gains[name] for name in others]  # of steps on the same puzzles
        columns = (overall, within, by_step, gains["focus"], *ahead)
        rows.append([f"{run['update']:,}", *(_interval(values) for values in columns)])
    return markdown(rows)


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--pools", type=int, default=8)
    parser.add_argument("--size", type=int, default=512, help="puzzles of a pool")
    parser.add_argument("--group", type=int, default=64, help="puzzles of a step")
    parser.add_argument("--held-out", type=int, default=500)
    parser.add_argument("--out", default="one-step")
    words = parser.parse_args()
    device, name = this_device()
    figures: dict = {"device": name, "runs": {}}
    with one_line("one_step"):
        for folder in words.runs:
            run = OneStep(folder, device, words.held_out)
            figures["runs"][folder.name] = run.study(words.pools, words.size, words.group)
            print(table(figures), flush=True)
    write_text(RESULTS / f"{words.out}.json", json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
