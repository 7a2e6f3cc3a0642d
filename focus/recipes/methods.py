"""Every method of the paper, and controls of ours, as a change to a FOCUS run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from focus.curation.config import ReplayMethod
from focus.training.config import RunConfig

Change = Callable[[RunConfig], RunConfig]
_FROM_START = (1.0, 0.0, 0.0)  # base updates begin at s_0


def _replaying(method: ReplayMethod = "focus", **curation: Any) -> Change:
    """A run that chooses by another method what it replays, or replays it otherwise."""

    def change(config: RunConfig) -> RunConfig:
        return replace(
            config, replay=replace(config.replay, method=method),
            curation=replace(config.curation, **curation),
        )  # fmt: skip

    return change


def fixed_mix(config: RunConfig) -> RunConfig:
    """States in fixed proportions: for Sudoku the auxiliary ones, for mazes all of them."""
    replay, curation = config.replay, replace(config.curation, beta=0.0)
    mixed = replace(replay, method="fixed-mix")
    if not replay.base_always:
        mixed = replace(replay, method="none", base_mixture=replay.fixed_mixture)
    return replace(config, replay=mixed, curation=curation)


def recurrent(config: RunConfig) -> RunConfig:
    """Recurrent final-only: rollouts from s_0, loss on the last answer, no teacher.

    Mazes are decoded by threshold; only the path's cells are learned. Its one loss has to reach the
    first step: gradients are not scaled on the way, unless Muon's high rate needs it.
    """
    updater = config.solver.updater
    if config.optimizer.kind == "adamw":
        updater = replace(updater, bptt_gradient_scale=1.0)
    return replace(
        config, task=config.task.answer_only(), step_weights="final",
        solver=replace(config.solver, updater=updater),
        teacher=replace(config.teacher, checkpoint=""),
        replay=replace(config.replay, method="none", base_mixture=_FROM_START),
    )  # fmt: skip


def one_step(config: RunConfig) -> RunConfig:
    """One-step State-SFT: a single update of the state, supervised."""
    return replace(recurrent(config), steps=1, eval_steps=1)


def direct(config: RunConfig) -> RunConfig:
    """Direct LoRA SFT: the language model learns to write the answer."""
    return replace(recurrent(config), solver=replace(config.solver, answer="written"))


def base(config: RunConfig) -> RunConfig:
    """The language model as it is, prompted: nothing is trained."""
    config = direct(config)
    return replace(config, optimizer=replace(config.optimizer, updates=0))


METHODS: dict[str, Change] = {
    # The state nearest the repair frontier, with the defect penalty.
    "focus": _replaying(),
    # A visited state drawn uniformly, without the penalty.
    "random": _replaying("random", beta=0.0),
    # The visited state with the highest energy, without the penalty.
    "energy-hard": _replaying("energy-hard", beta=0.0),
    "fixed-mix": fixed_mix,
    # FOCUS without the penalty; with random selection, and the penalty; without the memory of the
    # selected state; without replay: rollouts from s_0 (mazes: from q_base), loss at every step.
    "no-penalty": _replaying(beta=0.0),
    "random-penalty": _replaying("random"),
    "no-memory": _replaying(restore_memory=False),
    "no-replay": _replaying("none"),
    # The steps t* of a batch dealt out anew among its puzzles; the lowest defect; the highest.
    "permuted": _replaying("permuted"),
    "easiest": _replaying("easiest"),
    "hardest": _replaying("hardest"),
    "recurrent": recurrent,
    "one-step": one_step,
    "direct": direct,
    "base": base,
}
