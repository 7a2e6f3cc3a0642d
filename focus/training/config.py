"""Everything a run is: one dataclass, stored beside the run as versioned JSON."""

import dataclasses
import json
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from focus.curation.replay import CurationConfig
from focus.errors import UserError
from focus.model.solver import SolverConfig
from focus.tasks import Sudoku, Task, task_class
from focus.tasks.base import StepWeights

FORMAT = 1

# What an update trains on besides rollouts from s_0.
Method = Literal["focus", "random", "energy-hard", "fixed-mix", "none"]


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW and its schedule."""

    updates: int = 50_000  # U
    batch: int = 16  # effective batch: examples per update
    accumulate: int = 8  # mini-batches per update; the replay coin is drawn for each
    learning_rate: float = 3e-4  # peak for the updater and G_psi
    lora_learning_rate: float = 1e-5  # peak for the adapter
    warmup: int = 300  # updates
    final_share: float = 0.02  # learning rate at the end, as a share of the peak
    weight_decay: float = 0.01
    beta2: float = 0.95
    clip: float = 1.0  # norm of the gradient
    ema: float = 0.0  # decay of the averaged weights that are evaluated; 0 = off


@dataclass(frozen=True)
class ReplayConfig:
    """When to replay, and from how far. Updates are shares of the whole run."""

    method: Method = "focus"  # the paper's random and energy-hard have no penalty: curation.beta 0
    start: float = 0.06  # share of the run before the first replay (3,000 of 50,000)
    # (share of the run, K_p, h): the stage holds until the share is reached
    stages: tuple[tuple[float, int, int], ...] = (
        (0.2, 16, 4), (0.4, 32, 4), (0.6, 64, 8), (0.8, 96, 8), (1.0, 128, 8),
    )  # fmt: skip
    probability: tuple[float, float] = (0.175, 0.325)  # of replay, first and last
    ramp: float = 1.0  # share of the run, after the start, over which the probability rises
    weight: float = 0.45  # w_aux
    base_always: bool = True  # Sudoku: the base loss is in every mini-batch
    # initial / corrupted / rollout: start states of base updates, and of Fixed Mix
    base_mixture: tuple[float, float, float] = (1.0, 0.0, 0.0)
    fixed_mixture: tuple[float, float, float] = (0.50, 0.25, 0.25)


@dataclass(frozen=True)
class RunConfig:
    """A complete run."""

    task: Task = field(default_factory=Sudoku)
    solver: SolverConfig = field(default_factory=SolverConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    curation: CurationConfig = field(default_factory=CurationConfig)
    steps: int = 16  # base rollout, back-propagated through all
    step_weights: StepWeights = "linear"
    eval_steps: int = 128  # K of validation
    eval_every: int = 1000  # updates between validations
    eval_rows: int = 1000  # validation puzzles, at most
    log_every: int = 50  # updates between lines of metrics
    save_every: int = 1000  # updates between checkpoints
    data: str = ""  # source of puzzles; "" = $FOCUS_DATA or the generator
    augment: bool = True
    seed: int = 42

    def __post_init__(self):
        if self.optimizer.batch % self.optimizer.accumulate:
            raise UserError(
                f"optimizer.batch ({self.optimizer.batch}) must be a multiple of "
                f"optimizer.accumulate ({self.optimizer.accumulate})"
            )
        if self.optimizer.updates < 1 or self.steps < 1:
            raise UserError("optimizer.updates and steps must be at least 1")


def to_json(config: RunConfig) -> str:
    """The config as JSON, with the task's name and a format version."""
    values = dataclasses.asdict(config)
    values["task"] = {"name": config.task.name, **values["task"]}
    return json.dumps({"format": FORMAT, **values}, indent=1) + "\n"


def from_json(text: str, path: Path) -> RunConfig:
    """Read a stored config; `path` is named in errors."""
    try:
        values = json.loads(text)
        version = values.pop("format")
        name = values["task"].pop("name")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise UserError(f"{path} is no run config ({error})") from error
    if version != FORMAT:
        raise UserError(f"{path} has format {version}; this version reads format {FORMAT}")
    try:
        task = _build(task_class(name), values.pop("task"))
        return dataclasses.replace(_build(RunConfig, values), task=task)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path} does not fit this version ({error})") from error


def _build(kind: Any, value: Any) -> Any:
    """Rebuild dataclasses and tuples from plain JSON values."""
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind)
        unknown = set(value) - {f.name for f in dataclasses.fields(kind)}
        if unknown:
            raise ValueError(f"unknown field {sorted(unknown)[0]!r}")
        built = {name: _build(hints[name], item) for name, item in value.items()}
        return typing.cast(Any, kind)(**built)
    if isinstance(value, list):
        inner = typing.get_args(kind) if typing.get_origin(kind) is tuple else ()
        first = inner[0] if inner and not isinstance(inner[0], types.EllipsisType) else Any
        return tuple(_build(first, item) for item in value)
    return value
