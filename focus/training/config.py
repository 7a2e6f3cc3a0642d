"""Everything a run is: one dataclass, stored beside the run as versioned JSON."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from focus.curation.config import CurationConfig, ReplayConfig
from focus.data.corpus import CorpusConfig
from focus.errors import UserError
from focus.model.base import MOST_STEPS, SolverConfig
from focus.serialization import build, read_values
from focus.settings import SEEDS, Above, AtLeast, Role, Settings, Share, walk
from focus.tasks import Sudoku, Task
from focus.tasks.assignment import Assignment
from focus.tasks.base import StepWeights


@dataclass(frozen=True)
class OptimizerConfig(Settings, section="optimizer"):
    """The optimizer and its schedule."""

    # muon (ours): for the matrices of the layers of updater or TRM
    kind: Literal["adamw", "muon"] = "adamw"
    updates: Annotated[int, AtLeast(0)] = 50_000  # U
    # effective batch: examples per update, over all processes
    batch: Annotated[int, AtLeast(1, 65_536)] = 16
    # mini-batches per update; the replay coin is drawn for each
    accumulate: Annotated[int, AtLeast(1)] = 8
    learning_rate: Annotated[float, AtLeast(0)] = 3e-4  # peak for the updater and G_psi
    lora_learning_rate: Annotated[float, AtLeast(0)] = 1e-5  # peak for the adapter
    warmup: Annotated[int, AtLeast(0)] = 300  # updates
    # (share of the run, share of the peak): half a cosine from the peak to the first and so on
    knots: tuple[tuple[float, float], ...] = ((1.0, 0.02),)
    # of all that is trained; times the learning rate
    weight_decay: Annotated[float, AtLeast(0)] = 0.01
    beta2: Annotated[float, Share(below_one=True)] = 0.95  # AdamW's; its first beta is 0.9
    momentum: Annotated[float, Share()] = 0.95  # Muon's
    clip: Annotated[float, Above(0)] = 1.0  # norm of the gradient
    # decay of the averaged weights that are evaluated; 0 = off
    ema: Annotated[float, Share()] = 0.0


@dataclass(frozen=True)
class TeacherConfig(Settings, section="teacher"):
    """Distillation from a frozen TRM on initial-state updates."""

    # name or folder of a TRM; "" = no teacher
    checkpoint: str = ""
    weight: Annotated[float, AtLeast(0)] = 0.05  # of the KL loss (0.05 / 0.005)
    temperature: Annotated[float, Above(0)] = 2.0  # (2 / 4)
    # share of the run before the first use (800 of 50,000)
    start: Annotated[float, Share()] = 0.016
    # share of the run over which the weight rises (1,200 of 50,000)
    warmup: Annotated[float, Share()] = 0.024
    steps: Annotated[int, AtLeast(1)] = 4  # student steps that are aligned, at most
    # teacher's step for the student's step j: 4 j, or j
    align: Literal["fourth", "index"] = "fourth"


@dataclass(frozen=True)
class TextKLConfig(Settings, section="text-kl"):
    """Ordinary text held near what the language model wrote before training (ours)."""

    # of the divergence, in nats per token, beside the loss of the puzzles; 0 = off
    weight: Annotated[float, AtLeast(0)] = 0.0
    texts: Annotated[int, AtLeast(1)] = 4  # of an update, in turn; there are 64
    length: Annotated[int, AtLeast(2)] = 192  # tokens of a text, with its question


@dataclass(frozen=True)
class DeepSupervisionConfig(Settings, section="deep-supervision"):
    """How long puzzles and their states stay; TRM's values where it is used."""

    # updates for which a puzzle stays at most (16 for TRM); 0 = it never stays
    steps: Annotated[int, AtLeast(0)] = 0
    # share of puzzles that must stay for a random number of steps
    explore: Annotated[float, Share()] = 0.1
    halt_weight: Annotated[float, AtLeast(0)] = 0.5  # of the loss of the halting logit
    # (share of the run, cycles, refinements): a TRM is shallower until then; () = never. After
    # Qasim & Zhang 2025 (arXiv 2511.08653), who take 1 cycle of 2, then 2 of 4, then all.
    depths: tuple[tuple[float, int, int], ...] = ()

    def __post_init__(self):
        super().__post_init__()
        shares = [0.0, *(share for share, _, _ in self.depths), 1.0]
        rising = all(one < two for one, two in itertools.pairwise(shares))
        if not rising or any(min(depth[1:]) < 1 for depth in self.depths):
            raise UserError(
                "deep-supervision.depths is a list of (share of the run, cycles, refinements) "
                "whose shares rise between 0 and 1, with cycles and refinements from 1"
            )


