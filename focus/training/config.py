"""Everything a run is: one dataclass, stored beside the run as versioned JSON."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from focus.config import build, read_values
from focus.curation.replay import CurationConfig
from focus.errors import UserError
from focus.model.solver import SolverConfig
from focus.ranges import check_above_zero, check_from, check_shares
from focus.tasks import Sudoku, Task
from focus.tasks.base import StepWeights
from focus.training.carry import CarryConfig

# What an update trains on besides rollouts from s_0.
Method = Literal["focus", "random", "energy-hard", "fixed-mix", "none"]


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its schedule."""

    kind: Literal["adamw", "muon"] = (
        "adamw"  # muon (ours): for the matrices of the layers of updater or TRM
    )
    updates: int = 50_000  # U
    batch: int = 16  # effective batch: examples per update, over all processes
    accumulate: int = 8  # mini-batches per update; the replay coin is drawn for each
    learning_rate: float = 3e-4  # peak for the updater and G_psi
    lora_learning_rate: float = 1e-5  # peak for the adapter
    warmup: int = 300  # updates
    # (share of the run, share of the peak): half a cosine from the peak to the first and so on
    knots: tuple[tuple[float, float], ...] = ((1.0, 0.02),)
    weight_decay: float = 0.01  # of all that is trained; times the learning rate
    beta2: float = 0.95  # AdamW's; its first beta is 0.9
    momentum: float = 0.95  # Muon's
    clip: float = 1.0  # norm of the gradient
    ema: float = 0.0  # decay of the averaged weights that are evaluated; 0 = off

    def __post_init__(self):
        check_from(1, {"optimizer.batch": self.batch, "optimizer.accumulate": self.accumulate})
        check_from(
            0,
            {
                "optimizer.updates": self.updates,
                "optimizer.learning-rate": self.learning_rate,
                "optimizer.lora-learning-rate": self.lora_learning_rate,
                "optimizer.warmup": self.warmup,
                "optimizer.weight-decay": self.weight_decay,
            },
        )
        check_above_zero({"optimizer.clip": self.clip})
        check_shares({"optimizer.ema": self.ema, "optimizer.momentum": self.momentum})
        if not 0 <= self.beta2 < 1:
            raise UserError(f"optimizer.beta2 lies from 0 to below 1, not {self.beta2}")


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
    ramp: float = 0.94  # share of the run, after the start, over which the probability rises
    weight: float = 0.45  # w_aux
    base_always: bool = True  # Sudoku: the base loss is in every mini-batch
    # initial / corrupted / rollout: start states of base updates, and of Fixed Mix
    base_mixture: tuple[float, float, float] = (1.0, 0.0, 0.0)
    fixed_mixture: tuple[float, float, float] = (0.50, 0.25, 0.25)

    def __post_init__(self):
        first, last = self.probability
        check_shares({"replay.start": self.start, "replay.ramp": self.ramp})
        check_shares({"replay.probability": first, "replay.probability (last)": last})
        check_from(0, {"replay.weight": self.weight})
        for name, mixture in (("base", self.base_mixture), ("fixed", self.fixed_mixture)):
            if not abs(sum(mixture) - 1) <= 1e-6 or min(mixture) < 0:
                raise UserError(f"replay.{name}-mixture must be three shares that add up to 1")


@dataclass(frozen=True)
class TeacherConfig:
    """Distillation from a frozen TRM on initial-state updates; off without a checkpoint."""

    checkpoint: str = ""  # "" = no teacher
    weight: float = 0.05  # of the KL loss (0.05 / 0.005)
    temperature: float = 2.0  # (2 / 4)
    start: float = 0.016  # share of the run before the first use (800 of 50,000)
    warmup: float = 0.024  # share of the run over which the weight rises (1,200 of 50,000)
    steps: int = 4  # student steps that are aligned, at most
    # teacher's step for the student's step j: 4 j, j, or the last
    align: Literal["fourth", "index", "final"] = "fourth"

    def __post_init__(self):
        check_from(1, {"teacher.steps": self.steps})
        check_from(0, {"teacher.weight": self.weight})
        check_above_zero({"teacher.temperature": self.temperature})
        check_shares({"teacher.start": self.start, "teacher.warmup": self.warmup})


