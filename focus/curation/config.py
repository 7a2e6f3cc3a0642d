"""Settings of state selection and replay, with the names and values of the paper's table."""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from focus.curation.selectors import SELECTORS
from focus.errors import UserError
from focus.settings import Above, AtLeast, Role, Settings, Share
from focus.tasks.base import StepWeights

# What an update trains on besides rollouts from s_0: by a selector of selectors.py, or otherwise.
ReplayMethod = Literal[
    "focus", "random", "energy-hard", "permuted", "easiest", "hardest", "fixed-mix", "none"
]


class Stage(NamedTuple):
    """How far a selection rollout goes, and for how many steps a state is scored and replayed."""

    K_p: int
    h: int


@dataclass(frozen=True)
class CurationConfig(Settings, section="curation"):
    """Which states are candidates, and how they are scored and replayed."""

    # steps t of a rollout that may be replayed, where t + h <= K_p
    candidates: Annotated[tuple[int, ...], AtLeast(0)] = (
        0, 2, 4, 8, 12, 16, 24, 32, 48, 64, 80, 96, 112,
    )  # fmt: skip
    rho: Annotated[float, Share(above_zero=True)] = 0.985  # target reduction per step
    gamma: float = 0.0  # defect of the frontier
    epsilon: Annotated[float, Above(0)] = 0.05  # smoothing of the energy
    # weight of the defect penalty (0.08 / 0.05); 0 switches it off
    beta: Annotated[float, AtLeast(0), Role.METHOD] = 0.08
    # replay from (z, u); False starts from z with fresh memory
    restore_memory: Annotated[bool, Role.METHOD] = True
    # (ours) also replay the end of a rollout that ends exact, so that it stays exact: where there
    # is no candidate, and for half of those that have one
    replay_solved: bool = False
    step_weights: StepWeights = "linear"  # weights of the losses of the h replayed steps

    def __post_init__(self):
        super().__post_init__()
        if list(self.candidates) != sorted(set(self.candidates)):
            raise UserError("curation.candidates must rise: of equal defects the first is chosen")


@dataclass(frozen=True)
class ReplayConfig(Settings, section="replay"):
    """When to replay, and from how far. Updates are shares of the whole run."""

    # random and energy-hard have no penalty in the paper: curation.beta 0
    method: Annotated[ReplayMethod, Role.METHOD] = "focus"
    start: Annotated[float, Share()] = 0.06  # share of the run before the first replay (3k of 50k)
    # (share of the run, K_p, h): the stage holds until the share is reached
    stages: tuple[tuple[float, int, int], ...] = (
        (0.2, 16, 4), (0.4, 32, 4), (0.6, 64, 8), (0.8, 96, 8), (1.0, 128, 8),
    )  # fmt: skip
    probability: Annotated[tuple[float, float], Share()] = (0.175, 0.325)  # first and last
    # share of the run, after the start, over which the probability rises
    ramp: Annotated[float, Share()] = 0.94
    weight: Annotated[float, AtLeast(0)] = 0.45  # w_aux
    base_always: bool = True  # Sudoku: the base loss is in every mini-batch
    # shares of initial / corrupted / visited start states of base updates (q_base)
    base_mixture: Annotated[tuple[float, float, float], Role.METHOD] = (1.0, 0.0, 0.0)
    # the same of the states that Fixed Mix replays (q_FM)
    fixed_mixture: tuple[float, float, float] = (0.50, 0.25, 0.25)

    def __post_init__(self):
        super().__post_init__()
        for name, mixture in (("base", self.base_mixture), ("fixed", self.fixed_mixture)):
            if not abs(sum(mixture) - 1) <= 1e-6 or min(mixture) < 0:
                raise UserError(f"replay.{name}-mixture must be three shares that add up to 1")
        if any(K_p < 1 or h < 1 for _, K_p, h in self.stages):
            raise UserError("replay.stages: K_p and h are numbers of steps, from 1")

    @property
    def selects(self) -> bool:
        """Whether states of the model's own trajectories are selected."""
        return self.method in SELECTORS
