"""What an update learns: Algorithm 1 and what is composed around it."""

from typing import cast

from focus.model.base import Model
from focus.model.solver import solver_of
from focus.model.writer import Writer
from focus.tasks.records import TensorRecord
from focus.training.config import RunConfig
from focus.training.objectives.curated import Curated
from focus.training.objectives.deep_supervision import DeepSupervision
from focus.training.objectives.distillation import Distillation
from focus.training.objectives.objective import Objective
from focus.training.objectives.written import WrittenAnswers

__all__ = ["Objective", "make_objective"]


def make_objective(
    model: Model, config: RunConfig, rows: TensorRecord, batch: int,
    distillation: Distillation | None = None,
) -> Objective:  # fmt: skip
    """The objective of a run; `batch` is how many examples a mini-batch has here."""
    if config.solver.answer == "written":
        return WrittenAnswers(cast(Writer, model))
    solver = solver_of(model, "the model")
    if config.deep_supervision.steps:
        return DeepSupervision(solver, config, rows, batch)
    return Curated(solver, [config], rows, distillation)