@dataclass(frozen=True)
class RunConfig:
    """A complete run."""

    task: Task = field(default_factory=Sudoku)
    solver: SolverConfig = field(default_factory=SolverConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    curation: CurationConfig = field(default_factory=CurationConfig)
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    carry: CarryConfig = field(default_factory=CarryConfig)
    read_ahead: int = 1  # updates whose puzzles the language model reads at once
    passes: int = 1  # updates made from each reading; the adapter learns once for all of them
    steps: int = 16  # base rollout, back-propagated through all
    step_weights: StepWeights = "linear"
    eval_steps: int = 128  # K of validation
    eval_every: int = 1000  # updates between validations
    eval_rows: int = 1000  # validation puzzles, at most
    patience: int = 0  # validations in a row without a better one that end a run; 0 = none do
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

    @property
    def round(self) -> int:
        """Updates between two readings of the language model."""
        return self.read_ahead * self.passes

    def __post_init__(self):
        optimizer, replay = self.optimizer, self.replay
        check_from(
            1,
            {
                "read-ahead": self.read_ahead,
                "passes": self.passes,
                "steps": self.steps,
                "eval-steps": self.eval_steps,
                "eval-rows": self.eval_rows,
                "eval-every": self.eval_every,
                "log-every": self.log_every,
                "save-every": self.save_every,
            },
        )
        check_from(0, {"patience": self.patience})
        check_shares({"train-share": self.train_share})
        if optimizer.batch % optimizer.accumulate:
            raise UserError(
                f"optimizer.batch ({optimizer.batch}) must be a multiple of "
                f"optimizer.accumulate ({optimizer.accumulate})"
            )
        reads = self.solver.backbone.name != "none" and self.solver.answer == "revised"
        if self.round > 1 and (optimizer.accumulate > 1 or not reads):
            raise UserError(
                "read-ahead and passes are for solvers with a language model and "
                "optimizer.accumulate 1"
            )
        if self.carry.steps and (self.round > 1 or optimizer.accumulate > 1):
            raise UserError("carry.steps needs optimizer.accumulate 1, read-ahead 1 and passes 1")
        if self.carry.steps and self.solver.backbone.name != "none":
            raise UserError("carry.steps is for solvers without a language model")
        if self.carry.depths and not (self.carry.steps and self.solver.answer == "trm"):
            raise UserError("carry.depths is for a TRM with carry.steps")
        trm = self.solver.trm
        if any(outer > trm.outer or inner > trm.inner for _, outer, inner in self.carry.depths):
            raise UserError(
                "carry.depths goes beyond the TRM's own depth: "
                f"solver.trm.outer {trm.outer}, solver.trm.inner {trm.inner}"
            )
        answer_alone = self.solver.answer == "trm" and trm.targets == "answer"
        if answer_alone and getattr(self.task, "decoder", "") == "canonical":
            raise UserError(
                "a TRM that learns the answer alone marks the cells of a path: set task.decoder "
                "threshold, or solver.trm.targets all for the parents that task.decoder canonical "
                "follows"
            )
        if self.carry.steps and self.teacher.checkpoint:
            raise UserError("carry.steps and teacher.checkpoint exclude each other")
        at_its_end = {
            "optimizer.updates": optimizer.updates,
            "eval-every": self.eval_every,
            "save-every": self.save_every,
        }
        for name, value in at_its_end.items():
            if value % self.round:
                raise UserError(
                    f"{name} ({value}) must be a multiple of read-ahead x passes ({self.round}): "
                    "what the language model has read is not stored"
                )
        for name, points in (
            ("optimizer.knots", optimizer.knots),
            ("replay.stages", replay.stages),
        ):
            shares = [point[0] for point in points]
            if not shares or shares != sorted(shares) or shares[-1] != 1.0:
                raise UserError(f"{name} must rise to a share of 1.0 of the run")
        if self.carry.steps:
            self._check_carried()
        if replay.method not in ("none", "fixed-mix"):
            for _, K_p, h in replay.stages:
                K_p = self.carry.steps or K_p  # with carried states a trajectory is a stay
                if h < 1 or not any(t + h <= K_p for t in self.curation.candidates):
                    raise UserError(
                        f"replay.stages: no curation.candidates t has t + h <= K_p for "
                        f"K_p = {K_p}, h = {h}"
                    )

    def _check_carried(self) -> None:
        """With carried states, replay is a puzzle that comes back (`comeback.py`)."""
        if self.replay.base_mixture[0] != 1:
            raise UserError("replay.base-mixture must be (1, 0, 0) with carried states")
        if self.replay.method == "none":
            return
        if self.replay.method == "fixed-mix" or self.solver.answer != "trm":
            raise UserError(
                "carried states (carry.steps) are replayed for a TRM alone, by the replay.method "
                "focus, random or energy-hard"
            )
        curation = self.curation
        if curation.beta or curation.hold or not curation.restore_memory:
            raise UserError(
                "carried states come back without a penalty and with their memory: set "
                "curation.beta 0, curation.hold False and curation.restore-memory True"
            )


def read_config(path: Path) -> RunConfig:
    """A stored config."""
    return build(RunConfig, read_values(path), path)


# What may differ when a run goes on elsewhere: it changes no draw, loss or weight.
_FREE = (
    "data", "capture", "compile", "portable", "log_every", "save_every", "eval_every", "eval_rows",
    "patience",
)  # fmt: skip


def first_difference(one: RunConfig, other: RunConfig) -> str | None:
    """The first setting that makes two configs different runs; None when they are the same."""

    def flat(values: dict, head: str = "") -> dict:
        found: dict = {}
        for name, value in values.items():
            inner = (
                flat(value, f"{head}{name}.") if isinstance(value, dict) else {head + name: value}
            )
            found |= inner
        return found

    ours, theirs = ({"task": config.task.name, **flat(asdict(config))} for config in (one, other))
    names = [name for name in {**ours, **theirs} if name not in _FREE]
    return next((n.replace("_", "-") for n in names if ours.get(n) != theirs.get(n)), None)
