"""Every method of the paper, and controls of ours, as a change to a FOCUS run."""

from collections.abc import Callable
from dataclasses import replace

from focus.training.config import RunConfig

_FROM_START = (1.0, 0.0, 0.0)  # base updates begin at s_0


def focus(config: RunConfig) -> RunConfig:
    """Replay the state nearest the repair frontier, with the defect penalty."""
    return config


def random(config: RunConfig) -> RunConfig:
    """Replay a visited state drawn uniformly, without the penalty."""
    return no_penalty(random_penalty(config))


def energy_hard(config: RunConfig) -> RunConfig:
    """Replay the visited state with the highest energy, without the penalty."""
    config = replace(config, replay=replace(config.replay, method="energy-hard"))
    return no_penalty(config)


def fixed_mix(config: RunConfig) -> RunConfig:
    """States in fixed proportions: for Sudoku the auxiliary ones, for mazes all of them."""
    config, replay = no_penalty(config), config.replay
    if replay.base_always:
        return replace(config, replay=replace(replay, method="fixed-mix"))
    return replace(config, replay=replace(replay, method="none", base_mixture=replay.fixed_mixture))


def no_penalty(config: RunConfig) -> RunConfig:
    """FOCUS without the defect penalty."""
    return replace(config, curation=replace(config.curation, beta=0.0))


def random_penalty(config: RunConfig) -> RunConfig:
    """FOCUS with random selection; the penalty stays."""
    return replace(config, replay=replace(config.replay, method="random"))


def no_memory(config: RunConfig) -> RunConfig:
    """FOCUS that restores the answer of a selected state and not its memory."""
    return replace(config, curation=replace(config.curation, restore_memory=False))


def no_replay(config: RunConfig) -> RunConfig:
    """FOCUS without replay: rollouts from s_0 (mazes: from q_base), loss at every step."""
    return replace(config, replay=replace(config.replay, method="none"))


def permuted(config: RunConfig) -> RunConfig:
    """FOCUS with the steps t* of a batch dealt out anew among its puzzles."""
    return replace(config, replay=replace(config.replay, method="permuted"))


def easiest(config: RunConfig) -> RunConfig:
    """FOCUS that replays the state with the lowest defect."""
    return replace(config, replay=replace(config.replay, method="easiest"))


def hardest(config: RunConfig) -> RunConfig:
    """FOCUS that replays the state with the highest defect."""
    return replace(config, replay=replace(config.replay, method="hardest"))


def recurrent(config: RunConfig) -> RunConfig:
    """Recurrent final-only: rollouts from s_0, loss on the last answer, no teacher.

    Mazes are decoded by threshold; only the path's cells are learned.
    """
    return replace(
        config, task=config.task.answer_only(), step_weights="final",
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


METHODS: dict[str, Callable[[RunConfig], RunConfig]] = {
    "focus": focus,
    "random": random,
    "energy-hard": energy_hard,
    "fixed-mix": fixed_mix,
    "no-penalty": no_penalty,
    "random-penalty": random_penalty,
    "no-memory": no_memory,
    "no-replay": no_replay,
    "permuted": permuted,
    "easiest": easiest,
    "hardest": hardest,
    "recurrent": recurrent,
    "one-step": one_step,
    "direct": direct,
    "base": base,
}
