"""What changes over a run: learning rate, (K_p, h), replay probability."""

import math

from focus.training.config import OptimizerConfig, ReplayConfig


def learning_rate_share(update: int, config: OptimizerConfig) -> float:
    """Linear warm-up, then half a cosine down to `final_share`; 1 at the peak."""
    if update < config.warmup:
        return (update + 1) / config.warmup
    done = (update - config.warmup) / max(1, config.updates - config.warmup)
    return config.final_share + (1 - config.final_share) * 0.5 * (1 + math.cos(math.pi * done))


def stage(update: int, updates: int, config: ReplayConfig) -> tuple[int, int]:
    """(K_p, h) of an update."""
    share = update / updates
    for until, K_p, h in config.stages:
        if share < until:
            return K_p, h
    return config.stages[-1][1:]


def replay_probability(update: int, updates: int, config: ReplayConfig) -> float:
    """0 before the start, then linear from the first to the last probability."""
    done = update / updates - config.start
    if done < 0 or config.method == "none":
        return 0.0
    first, last = config.probability
    return first + (last - first) * min(1.0, done / max(config.ramp, 1e-9))
