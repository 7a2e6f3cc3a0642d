"""Several solvers of one architecture as one: their weights side by side, one batch for all.

A run with small updates leaves most of a GPU idle. Here row r * B + i of a batch is puzzle i of
solver r; every matrix product is a batched one over the solvers (`layers.py`), so that a stack
launches as many kernels as one of them. Only what touches a weight knows of the stack: energies,
selection and losses see one large batch.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from focus.model.base import Model, SolverConfig
from focus.model.flat_parameters import FlatParameters, Method
from focus.model.precision import working_dtype
from focus.model.recurrence import Conditioning, Recurrence
from focus.model.solver import Solver
from focus.model.state import State
from focus.model.updater import OF_A_STEP, Updater, UpdaterConditioning
from focus.model.weight_vector import WeightVector
from focus.tasks.records import Problem


class StackedUpdater(Recurrence):
    """The updaters of several solvers: the first of them, with the weights of all."""

    def __init__(self, weights: dict[str, Tensor], first: Updater):
        """`weights` are those of the whole solvers by name, with an axis of solvers in front."""
        super().__init__()
        self.task, self.first, self.weights = first.task, first, weights
        self.flat = FlatParameters(first, "step", OF_A_STEP)
        self.compiled = False

    def compile_step(self) -> None:
        self.compiled = True

    def step_flops(self) -> float:
        return self.first.step_flops()

    def rollout_bytes(self, steps: int, replayed_steps: int, kept_states: int) -> int:
        return self.first.rollout_bytes(steps, replayed_steps, kept_states)

    def condition(self, R: Float[Tensor, "batch tokens width"], x: Problem) -> UpdaterConditioning:
        inputs = R + with_weights(self.first, self.weights, "updater.", "embed")(
            self.task.context(x)
        )
        own = self.first.relation_bias  # where it is not trained
        flat = self.flat.flatten([self.weights[f"updater.{n}"] for n in self.flat.names()])
        return UpdaterConditioning(
            inputs.to(working_dtype(inputs.device)),
            self.first.structure(x, self.weights.get("updater.relation_bias", own)), flat,
        )  # fmt: skip

    def initial(self, x: Problem) -> State:
        z = self.task.initial(x)
        memory = self.weights["updater.memory_start"]
        memory = memory.repeat_interleave(len(z) // len(memory), 0)[:, None]
        return State(z, {"memory": memory.expand(*x.cell.shape, -1).to(working_dtype(z.device))})

    def forward(self, state: State, conditioning: UpdaterConditioning, x: Problem) -> State:
        step = self.flat if self.compiled else self.flat.unpacked
        return self.first.flat_step(step, self.training, state, conditioning, x)


class StackedSolver(Solver):
    """The solvers of a stack, which lend it their weights.

    The weights of each become views of the stack's, so that each can still be saved, evaluated
    and optimized by itself.
    """

    def __init__(self, solvers: Sequence[Solver], vectors: Sequence[WeightVector] = ()):
        """`vectors` are those of the solvers' weights, where optimizers have made them."""
        first = solvers[0]
        Model.__init__(self, first.task, first.config)
        self.weights = _joined(vectors or [_vector(solver) for solver in solvers])
        self.backbone = first.backbone
        self.updater = StackedUpdater(self.weights, cast(Updater, first.updater))
        self.energy, self.loss = first.task.energy, first.task.loss

    def encode(self, x: Problem, hidden: Tensor | None = None) -> Conditioning:
        """R + E(c_x) of every solver for its own puzzles.

        A language model's frozen weights are those of the first solver; all have the same.
        """
        read, project = (
            with_weights(self.backbone, self.weights, "backbone.", method)
            for method in ("read", "project")
        )
        return self.updater.condition(project(read(x)), x)


def why_not_stacked(config: SolverConfig) -> str | None:
    """Why solvers of a config cannot be stacked; None where they can."""
    updater = config.updater
    written = config.answer != "revised"
    if written or updater.hops:
        return "a stack is for models that revise, without hops"
    return None


def _vector(solver: Solver) -> WeightVector:
    return WeightVector({n: p for n, p in solver.named_parameters() if p.requires_grad})


def _joined(vectors: Sequence[WeightVector]) -> dict[str, Tensor]:
    """Trained weights by name with an axis of solvers; each vector becomes a row of all."""
    values = torch.stack([vector.values for vector in vectors])
    gradients = torch.stack([vector.gradients for vector in vectors])
    for vector, *rows in zip(vectors, values, gradients, strict=True):
        vector.move_to(*rows)
    # Detached, since autocast converts what PyTorch knows to be a view at every use.
    joined = {n: w.detach().requires_grad_() for n, w in vectors[0].split(values).items()}
    for name, gradient in vectors[0].split(gradients).items():
        joined[name].grad = gradient
    # PyTorch prefers contiguous gradients for weights that lie apart; here they lie as the weights.
    warnings.filterwarnings("ignore", "grad and param do not obey the gradient layout contract")
    return joined


def with_weights(
    module: torch.nn.Module, weights: dict[str, Tensor], head: str, method: str
) -> Callable[..., Any]:
    """A method of a module, with the weights whose names begin with `head` for the module's."""
    own = {
        f"module.{name.removeprefix(head)}": value
        for name, value in weights.items() if name.startswith(head)
    }  # fmt: skip
    return partial(torch.func.functional_call, Method(module, method), own)
