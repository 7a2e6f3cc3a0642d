"""FOCUS with deep supervision: a puzzle is trained on again from a state of its own trajectory.

Deep supervision walks every puzzle along the model's trajectory, update by update, so the states
that FOCUS would select from are there already. What is needed of them is kept: the state at each
candidate t, energy and exactness after every update; t and h count updates here, of one step of a
TRM or some of an updater, and the defect counts the steps. When a puzzle would be replaced and has
an eligible state, the selector chooses one by the defect over h, and with the replay probability
the puzzle is replayed from there for h more updates; the halting logit of a TRM does not end it. No
extra step of the model is made. An update passes no gradient to the one before: there is no defect
penalty. A puzzle is replayed once.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from focus.curation.config import CurationConfig
from focus.curation.defect import contraction_defect
from focus.curation.records import Batch, Losses, Scores, Selection
from focus.curation.selectors import Selector
from focus.model.solver import Solver
from focus.model.state import State, choose
from focus.random import Stream, uniform
from focus.tasks.records import Problem, Target, constant
from focus.training.objectives.carried_states import CarriedStates


class CarriedReplay:
    """The trajectories of a batch's puzzles so far, and which of them are being replayed."""

    def __init__(
        self, carried: CarriedStates, solver: Solver, curation: CurationConfig,
        selector: Selector, steps_per_t: int,
    ):  # fmt: skip
        self.carried, self.solver, self.steps_per_t = carried, solver, steps_per_t
        self.curation, self.selector = curation, selector
        steps, batch, device = carried.config.steps, len(carried.age), carried.age.device
        self.candidates = sorted(t for t in curation.candidates if t < steps)
        # The slot that keeps the state at each age: that of the last candidate up to it. Where the
        # age is no candidate, the slot is overwritten with what it holds.
        slots = [sum(c <= t for c in self.candidates) - 1 for t in range(steps)]
        self._slot = torch.tensor(slots, device=device)
        self._wanted = torch.tensor([t in self.candidates for t in range(steps)], device=device)
        self._row = torch.arange(batch, device=device)
        self.states = {
            name: tensor.new_zeros(len(self.candidates), *tensor.shape)
            for name, tensor in carried.state.tensors().items()
        }
        self.energy = torch.zeros(steps + 1, batch, device=device)
        self.exact = torch.zeros(steps + 1, batch, dtype=torch.bool, device=device)
        self.visited = torch.zeros_like(self.exact)  # steps of the present stay
        self.replay_until = torch.zeros(
            batch, dtype=torch.long, device=device
        )  # 0: it is not replayed
        self.probability = torch.zeros((), device=device)

    @torch.no_grad()
    def before_step(self, start: State, x: Problem, y: Target) -> None:
        """Remember where the step starts from."""
        age = self.carried.age
        fresh = self.carried.ended  # these were drawn for this update
        self.visited.logical_and_(~fresh)
        self.replay_until.masked_fill_(fresh, 0)
        self._note(age, start, x, y)
        slot = self._slot[age]
        slot_state = choose(self._wanted[age], start.detach(), self._state_in(slot))
        for name, value in slot_state.tensors().items():
            self.states[name][slot, self._row] = value

    @torch.no_grad()
    def after_step(self, batch: Batch, losses: Losses, h: int) -> Losses:
        """Decide which of the puzzles that end are replayed, and from where."""
        carried, keys = self.carried, batch.keys
        self._note(carried.age, carried.state, batch.x, batch.y)
        was_replaying = self.replay_until > 0
        carried.ended.copy_(
            torch.where(was_replaying, carried.age >= self.replay_until, carried.ended)
        )
        selection = self._select(h, keys)
        from_start = self.visited[0]  # the first puzzles of a run begin in the middle
        replayed = carried.ended & ~was_replaying & from_start & selection.from_candidates
        replayed &= uniform(keys, Stream.CARRIED_REPLAY_COIN) < self.probability
        assert selection.scores is not None
        step = selection.scores.step
        carried.state.copy_(choose(replayed, selection.state, carried.state))
        carried.age.copy_(torch.where(replayed, step, carried.age))
        self.replay_until.copy_(torch.where(replayed, step + h, self.replay_until))
        carried.ended.logical_and_(~replayed)
        selection = replace(selection, from_candidates=replayed)
        return replace(losses, replayed=was_replaying.float(), selection=selection)

    def _note(self, age: Int[Tensor, " batch"], state: State, x: Problem, y: Target) -> None:
        z = state.z.detach()[None]
        self.energy[age, self._row] = self.solver.energy(z, x, y)[0].to(self.energy.dtype)
        self.exact[age, self._row] = self.solver.task.exact(z, x, y)[0]
        self.visited.scatter_(0, age[None], True)

    def _select(self, h: int, keys: Int[Tensor, " batch"]) -> Selection:
        """The state of each puzzle's stay that the selector chooses."""
        steps = [t for t in self.candidates if t + h < len(self.energy)]
        at, after = (
            constant(ts, keys.device) for ts in (tuple(steps), tuple(t + h for t in steps))
        )
        energy = self.energy[at]
        defects: Float[Tensor, "candidates batch"] = contraction_defect(
            energy, self.energy[after], h * self.steps_per_t, self.curation.rho,
            self.curation.epsilon,
        )  # fmt: skip
        ends_exact = self.exact[self.carried.age, self._row]
        eligible = self.solver.task.eligible(self.exact[at], self.exact[after], ends_exact)
        eligible = eligible & self.visited[at] & self.visited[after]
        chosen = self.selector(defects, energy, eligible, keys)
        none = torch.zeros_like(self.carried.ended)
        scores = Scores(at[chosen], energy[chosen, self._row], defects[chosen, self._row])
        state = self._state_in(self._slot[at][chosen])
        return Selection(state, eligible.any(0), none, ends_exact, scores)

    def _state_in(self, slot: Int[Tensor, " batch"]) -> State:
        """The state that each puzzle has in a slot."""
        return State.of({name: tensor[slot, self._row] for name, tensor in self.states.items()})

    def tensors(self) -> dict[str, Tensor]:
        """Everything that an update changes, by name."""
        named = {n: getattr(self, n) for n in ("energy", "exact", "visited", "replay_until")}
        return {**named, **{f"states.{name}": tensor for name, tensor in self.states.items()}}
