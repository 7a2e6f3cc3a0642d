"""A repair as plain values: what the page plays, step by step.

    {"task", "view", "side", …, "puzzle", "solution", "note", "repairs": [...]}

Each repair, one for each checkpoint, holds the energy and the defect of every step, the frontier,
and frames. What the task looks like (`view`, `side`, …) is its `Task.page_view`. A frame is the
answer after `step` updates: its text, a digit of confidence for each cell (9 is 90 % and more), the
cells that changed since the frame before, whether it obeys the rules, and the share of right cells;
where the view is text, also the pieces of the task's own drawing, each with its cell. Long repairs
are thinned to `MOST_FRAMES` frames; energy and defect are kept for every step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from focus.curation.defect import contraction_defect
from focus.curation.selectors import Frontier
from focus.errors import UserError
from focus.model.base import Model, evaluating
from focus.model.solver import Solver, solver_of
from focus.tasks.base import Codes, Task
from focus.tasks.records import Problem, Target
from focus.training.config import RunConfig

MOST_FRAMES = 200


@dataclass(frozen=True)
class NamedSolver:
    """A solver, the name it goes by on the page, and the run that trained it."""

    name: str
    solver: Solver
    config: RunConfig

    @classmethod
    def of(cls, name: str, model: Model, config: RunConfig) -> "NamedSolver":
        """Refuses a model without steps."""
        return cls(name, solver_of(model, name), config)

    @property
    def kind(self) -> str:
        """Task and size; solvers of one kind can be compared."""
        return f"{self.solver.task.name}-{self.solver.task.columns}"


def name_solvers(models: Sequence[tuple[str, Model, RunConfig]]) -> list[NamedSolver]:
    """Solvers under short names: the last folder of each path, with a number where two agree."""
    solvers: list[NamedSolver] = []
    for word, model, config in models:
        path = Path(word).absolute()
        short = path.parent.name if path.name == "best" else path.name
        same_name = sum(named.name.partition(" (")[0] == short for named in solvers)
        name = f"{short} ({same_name + 1})" if same_name else short
        solvers.append(NamedSolver.of(name, model, config))
    return solvers


def show_repairs(
    solvers: Sequence[NamedSolver], question: Codes, steps: int,
    check: Callable[[], None] = lambda: None,
) -> dict:  # fmt: skip
    """The repairs of one puzzle by solvers of one kind.

    `check` is called between steps; what it raises ends the work.
    """
    task = solvers[0].solver.task
    for other in solvers[1:]:
        if other.kind != solvers[0].kind:
            raise UserError(f"{solvers[0].name} and {other.name} solve different puzzles")
    solution, note = _reference(task, question)
    check()
    return {
        "task": task.name,
        **task.page_view,
        "puzzle": task.question_text(question),
        "solution": None if solution is None else task.answer_text(solution),
        "note": note,
        "repairs": [_repair(named, question, solution, steps, check) for named in solvers],
    }


def _reference(task: Task, question: Codes) -> tuple[Codes | None, str | None]:
    """The true answer by search, or None and why there is none to compare with."""
    try:
        return task.solve(question), None
    except UserError as error:
        return None, str(error)


@torch.no_grad()
def _repair(
    named: NamedSolver, question: Codes, solution: Codes | None, steps: int,
    check: Callable[[], None],
) -> dict:  # fmt: skip
    solver, task = named.solver, named.solver.task
    x = task.problem(question[None]).to(solver.device)
    with evaluating(solver):
        rollout = solver.rollout(x)
        answers = [rollout.state.z]
        for _ in range(steps):
            check()
            answers.append(next(rollout).z)
    z = torch.stack(answers)
    repeated = torch.zeros(steps + 1, dtype=torch.long, device=solver.device)
    every = x[repeated]
    decoded = task.decode(z, x)[:, 0]
    codes = task.answer_codes(decoded, every)
    codes[0] = question  # s_0 knows nothing of the answer; what it decodes to is chance
    if task.valid_is_correct:
        valid = task.obeys(decoded, every).cpu().numpy()
    else:  # a shortest path, not any route; there is nothing to search for in a maze
        valid = task.judge(question[None].repeat(steps + 1, 0), codes).valid
    valid[0] = False
    right, curves = None, _NO_CURVES
    if solution is not None:
        x, y = task.unpack(task.pack(question[None], solution[None]).to(solver.device))
        right = task.diagnostics(decoded, every, y[repeated])["cell_accuracy"].tolist()
        curves = _curves(named, z, x, y)
    check()
    return {
        "checkpoint": named.name,
        "steps": steps,
        "answer": task.answer_text(codes[-1]),
        "valid": bool(valid[-1]),
        "solved_at": _solved_at(valid),
        "frames": _frames(task, x, z, decoded, codes, valid, right),
        **curves,
    }


def _solved_at(valid: np.ndarray) -> int | None:
    """The first step from which the answer stays right to the end."""
    return int(len(valid) - np.logical_and.accumulate(valid[::-1]).sum()) if valid[-1] else None


def _frames(
    task: Task, x: Problem, z: Tensor, decoded: Tensor, codes: Codes, valid: np.ndarray,
    right: list[float] | None,
) -> list[dict]:  # fmt: skip
    chosen = np.unique(np.linspace(0, len(z) - 1, min(len(z), MOST_FRAMES)).round().astype(int))
    probability = task.class_logits(z, x)[:, 0].float().softmax(-1)
    sure = probability.gather(-1, decoded[..., None])[..., 0]
    cells, mask = x.cell[0].cpu().numpy(), x.mask[0].cpu().numpy()
    tenths = np.full(codes.shape, 9)
    tenths[:, cells[mask]] = (sure.cpu().numpy()[:, mask] * 10).clip(0, 9).astype(int)
    as_text = task.page_view["view"] == "text"
    frames: list[dict] = []
    before = codes[0]
    for step in chosen:
        frames.append(
            {
                "step": int(step),
                "answer": (task.answer_text if step else task.question_text)(codes[step]),
                "confidence": "".join(map(str, tenths[step])),
                "changed": np.flatnonzero(codes[step] != before).tolist(),
                "valid": bool(valid[step]),
                "accuracy": round(right[step], 4) if right and step else None,
            }
        )
        if as_text:
            pieces = task.render_cells(codes[0], codes[step] if step else None)
            frames[-1]["pieces"] = [list(piece) for piece in pieces]
        before = codes[step]
    return frames


_NO_CURVES: dict = {"energy": None, "defect": None, "frontier": None}


def _curves(named: NamedSolver, z: Tensor, x: Problem, y: Target) -> dict:
    """E_x and D_t of every step, and t* among the candidates of the run's curation.

    A rollout that training would leave alone, because it ends solved, has no frontier by the
    paper's rule; its state nearest gamma is then given with `replayed` false.
    """
    task, config = named.solver.task, named.config.curation
    h = named.config.replay.stages[-1][2]
    energy = task.energy(z, x, y)
    exact = task.exact(z, x, y)
    constants = {"h": h, "rho": config.rho, "gamma": config.gamma, "epsilon": config.epsilon}
    curves: dict = {"energy": _rounded(energy), "defect": [], "frontier": None, **constants}
    if len(z) <= h:
        return curves
    defect = contraction_defect(energy[:-h], energy[h:], h, config.rho, config.epsilon)
    curves["defect"] = _rounded(defect)
    at = [t for t in config.candidates if t + h < len(z)]
    eligible = task.eligible(exact[at], exact[[t + h for t in at]], exact[-1])
    replayed = bool(eligible.any())
    among = eligible if replayed else ~exact[at]
    if among.any():
        key = torch.zeros(1, dtype=torch.long, device=z.device)
        chosen = int(Frontier(config.gamma)(defect[at], energy[at], among, key))
        curves["frontier"] = {"step": at[chosen], "replayed": replayed}
    return curves


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 5) for value in values[:, 0].tolist()]