@dataclass(frozen=True)
class RunConfig(Settings):
    """A complete run."""

    recipe: Annotated[str, Role.RUNTIME] = ""  # the recipe that it began with
    method: Annotated[str, Role.METHOD] = "focus"  # the method's name in tables
    task: Task = field(default_factory=Sudoku)
    solver: SolverConfig = field(default_factory=SolverConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    curation: CurationConfig = field(default_factory=CurationConfig)
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    text_kl: TextKLConfig = field(default_factory=TextKLConfig)
    deep_supervision: DeepSupervisionConfig = field(default_factory=DeepSupervisionConfig)
    # updates whose puzzles the language model encodes at once
    encode_batches: Annotated[int, AtLeast(1)] = 1
    # updates made from each encoding; the adapter learns once for all of them
    updates_per_encode: Annotated[int, AtLeast(1)] = 1
    # base rollout, back-propagated through all
    steps: Annotated[int, AtLeast(1, 10_000), Role.METHOD] = 16
    # how much the loss of each step of the base rollout counts
    step_weights: Annotated[StepWeights, Role.METHOD] = "linear"
    eval_steps: Annotated[int, AtLeast(1, MOST_STEPS), Role.METHOD] = 128  # K of validation
    eval_every: Annotated[int, AtLeast(1), Role.RUNTIME] = 1000  # updates between validations
    eval_rows: Annotated[int, AtLeast(1), Role.RUNTIME] = 1000  # validation puzzles, at most
    # validations in a row without a better one that end a run; 0 = none do
    patience: Annotated[int, AtLeast(0), Role.RUNTIME] = 0
    log_every: Annotated[int, AtLeast(1), Role.RUNTIME] = 50  # updates between lines of metrics
    # where metrics also go, to be watched; trackio and wandb are extras, and stay offline unless
    # their own variables say otherwise
    report_to: Annotated[Literal["tensorboard", "trackio", "wandb", "none"], Role.RUNTIME] = (
        "tensorboard"
    )
    save_every: Annotated[int, AtLeast(1), Role.RUNTIME] = 1000  # updates between checkpoints
    # small training state in small files, to move between machines
    portable: Annotated[bool, Role.RUNTIME] = False
    capture: Annotated[bool, Role.RUNTIME] = True  # on a GPU: replay updates as CUDA graphs
    compile: Annotated[bool, Role.RUNTIME] = True  # on a GPU: compile the updater
    # source of puzzles; "" = $FOCUS_DATA or the generator
    data: Annotated[str, Role.RUNTIME] = ""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    more_data: tuple[str, ...] = ()  # further training puzzles: splits of the source, CSV files
    # share of examples drawn from the training split beside them
    train_share: Annotated[float, Share()] = 0.5
    augment: bool = True  # train on random symmetries of the puzzles
    # reveal up to so many blank cells of a training puzzle, different ones at each draw; easier
    # puzzles are mixed in by Ren and Liu, too (arXiv 2601.10679)
    hints: Annotated[int, AtLeast(0)] = 0
    seed: Annotated[int, SEEDS, Role.AXIS] = 42  # of weights and of every draw

    @property
    def steps_per_t(self) -> int:
        """Steps of the model for one t or h of replay: with deep supervision those of an update."""
        return self.steps if self.deep_supervision.steps else 1

    @property
    def encode_interval(self) -> int:
        """Updates between two encodings by the language model."""
        return self.encode_batches * self.updates_per_encode

    def __post_init__(self):
        super().__post_init__()
        optimizer, replay = self.optimizer, self.replay
        if optimizer.batch % optimizer.accumulate:
            raise UserError(
                f"optimizer.batch ({optimizer.batch}) must be a multiple of "
                f"optimizer.accumulate ({optimizer.accumulate})"
            )
        reads = self.solver.backbone.name != "none" and self.solver.answer == "revised"
        if self.encode_interval > 1 and (optimizer.accumulate > 1 or not reads):
            raise UserError(
                "encode-batches and updates-per-encode are for solvers with a language model and "
                "optimizer.accumulate 1"
            )
        learns = reads and not self.solver.backbone.frozen
        if self.text_kl.weight and (self.encode_interval > 1 or not learns):
            raise UserError(
                "text-kl.weight is for solvers that train the adapter of a language model, with "
                "encode-batches and updates-per-encode 1"
            )
        if not getattr(self.task, "givens_shown", True) and not reads:
            raise UserError(
                "task.givens-shown False leaves it to a language model to tell the givens: choose "
                "one, as in sudoku/smollm2-135m"
            )
        if self.hints and not isinstance(self.task, Assignment):
            raise UserError("hints is for tasks whose answer is a class for every cell")
        if self.hints and self.teacher.checkpoint:
            raise UserError(
                "hints excludes teacher.checkpoint, which knows the puzzles without them: add "
                '--teacher.checkpoint ""'
            )
        supervision = self.deep_supervision
        if supervision.depths and not (supervision.steps and self.solver.answer == "trm"):
            raise UserError("deep-supervision.depths is for a TRM with deep-supervision.steps")
        if supervision.steps:
            self._check_deep_supervision()
        answer_only = self.solver.answer == "trm" and self.solver.trm.targets == "answer"
        if answer_only and self.task != self.task.answer_only():
            raise UserError(
                "a TRM that learns the answer alone marks the cells of a path: set task.decoder "
                "threshold, or solver.trm.targets all for the parents that task.decoder canonical "
                "follows"
            )
        if replay.method == "fixed-mix" and self.curation.beta:
            raise UserError("replay.method fixed-mix has no defect penalty: set curation.beta 0")
        at_its_end = {
            "optimizer.updates": optimizer.updates,
            "eval-every": self.eval_every,
            "save-every": self.save_every,
        }
        for name, value in at_its_end.items():
            if value % self.encode_interval:
                raise UserError(
                    f"{name} ({value}) must be a multiple of encode-batches x updates-per-encode "
                    f"({self.encode_interval}): what the language model has read is not stored"
                )
        for name, points in (
            ("optimizer.knots", optimizer.knots),
            ("replay.stages", replay.stages),
        ):
            shares = [point[0] for point in points]
            if not shares or shares != sorted(shares) or shares[-1] != 1.0:
                raise UserError(f"{name} must rise to a share of 1.0 of the run")
        if replay.selects:
            for _, K_p, h in replay.stages:
                K_p = supervision.steps or K_p  # with carried states a trajectory is a stay
                if not any(t + h <= K_p for t in self.curation.candidates):
                    raise UserError(
                        f"replay.stages: no curation.candidates t has t + h <= K_p for "
                        f"K_p = {K_p}, h = {h}"
                    )

    def _check_deep_supervision(self) -> None:
        """Puzzles and states that stay: what they go with."""
        supervision, trm, curation = self.deep_supervision, self.solver.trm, self.curation
        if self.encode_interval > 1 or self.optimizer.accumulate > 1:
            raise UserError(
                "deep-supervision.steps needs optimizer.accumulate 1, encode-batches 1 and "
                "updates-per-encode 1"
            )
        if self.solver.backbone.name != "none":
            raise UserError("deep-supervision.steps is for solvers without a language model")
        if any(outer > trm.outer or inner > trm.inner for _, outer, inner in supervision.depths):
            raise UserError(
                "deep-supervision.depths goes beyond the TRM's own depth: "
                f"solver.trm.outer {trm.outer}, solver.trm.inner {trm.inner}"
            )
        if self.teacher.checkpoint:
            raise UserError(
                'deep-supervision.steps excludes teacher.checkpoint: add --teacher.checkpoint ""'
            )
        if self.replay.base_mixture[0] != 1:
            raise UserError("replay.base-mixture must be (1, 0, 0) with deep-supervision.steps")
        if self.replay.method == "none":
            return
        if not self.replay.selects:
            raise UserError(
                "carried states (deep-supervision.steps) are replayed by a replay.method that "
                "selects, such as focus, random or energy-hard"
            )
        if curation.beta or curation.replay_solved or not curation.restore_memory:
            raise UserError(
                "carried states are replayed without a penalty and with their memory: set "
                "curation.beta 0, curation.replay-solved False and curation.restore-memory True"
            )


def read_config(path: Path) -> RunConfig:
    """A stored config."""
    return build(RunConfig, read_values(path), path)


def first_difference(one: RunConfig, other: RunConfig) -> str | None:
    """The first setting that makes two configs different runs; None when they are the same."""
    ours, theirs = (
        {
            "task": config.task.name,
            **{name: value for name, role, value in walk(config) if role is not Role.RUNTIME},
        }
        for config in (one, other)
    )
    names = {**ours, **theirs}
    return next((n.replace("_", "-") for n in names if ours.get(n) != theirs.get(n)), None)
