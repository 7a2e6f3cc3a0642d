"""Every method of the paper as a change to a FOCUS run."""

from collections.abc import Callable
from dataclasses import replace

from focus.tasks import Maze
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
    if config.replay.base_always:
        return replace(config, replay=replace(config.replay, method="fixed-mix"))
    mixture = config.replay.fixed_mixture
    return replace(config, replay=replace(config.replay, method="none", base_mixture=mixture))


def no_penalty(config: RunConfig) -> RunConfig:
    """FOCUS without the defect penalty."""
    return replace(config, curation=replace(config.curation, beta=0.0))


def random_penalty(config: RunConfig) -> RunConfig:
    """FOCUS with random selection; the penalty stays."""
    return replace(config, replay=replace(config.replay, method="random"))


def no_memory(config: RunConfig) -> RunConfig:
    """FOCUS that restores the answer of a selected state and not its memory."""
    return replace(config, curation=replace(config.curation, restore_memory=False))


def recurrent(config: RunConfig) -> RunConfig:
    """Recurrent final-only: rollouts from s_0, loss on the last answer, no teacher.

    Mazes are decoded by threshold; only the path's cells are learned.
    """
    config = replace(
        config, step_weights="final", teacher=replace(config.teacher, checkpoint=""),
        replay=replace(config.replay, method="none", base_mixture=_FROM_START),
    )  # fmt: skip
    if isinstance(config.task, Maze):
        config = replace(config, task=replace(config.task, decoder="threshold"))
    return config


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
    "recurrent": recurrent,
    "one-step": one_step,
    "direct": direct,
    "base": base,
}


def method_of(config: RunConfig) -> str:
    """The name of a run's method, read off its settings.

    `trm`, `trm-focus`, ... for a TRM; `deep-supervision` for an updater that is trained like one.
    """
    replay, curation = config.replay, config.curation
    if config.solver.answer == "trm":
        return "trm" if replay.method == "none" else f"trm-{replay.method}"
    if config.solver.answer == "written":
        return "direct" if config.optimizer.updates else "base"
    if config.carry.steps:
        return "deep-supervision"
    if config.steps == 1:
        return "one-step"
    if replay.method == "none":
        return "recurrent" if replay.base_mixture == _FROM_START else "fixed-mix"
    if replay.method == "random":
        return "random-penalty" if curation.beta else "random"
    if replay.method == "focus" and not curation.restore_memory:
        return "no-memory"
    return replay.method if replay.method != "focus" or curation.beta else "no-penalty"
