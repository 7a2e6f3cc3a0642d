"""The studies of `experiments/campaign.py`: which runs are compared with each other.

A study is a recipe, a number of updates, methods and seeds; a choice changes one setting, or a few.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce

from focus.curation.config import ReplayMethod
from focus.recipes import recipe
from focus.recipes.trm import with_carried_replay
from focus.training.config import DeepSupervisionConfig, RunConfig, TextKLConfig

TEACHER, MAZE_TEACHER = "sudoku-teacher", "maze-teacher"  # runs/sudoku_teacher.sh and so on
Change = Callable[[RunConfig], RunConfig]


def _optimizer(**values) -> Change:
    return lambda config: replace(config, optimizer=replace(config.optimizer, **values))


def _updater(**values) -> Change:
    def change(config: RunConfig) -> RunConfig:
        updater = replace(config.solver.updater, **values)
        return replace(config, solver=replace(config.solver, updater=updater))

    return change


def _task(**values) -> Change:
    return lambda config: replace(config, task=replace(config.task, **values))


def _all(*changes: Change) -> Change:
    return lambda config: reduce(lambda made, change: change(made), changes, config)


# What the paper leaves open, one choice changed at a time.
CHOICES: dict[str, Change] = {
    "as-is": lambda config: config,
    "late-annealing": _optimizer(knots=((0.6, 0.9), (1.0, 0.02))),
    "decay-0.05": _updater(answer_decay=0.05),
    "decay-0.1": _updater(answer_decay=0.1),
    "as-is-again": lambda config: config,  # repeated beside those with decay
}
_EARLY_STAGES = ((0.05, 16, 4), (0.1, 32, 4), (0.4, 64, 8), (0.7, 96, 8), (1.0, 128, 8))
# What may let a long run learn sooner, or keep it from memorising its puzzles.
LONG_CHOICES: dict[str, Change] = {
    "half-rate": _optimizer(learning_rate=1.5e-4),
    # Second moments over a thousand updates, as PyTorch has them, instead of over twenty.
    "beta2-0.999": _optimizer(beta2=0.999),
    "beta2-0.999-no-clip": _optimizer(beta2=0.999, clip=1e9),
    # Long rollouts and eight replayed steps sooner; the paper does not say when its stages change.
    "early-stages": lambda config: replace(
        config, replay=replace(config.replay, stages=_EARLY_STAGES)
    ),
    "no-dropout": _updater(dropout=0.0),
    "gradient-scale-0.8": _updater(bptt_gradient_scale=0.8),
    "gradient-scale-0.6": _updater(bptt_gradient_scale=0.6),
    "fresh-symmetries": lambda config: replace(config, augment=True),
}
# Does the language model matter? Without its adapter; with givens that it alone can tell; with
# cells that it reads after the whole puzzle has been seen.
LANGUAGE_MODEL_CHOICES: dict[str, Change] = {
    "frozen": lambda config: replace(
        config, solver=replace(config.solver, backbone=replace(config.solver.backbone, frozen=True))
    ),
    "givens-hidden": _task(givens_shown=False),
    "two-grids": _task(grids_in_prompt=2),
}
# Recurrent is trained on rollouts of 16 steps; the paper may mean as many as in its test.
ROLLOUT_CHOICES: dict[str, Change] = {
    "rollout-128": lambda config: replace(config, steps=128),
}
# Does a puzzle adapter have to cost its text? The adapter's rate, and a term that holds the text.
RATES: dict[str, Change] = {
    f"adapter-rate-{rate:g}": _optimizer(lora_learning_rate=rate)
    for rate in (2e-6, 1e-5, 2e-5, 1e-4, 2e-4)
}
TEXT_KL: dict[str, Change] = {
    f"adapter-rate-1e-05-text-kl-{weight:g}": _all(
        RATES["adapter-rate-1e-05"],
        lambda config, weight=weight: replace(config, text_kl=TextKLConfig(weight)),
    )
    for weight in (0.1, 1.0)
}
# The same on a CPU: 4 x 4 puzzles printed once, few of them in an update.
_FEW_TOKENS = _all(_task(grids_in_prompt=1), _optimizer(batch=8, lora_learning_rate=3e-4))
TEXT_ON_A_CPU: dict[str, Change] = {
    "text-free": _FEW_TOKENS,
    "text-held": _all(
        _FEW_TOKENS, lambda config: replace(config, text_kl=TextKLConfig(1.0, texts=1))
    ),
}
# What the updater sees of a maze's answer, and how much of it is forgotten at each step.
MAZE_CHOICES: dict[str, Change] = {
    "as-is": lambda config: config,
    "decay-0.2": _updater(answer_decay=0.2),
    "decay-0.2-raw-logits": _all(_updater(answer_decay=0.2), _task(answer_features="logits")),
    "bound-8": _task(logit_bound=8.0),
    "bound-8-decay-0.1": _all(_task(logit_bound=8.0), _updater(answer_decay=0.1)),
    "bound-8-decay-0.2": _all(_task(logit_bound=8.0), _updater(answer_decay=0.2)),
}


def _few(config: RunConfig) -> RunConfig:
    """The 1,000 puzzles of train alone."""
    return replace(config, more_data=())


def _hints(most: int) -> Change:
    """Up to so many blank cells are revealed."""
    return lambda config: replace(config, hints=most)


def _carried(config: RunConfig) -> RunConfig:
    """Puzzles stay for 12 updates of eight steps each; gradients end with the update.

    FOCUS selects among the carried states, without the penalty.
    """
    curation = replace(config.curation, replay_solved=False, beta=0.0)
    carried = replace(
        config, curation=curation, deep_supervision=DeepSupervisionConfig(steps=12), steps=8
    )
    return with_carried_replay(carried, config.replay.method)


def _late_windows(method: ReplayMethod, config: RunConfig) -> RunConfig:
    """A seventh of the batches learns 16 steps after 32 to 256, chosen by a method, and no others.

    After Sotaku (github.com/chenglou/sotaku), which draws them at random, and whose long rollouts
    this makes stable.
    """
    replay = replace(
        config.replay, method=method, start=0.1, stages=((1.0, 272, 16),), weight=1.0,
        probability=(0.15, 0.15), base_always=False,
    )  # fmt: skip
    curation = replace(config.curation, candidates=(32, 64, 128, 256), beta=0.0)
    return replace(config, replay=replay, curation=curation)


# What may keep a solver from memorising 1,000 puzzles.
_REGULARISED = _all(
    _optimizer(weight_decay=0.3), _updater(bptt_gradient_scale=0.5), _updater(dropout=0.2)
)
THOUSAND_CHOICES: dict[str, Change] = {
    "thousand": _few,
    "thousand-hints": _all(_few, _hints(4)),
    "thousand-hints-8": _all(_few, _hints(8)),
    "thousand-hints-carried": _all(_few, _hints(4), _carried),
    "thousand-hints-decay-0.3": _all(_few, _hints(4), _optimizer(weight_decay=0.3)),
    "thousand-hints-regularised": _all(_few, _hints(4), _REGULARISED),
}
# What helps where puzzles abound?
ALL_PUZZLES_CHOICES: dict[str, Change] = {
    "all-puzzles": lambda config: config,
    "all-puzzles-hints": _hints(4),
    "all-puzzles-dropout-0.1": _updater(dropout=0.1),
    # Each puzzle as often as any other: 1,000 of 100,044 come from train.
    "all-puzzles-even-share": lambda config: replace(config, train_share=0.01),
    "all-puzzles-late-windows": partial(_late_windows, "random"),
    "all-puzzles-late-frontier": partial(_late_windows, "focus"),
}


def _hundred(config: RunConfig) -> RunConfig:
    """100 of the training puzzles."""
    return replace(config, corpus=replace(config.corpus, sources=100))


# Hints on a CPU, with seeds enough for an interval.
MINI_HINT_CHOICES: dict[str, Change] = {
    "hundred": _hundred,
    "hundred-hints": _all(_hundred, _hints(3)),
}

# Does it matter how many puzzles share a replay coin? The paper draws one for each two Sudokus and
# for each maze.
COIN_CHOICES: dict[str, Change] = {
    f"coin-of-{puzzles}": _optimizer(batch=16, accumulate=16 // puzzles) for puzzles in (16, 2)
}

ALL_CHOICES = (
    CHOICES | LONG_CHOICES | LANGUAGE_MODEL_CHOICES | ROLLOUT_CHOICES | RATES | TEXT_KL
    | TEXT_ON_A_CPU
    | MAZE_CHOICES | THOUSAND_CHOICES | ALL_PUZZLES_CHOICES | MINI_HINT_CHOICES | COIN_CHOICES
)  # fmt: skip


@dataclass(frozen=True)
class Study:
    """Runs that are compared with each other."""

    recipe: str
    updates: int
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    choices: tuple[str, ...] = ("as-is",)
    splits: tuple[str, ...] = ("test", "validation")  # that the last checkpoint is tested on
    teacher: str = ""  # its checkpoint; "" = none, whatever the recipe has
    gradient_scale: float | None = None  # between steps, where it is not the recipe's

    def runs(self, data: str) -> Iterator[tuple[str, RunConfig]]:
        """Name and config of every run."""
        for choice in self.choices:
            for seed in self.seeds:
                for method in self.methods:
                    config = recipe(self.recipe if method == "trm" else f"{self.recipe}/{method}")
                    if config.step_weights != "final":  # for methods of curation
                        taught = replace(config.teacher, checkpoint=self.teacher)
                        config = replace(config, teacher=taught)
                    if self.gradient_scale is not None:
                        config = _updater(bptt_gradient_scale=self.gradient_scale)(config)
                    updates = self.updates if config.optimizer.updates else 0  # base: none
                    warmup = min(config.optimizer.warmup, updates // 5)
                    config = replace(
                        config, seed=seed, data=data,
                        optimizer=replace(config.optimizer, updates=updates, warmup=warmup),
                        eval_every=max(1, self.updates // 5), log_every=max(1, self.updates // 100),
                        save_every=max(1, self.updates // 10),
                    )  # fmt: skip
                    yield f"{choice}-{method}-{seed}", ALL_CHOICES[choice](config)

    def taught(self) -> set[str]:
        """Names of the runs that have a teacher."""
        return {name for name, config in self.runs("") if config.teacher.checkpoint}


# The first of them stands in the primary study too: `runs/campaign.sh` makes it once.
_SECONDARY = (
    "focus", "permuted", "energy-hard", "no-replay", "no-memory", "fixed-mix", "recurrent",
    "easiest", "hardest",
)  # fmt: skip

STUDIES = {
    "choices": Study(
        "sudoku", 10_000, ("focus",), (42, 43), tuple(CHOICES), ("validation",), gradient_scale=1.0
    ),
    "choices-mini-maze": Study(
        "mini-maze", 300, ("focus",), (1, 2, 3, 4, 5), tuple(MAZE_CHOICES), ("validation",)
    ),
    "coin-mini-maze": Study(
        "mini-maze", 300, ("focus",), (1, 2, 3, 4, 5), tuple(COIN_CHOICES), ("validation",)
    ),
    # On a CPU, with seeds enough for an interval; on mazes Fixed Mix has no replay.
    "methods-mini-maze": Study(
        "mini-maze", 300, ("focus", "random", "no-penalty", "random-penalty", "fixed-mix"),
        tuple(range(1, 11)), ("coin-of-16",), ("test",),
    ),
    "hints-mini-sudoku": Study(
        "mini-sudoku", 300, ("focus", "random", "no-replay"), (1, 2, 3, 4, 5),
        tuple(MINI_HINT_CHOICES), ("validation",),
    ),
    "hints-trm-mini-sudoku": Study(
        "trm-mini-sudoku", 1_000, ("trm", "focus"), (1, 2, 3), tuple(MINI_HINT_CHOICES),
        ("validation",),
    ),
    "primary": Study(
        "sudoku", 50_000, ("focus", "random", "no-penalty", "random-penalty"), (1, 2, 3, 4, 5),
        teacher=TEACHER,
    ),
    # As the paper has it: gradients go back through all steps of a rollout unscaled.
    "primary-unscaled": Study(
        "sudoku", 50_000, ("focus", "random"), (1, 2, 3), teacher=TEACHER, gradient_scale=1.0
    ),
    "long-choices": Study(
        "sudoku", 50_000, ("focus",), (1, 2), ("fresh-symmetries", "gradient-scale-0.6"),
        teacher=TEACHER,
    ),
    "secondary": Study("sudoku", 50_000, _SECONDARY, (1, 2, 3), teacher=TEACHER),
    "secondary-untaught": Study("sudoku", 50_000, ("focus",), (1, 2, 3)),
    "secondary-long-rollout": Study(
        "sudoku", 50_000, ("recurrent",), (1, 2, 3), tuple(ROLLOUT_CHOICES)
    ),
    "secondary-unscaled": Study(
        "sudoku", 50_000, ("focus", "no-replay"), (1, 2, 3), teacher=TEACHER, gradient_scale=1.0
    ),
    # Too short: at their end hardly any hard puzzle is solved (experiments/by_file.py).
    "secondary-third": Study(
        "sudoku", 16_667, ("focus", "energy-hard", "permuted", "one-step"), (1, 2, 3),
        teacher=TEACHER,
    ),
    "secondary-third-untaught": Study("sudoku", 16_667, ("focus",), (1, 2, 3)),
    # The paper's Table 1 for a real language model, and the same without one.
    "table1": Study(
        "sudoku/qwen2.5-coder-0.5b", 20_000, ("focus", "random"), (1, 2, 3), teacher=TEACHER
    ),
    "table1-others": Study(
        "sudoku/qwen2.5-coder-0.5b", 20_000, ("recurrent", "one-step", "direct", "base"), (1,)
    ),
    "table1-controls": Study(
        "sudoku/qwen2.5-coder-0.5b", 20_000, ("focus",), (1,),
        tuple(LANGUAGE_MODEL_CHOICES), teacher=TEACHER,
    ),
    # As long as the paper, for release; `secondary` has the same without a language model.
    "table1-full": Study("sudoku/qwen2.5-coder-0.5b", 50_000, ("focus",), (1,), teacher=TEACHER),
    "table1-none": Study("sudoku", 20_000, ("focus", "random"), (1, 2, 3), teacher=TEACHER),
    "table1-none-others": Study("sudoku", 20_000, ("recurrent", "one-step"), (1,)),
    "table1-larger": Study(
        "sudoku/qwen2.5-coder-1.5b", 20_000, ("focus",), (1,), teacher=TEACHER
    ),
    "table1-maze": Study(
        "maze/qwen2.5-coder-0.5b", 5_000, ("focus", "random", "recurrent", "direct", "base"), (1,)
    ),
    "table1-maze-none": Study("maze", 5_000, ("focus", "random", "recurrent"), (1,)),
    "adapter-rates": Study(
        "sudoku/qwen2.5-coder-0.5b", 10_000, ("focus",), (1,), (*RATES, *TEXT_KL), teacher=TEACHER
    ),
    "text-mini-sudoku": Study(
        "mini-sudoku/smollm2-135m", 300, ("focus",), (1, 2), tuple(TEXT_ON_A_CPU), ("validation",)
    ),
    "thousand": Study(
        "sudoku-quick", 6_000, ("focus",), (1,), tuple(THOUSAND_CHOICES), ("validation",)
    ),
    "thousand-methods": Study(
        "sudoku-quick", 6_000, ("focus", "random", "no-replay"), (1, 2, 3), ("thousand-hints",),
        ("validation",),
    ),
    "all-puzzles": Study(
        "sudoku-quick", 6_000, ("focus",), (1,), tuple(ALL_PUZZLES_CHOICES), ("validation",)
    ),
    "primary-maze": Study(
        "maze", 16_000, ("focus", "random", "no-penalty", "random-penalty"), (1, 2, 3)
    ),
    # On mazes Fixed Mix is no replay: its start states are those of the base rollouts.
    "secondary-maze": Study(
        "maze", 16_000, tuple(name for name in _SECONDARY if name != "no-replay"), (1, 2, 3)
    ),
    "secondary-maze-taught": Study("maze", 16_000, ("focus",), (1, 2, 3), teacher=MAZE_TEACHER),
}  # fmt: skip
