"""What the page is told of its solvers, by the kind of puzzle that they solve."""

from collections.abc import Sequence
from typing import Any

from focus.web.repair import NamedSolver


def by_kind(solvers: Sequence[NamedSolver]) -> dict[str, list[NamedSolver]]:
    """The solvers of each kind, in their order."""
    kinds: dict[str, list[NamedSolver]] = {}
    for named in solvers:
        kinds.setdefault(named.kind, []).append(named)
    return kinds


def most_steps(named: NamedSolver, limit: int) -> int:
    """The limit for a solver: a step costs in proportion to the tokens, a TRM's far more.

    `limit` is that of a puzzle of a hundred tokens.
    """
    solver = named.solver
    most = limit * 100 // (solver.updater.relative_step_time * solver.task.tokens)
    return max(1, min(limit, most))


def describe(kinds: dict[str, list[NamedSolver]], limit: int) -> list[dict[str, Any]]:
    """Every kind, how it is drawn, and its solvers with their steps."""
    return [
        {
            "kind": kind,
            "task": group[0].solver.task.name,
            **group[0].solver.task.page_view,
            "checkpoints": [
                {
                    "name": named.name,
                    "steps": min(named.config.eval_steps, most_steps(named, limit)),
                    "most": most_steps(named, limit),
                }
                for named in group
            ],
        }
        for kind, group in kinds.items()
    ]
