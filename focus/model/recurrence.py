"""What recurs: one protocol for the updater and for TRM, and the rollout that applies it.

    s_{t+1} = F(s_t; R, c_x)                                                       (equation 2)

A recurrence has an initial state, prepares what stays the same over a rollout (`condition`), takes
a step (`forward`), and says what a step costs. Everything else works with any of them.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from focus.model.state import State
from focus.tasks.base import Task
from focus.tasks.records import Problem, SomeRows


class Conditioning(ABC):
    """What stays the same over a rollout: R and c_x, prepared for the steps."""

    @abstractmethod
    def detach(self) -> "Conditioning":
        """Cut off from the encoder, for rollouts without gradients."""

    @abstractmethod
    def __getitem__(self, rows: SomeRows) -> "Conditioning":
        """The conditioning of some of the puzzles."""


class Recurrence(nn.Module, ABC):
    """F_theta: the same parameters at every step."""

    task: Task
    learns_answer_only = False  # trained on the answer's cross-entropy instead of the task loss
    relative_step_time = 1  # seconds of a step and token over the updater's, roughly

    @abstractmethod
    def initial(self, x: Problem) -> State:
        """s_0: the task's initial answer and the memory to begin with."""

    @abstractmethod
    def condition(self, R: Float[Tensor, "batch tokens width"], x: Problem) -> Conditioning:
        """Prepare a rollout: everything that does not change from step to step."""

    @abstractmethod
    def forward(self, state: State, conditioning: Conditioning, x: Problem) -> State:
        """One step: s_{t+1} = F(s_t; R, c_x)."""

    @abstractmethod
    def compile_step(self) -> None:
        """Compile what a rollout repeats, for one batch size."""

    @abstractmethod
    def step_flops(self) -> float:
        """Operations of one step of one puzzle: products with weights, attention not counted."""

    def backward_over_forward(self) -> float:
        """Operations of a backward pass over those of the forward pass."""
        return 2.0

    @abstractmethod
    def rollout_bytes(self, steps: int, replayed_steps: int, kept_states: int) -> int:
        """Activations of one puzzle that a backward pass through its rollouts needs.

        `kept_states` are complete states that training keeps of every puzzle besides.
        """

    def halting_loss(self, state: State, exact: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """The loss of what the model says about its answer being right; 0 where it says nothing."""
        return torch.zeros_like(exact)

    def believes_solved(self, state: State) -> Bool[Tensor, " batch"]:
        """Which puzzles the model itself takes for solved; none by default."""
        return torch.zeros(len(state.z), dtype=torch.bool, device=state.z.device)

    @contextlib.contextmanager
    def at_depth(self, outer: int, inner: int) -> Iterator[None]:
        """Inside the block a step has fewer cycles, where the recurrence has cycles at all."""
        yield


class Rollout:
    """An iterator over the states s_1, s_2, ... of a batch; it has no end of its own."""

    def __init__(
        self, recurrence: Recurrence, x: Problem, conditioning: Conditioning, start: State
    ):
        self.recurrence, self.x, self.conditioning = recurrence, x, conditioning
        self.state = start

    def __iter__(self) -> "Rollout":
        return self

    def __next__(self) -> State:
        self.state = self.recurrence(self.state, self.conditioning, self.x)
        return self.state

    def keep(self, rows: Bool[Tensor, " batch"]) -> None:
        """Go on with some of the puzzles only."""
        self.x, self.conditioning = self.x[rows], self.conditioning[rows]
        self.state = self.state.map(lambda tensor: tensor[rows])
