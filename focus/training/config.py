"""Everything a run is: one dataclass, stored beside the run as versioned JSON."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from focus.config import build, read_values
from focus.curation.replay import CurationConfig
from focus.errors import UserError
from focus.model.solver import SolverConfig
from focus.tasks import Sudoku, Task
from focus.tasks.base import StepWeights

# What an update trains on besides rollouts from s_0.
Method = Literal["focus", "random", "energy-hard", "fixed-mix", "none"]


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW and its schedule."""

    updates: int = 50_000  # U
    batch: int = 16  # effective batch: examples per update, over all processes
    accumulate: int = 8  # mini-batches per update; the replay coin is drawn for each
    learning_rate: float = 3e-4  # peak for the updater and G_psi
    lora_learning_rate: float = 1e-5  # peak for the adapter
    warmup: int = 300  # updates
    # (share of the run, share of the peak): half a cosine from the peak to the first and so on
    knots: tuple[tuple[float, float], ...] = ((1.0, 0.02),)
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
class TeacherConfig:
    """Distillation from a frozen TRM on initial-state updates; off without a checkpoint."""

    checkpoint: str = ""  # "" = no teacher
    weight: float = 0.05  # of the KL loss (0.05 / 0.005)
    temperature: float = 2.0  # (2 / 4)
    start: float = 0.016  # share of the run before the first use (800 of 50,000)
    warmup: float = 0.024  # share of the run over which the weight rises (1,200 of 50,000)
    steps: int = 4  # student steps that are aligned, at most


@dataclass(frozen=True)
class RunConfig:
    """A complete run."""

    task: Task = field(default_factory=Sudoku)
    solver: SolverConfig = field(default_factory=SolverConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    curation: CurationConfig = field(default_factory=CurationConfig)
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    steps: int = 16  # base rollout, back-propagated through all
    step_weights: StepWeights = "linear"
    eval_steps: int = 128  # K of validation
    eval_every: int = 1000  # updates between validations
    eval_rows: int = 1000  # validation puzzles, at most
    log_every: int = 50  # updates between lines of metrics
    save_every: int = 1000  # updates between checkpoints
    portable: bool = False  # small training state in small files, to move between machines
    capture: bool = True  # on a GPU: replay updates as CUDA graphs
    compile: bool = True  # on a GPU: compile the updater
    data: str = ""  # source of puzzles; "" = $FOCUS_DATA or the generator
    more_data: tuple[str, ...] = ()  # further training puzzles: splits of the source, CSV files
    train_share: float = 0.5  # share of examples drawn from the training split beside them
    augment: bool = True
    seed: int = 42

    def __post_init__(self):
        optimizer = self.optimizer
        if optimizer.batch % optimizer.accumulate:
            raise UserError(
                f"optimizer.batch ({optimizer.batch}) must be a multiple of "
                f"optimizer.accumulate ({optimizer.accumulate})"
            )
        if optimizer.updates < 0 or self.steps < 1:
            raise UserError("optimizer.updates must not be negative, steps at least 1")
        if self.log_every < 1 or self.eval_every < 1 or self.save_every < 1:
            raise UserError("log-every, eval-every and save-every count updates, from 1")
        shares = [share for share, _ in optimizer.knots]
        if not shares or shares != sorted(shares) or shares[-1] != 1.0:
            raise UserError("optimizer.knots must rise to a share of 1.0 of the run")
        if self.teacher.checkpoint:
            raise UserError("teacher.checkpoint: this version has no teacher to distil from yet")


def read_config(path: Path) -> RunConfig:
    """A stored config."""
    return build(RunConfig, read_values(path), path)
