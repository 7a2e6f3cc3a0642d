"""Several solvers of one architecture as one: their weights side by side, one batch for all.

A run with small updates leaves most of a GPU idle. Here row r * B + i of a batch is puzzle i of
solver r; every matrix product is a batched one over the solvers, so that a stack launches as many
kernels as one of them. Only what touches a weight knows of the stack: energies, selection and
losses see one large batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from focus.errors import UserError
from focus.model.attention import Structure, by_groups
from focus.model.base import Model, SolverConfig
from focus.model.compiler import compiled
from focus.model.dropout import draw_seeds
from focus.model.flat_parameters import FlatParameters
from focus.model.precision import mixed_precision, working_dtype
from focus.model.recurrence import Conditioning, Recurrence
from focus.model.solver import Solver
from focus.model.state import State
from focus.model.updater import OF_A_STEP, Updater, UpdaterConditioning, tracked
from focus.tasks.base import Task
from focus.tasks.records import Context, Problem


@dataclass(frozen=True)
class StackedConditioning(Conditioning):
    """What stays the same over a rollout of all solvers."""

    inputs: Float[Tensor, "batch tokens width"]
    structure: Structure
    weights: Float[Tensor, "solvers weights"]

    def detach(self) -> "StackedConditioning":
        """Cut off from the weights, for rollouts without gradients."""
        return StackedConditioning(self.inputs.detach(), self.structure, self.weights.detach())

    def __getitem__(self, rows: Bool[Tensor, " batch"]) -> Conditioning:
        raise UserError("the puzzles of a stack go on together: no early stop")


class StackedUpdater(Recurrence):
    """The updaters of several solvers; the first of them lends its methods."""

    def __init__(self, weights: dict[str, Tensor], first: Updater):
        """`weights` are those of the whole solvers by name, with an axis of solvers in front."""
        super().__init__()
        self.task, self.first, self.weights = first.task, first, weights
        self.flat = FlatParameters(first, "propose", OF_A_STEP)
        self.step = self._step

    @property
    def count(self) -> int:
        """Solvers in the stack."""
        return len(self.weights["updater.memory_start"])

    def compile_step(self) -> None:
        self.step = compiled(self._step)

    def step_flops(self) -> float:
        return self.first.step_flops()

    def backward_over_forward(self) -> float:
        return self.first.backward_over_forward()

    def rollout_bytes(self, steps: int, replayed_steps: int, kept_states: int) -> int:
        return self.first.rollout_bytes(steps, replayed_steps, kept_states)

    def apart(self, tensor: Tensor) -> Tensor:
        """A batch with an axis of solvers in front."""
        return tensor.unflatten(0, (self.count, -1))

    def condition(self, R: Float[Tensor, "batch tokens width"], x: Problem) -> StackedConditioning:
        context = self.task.context(x)
        named = {name: self.weights[f"updater.{name}"] for name in _conditioning_names(self.first)}

        def embed(own: dict[str, Tensor], *fields: Tensor) -> Tensor:
            method = _Embed(self.first)
            own = {f"updater.{name}": value for name, value in own.items()}
            return torch.func.functional_call(method, own, (Context(*fields),))

        parts = (self.apart(field) for field in (context.position, context.category, context.bits))
        inputs = R + torch.vmap(embed)(named, *parts).flatten(0, 1)
        flat = [self.weights[f"updater.{name}"].flatten(1) for name in self.flat.names()]
        return StackedConditioning(
            inputs.to(working_dtype(inputs.device)), by_groups(self.task.members(x), None, 0),
            torch.cat(flat, 1),
        )  # fmt: skip

    def initial(self, x: Problem) -> State:
        z = self.task.initial(x)
        memory = self.weights["updater.memory_start"][:, None, None]
        memory = memory.expand(-1, len(z) // self.count, z.shape[1], -1).flatten(0, 1)
        return State(z, {"memory": memory.to(working_dtype(z.device))})

    def forward(self, state: State, conditioning: StackedConditioning, x: Problem) -> State:
        seeds = None
        if self.training and self.first.config.dropout:
            sites = 2 * self.first.config.layers
            seeds = draw_seeds(self.count * sites, state.z.device).view(self.count, sites)
        if torch.is_grad_enabled():
            state = state.map(tracked)
        return self.step(state, conditioning, x, seeds)

    def _step(
        self, state: State, conditioning: StackedConditioning, x: Problem,
        seeds: Int[Tensor, "solvers sites"] | None,
    ) -> State:  # fmt: skip
        with mixed_precision(state.z.device):
            features = self.task.features(state.z, x)
            structure = conditioning.structure

            def propose(weights: Tensor, features: Tensor, memory: Tensor, inputs: Tensor, *seed):
                one = UpdaterConditioning(inputs, structure)
                arguments = features, {"memory": memory}, one, x, seed[0] if seed else None
                increment, u = self.flat.unpacked(weights, *arguments)
                return increment, u["memory"]

            batch = (features, state.u["memory"], conditioning.inputs)
            increment, memory = torch.vmap(propose)(
                conditioning.weights, *map(self.apart, batch), *(() if seeds is None else (seeds,))
            )
            z = self.first.revise(state.z, increment.flatten(0, 1), x)
        return State(z, {"memory": memory.flatten(0, 1)})


class _Embed(torch.nn.Module):
    """A module whose forward is E(c_x)."""

    def __init__(self, updater: Updater):
        super().__init__()
        self.updater = updater

    def forward(self, context: Context) -> Tensor:
        return self.updater.embed(context)


class StackedSolver(Solver):
    """The solvers of a stack, which lend it their weights.

    The weights of each become views of the stack's, so that each can still be saved, evaluated
    and optimized by itself.
    """

    def __init__(self, solvers: Sequence[Solver]):
        first = solvers[0]
        Model.__init__(self, first.task, first.config)
        self.weights = _joined(solvers)
        self.backbone = first.backbone
        self.updater = StackedUpdater(self.weights, cast(Updater, first.updater))
        self.energy, self.loss = first.task.energy, first.task.loss

    def encode(self, x: Problem, hidden: Tensor | None = None) -> Conditioning:
        """R + E(c_x) of every solver for its own puzzles."""
        clue, table = self.backbone.read(x), self.weights["backbone.table.weight"]
        solver = torch.arange(len(table), device=clue.device).repeat_interleave(
            len(clue) // len(table)
        )
        R = table.flatten(0, 1)[clue + solver[:, None] * table.shape[1]]
        return self.updater.condition(R, x)


def why_not_stacked(task: Task, config: SolverConfig) -> str | None:
    """Why solvers of a config cannot be stacked; None where they can."""
    updater = config.updater
    plain = config.answer == "revised" and config.backbone.name == "none"
    if not plain or updater.hops or updater.registers or updater.bptt_gradient_scale < 1:
        return (
            "a stack is for updaters without a language model, hops, registers and scaled gradients"
        )
    if task.padded or updater.structure != "bias":
        return (
            f"a stack is for tasks whose cells form groups, as in a Sudoku; {task.name} runs one "
            "at a time"
        )
    return None


def _joined(solvers: Sequence[Solver]) -> dict[str, Tensor]:
    """Weights by name with an axis of solvers; those of each solver become views of them."""
    joined = {}
    named = [dict(solver.named_parameters()) for solver in solvers]
    for name in named[0]:
        weights = torch.stack([one[name].detach() for one in named]).requires_grad_()
        weights.grad = torch.zeros_like(weights)
        for number, one in enumerate(named):
            one[name].data = weights.data[number]
            one[name].grad = weights.grad[number]
        joined[name] = weights
    return joined


def _conditioning_names(updater: Updater) -> list[str]:
    """The weights that `embed` uses."""
    heads = ("categories", "bits_in", "position_in")
    return [name for name, _ in updater.named_parameters() if name.split(".")[0] in heads]
