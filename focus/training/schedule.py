"""What changes over a run: learning rate, (K_p, h), replay probability, weight of the KL, depth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from focus.curation.config import ReplayConfig, Stage
from focus.training.config import DeepSupervisionConfig, OptimizerConfig, RunConfig, TeacherConfig


@dataclass(frozen=True)
class Scheduled:
    """What an update differs in from others."""

    learning_rate_share: float  # of each peak
    stage: Stage
    replay_probability: float
    teacher_weight: float
    depth: tuple[int, int] | None  # cycles and refinements of a TRM, where they are not its own


def scheduled(update: int, config: RunConfig) -> Scheduled:
    """All that the schedules of a run say of an update."""
    updates = config.optimizer.updates
    return Scheduled(
        learning_rate_share(update, config.optimizer),
        stage(update, updates, config.replay),
        replay_probability(update, updates, config.replay),
        teacher_weight(update, updates, config.teacher),
        depth(update, updates, config.deep_supervision),
    )


def learning_rate_share(update: int, config: OptimizerConfig) -> float:
    """Linear warm-up to 1, then half a cosine from each knot to the next."""
    if update < config.warmup:
        return (update + 1) / config.warmup
    done = update / config.updates
    before, high = config.warmup / config.updates, 1.0
    for after, low in config.knots:
        if done < after:
            way = (done - before) / (after - before)
            return low + (high - low) * 0.5 * (1 + math.cos(math.pi * way))
        before, high = after, low
    return high


def stage(update: int, updates: int, config: ReplayConfig) -> Stage:
    """(K_p, h) of an update."""
    return Stage(*(_before(config.stages, update / updates) or config.stages[-1][1:]))


def depth(update: int, updates: int, config: DeepSupervisionConfig) -> tuple[int, int] | None:
    """Cycles and refinements of a TRM at an update; None: its own."""
    return _before(config.depths, update / updates)


def _before(points: Sequence[tuple[float, int, int]], share: float) -> tuple[int, int] | None:
    """The two numbers of the first point that lies beyond a share of the run."""
    return next(((one, two) for until, one, two in points if share < until), None)


def replay_probability(update: int, updates: int, config: ReplayConfig) -> float:
    """0 before the start, then linear from the first to the last probability."""
    done = update / updates - config.start
    if done < 0 or config.method == "none":
        return 0.0
    first, last = config.probability
    return first + (last - first) * min(1.0, done / max(config.ramp, 1e-9))


def teacher_weight(update: int, updates: int, config: TeacherConfig) -> float:
    """Weight of the KL loss: 0 before the start, then a linear warm-up."""
    done = update / updates - config.start
    if done < 0 or not config.checkpoint:
        return 0.0
    return config.weight * min(1.0, done / max(config.warmup, 1e-9))
