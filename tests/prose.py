"""What the sentences of README and RESULTS must say, made from the stored figures."""

from pathlib import Path

import numpy as np

from experiments import by_file as files
from experiments import verdicts
from experiments.results_page import curve
from experiments.stored import stored_results as figures
from experiments.stored import unpack
from experiments.studies import STUDIES
from focus.evaluation.statistics import effect_over_seeds
from focus.model.solver import Solver
from focus.report import paper

EVERY_KIND = ("none", "smollm2", "trm")
ROOT = Path(__file__).parents[1]
README, RESULTS = ROOT / "README.md", ROOT / "docs" / "RESULTS.md"
DEVIATIONS = ROOT / "docs" / "deviations.md"
METHODS, SUDOKU = (ROOT / "docs" / "measured" / f"{page}.md" for page in ("methods", "sudoku"))


_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def span(values, scale: float = 1.0, digits: int = 0) -> str:
    """The lowest to the highest, as it is written."""
    low, high = (f"{scale * end:.{digits}f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def rate(name: str, steps: int) -> float:
    return next(row["exact"] for row in figures(name)["test"] if row["steps"] == steps)


def full_length(study: str, method: str = "focus", steps: int = 128) -> dict[int, float]:
    """Shares by seed."""
    runs = figures(f"campaign-{study}")["runs"].values()
    return {
        run["seed"]: float(np.mean(unpack(run["test"][str(steps)], run["n_test"])))
        for run in runs if run["method"] == method
    }  # fmt: skip


def points(better: str, worse: str, steps: int = 128) -> float:
    """Points of a method over another at full length, in the mean of the seeds of both."""
    one, other = (full_length("primary", method, steps) for method in (better, worse))
    return 100 * float(np.mean(over(one, other)))


def validated(name: str) -> dict[int, float]:
    """Validation rates of a stored curve by update, in percent."""
    return {line["update"]: 100 * line["validation"]["exact"] for line in curve(name)
            if line.get("validation")}  # fmt: skip


def with_hints_from_1000() -> str:
    """How validation goes in the run with hints."""
    run = figures("campaign-thousand")["runs"]["thousand-hints-focus-1"]
    assert round(100 * unpack(run["validation"]["128"], run["n_validation"]).mean()) == 79
    shares = {int(update): 100 * share for update, share in run["validation_exact"].items()}
    best, last = max(shares, key=shares.__getitem__), max(shares)
    return (
        f"rises to {shares[best]:.0f} % at update {best:,} and falls to {shares[last]:.0f} at"
        f" {last:,}"
    )


def small_runs(choice: str, method: str) -> list[dict]:
    """The runs on 100 puzzles of 4 x 4, by seed."""
    study = "hints-trm-mini-sudoku" if method == "trm" else "hints-mini-sudoku"
    runs = figures(f"campaign-{study}")["runs"]
    return [runs[f"{choice}-{method}-{seed}"] for seed in STUDIES[study].seeds]


def small(choice: str, method: str) -> np.ndarray:
    """What they solve at K = 16."""
    runs = small_runs(choice, method)
    return np.stack([unpack(run["validation"]["16"], run["n_validation"]) for run in runs])


def gain(one: np.ndarray, other: np.ndarray, unit: str = "") -> str:
    """Points of one over the other with their interval, over seeds and puzzles."""
    points, low, high, _ = (100 * value for value in effect_over_seeds(one, other))
    return f"{points:.1f}{unit} [{low:.1f}, {high:.1f}]"


def coin(puzzles: int) -> np.ndarray:
    """What runs on 100 small puzzles solve at K = 16, with a replay coin for so many puzzles."""
    runs = figures("campaign-coin-mini-sudoku")["runs"]
    return np.stack([
        unpack(run["validation"]["16"], run["n_validation"])
        for name, run in sorted(runs.items()) if name.startswith(f"hundred-coin-of-{puzzles}-")
    ])  # fmt: skip


def lower_by(one: np.ndarray, other: np.ndarray) -> str:
    """Points by which one is lower than the other, with the interval of the difference."""
    points, low, high, _ = (100 * value for value in effect_over_seeds(one, other))
    return f"{-points:.1f} points lower [{-high:.1f}, {-low:.1f}]"


def by_file(name: str, sentence: str) -> str:
    """Points of FOCUS over Random on the puzzles of a file, and how many there are."""
    own = files.of_file(figures("sudoku-test-files"), name)
    focus, random = (files.solved("primary", method, own) for method in ("focus", "random"))
    return sentence.format(100 * (focus.mean() - random.mean()), own.sum())


def gain_at_best(method: str) -> float:
    """Points that hints are worth to their best checkpoints, in the mean of the seeds."""
    hinted, plain = (
        np.mean([max(run["validation_exact"].values()) for run in small_runs(choice, method)])
        for choice in ("hundred-hints", "hundred")
    )
    return 100 * float(hinted - plain)


def without_the_first(worse: str, unit: str = "") -> str:
    """Points of FOCUS over another method at full length, without the seed that chose the scale."""
    bits = verdicts.stored_bits("campaign-primary")
    one, other = (np.stack([bits[m][seed][128] for seed in (2, 3, 4, 5)]) for m in ("focus", worse))
    return gain(one, other, unit)


def effect(what: str, task: str) -> float:
    effects = {(v.claim.what, v.claim.task): v.effect for v in verdicts.verdicts()}
    return 100 * effects[what, task]


def minutes_of_training() -> list[float]:
    names = ("sudoku-none", "sudoku-smollm2", "sudoku-trm", "maze-smollm2", "maze-trm")
    return [curve(name)[-1]["seconds"] / 60 for name in names]


def seconds_on_a_cpu(task: str, kinds: tuple[str, ...] = ("none", "smollm2")) -> list[float]:
    names = {f"{task}-{kind}" for kind in kinds}
    return [row["seconds_one"] for row in figures("bench-cpu")["results"]
            if row["checkpoint"] in names]  # fmt: skip


def milliseconds(recipe: str) -> str:
    rows = {row["recipe"]: row for row in figures("bench-language-models")["results"]}
    return f"{1000 / rows[recipe]['captured']['updates_per_second']['base']:.0f}"


def trm_over_updater() -> str:
    one, other = (
        Solver.from_pretrained(name).updater.step_flops() for name in ("sudoku-trm", "sudoku-none")
    )
    return f"{5 * round(one / other / 5)}"


def gained_without_loss(after: int) -> int:
    """Puzzles that the diagnosed rollout solves after a step, where it loses none."""
    rows = figures("diagnosis-primary-focus-3")["results"]
    assert not any(row["lost"] for row in rows)
    return sum(row["gained"] for row in rows if row["step"] > after)


def over(one: dict[int, float], other: dict[int, float]) -> list[float]:
    """How far each seed is over the same seed."""
    return [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]


def listed(shares: list[float]) -> str:
    """a, b and c, in points."""
    *others, last = (f"{100 * share:.1f}" for share in shares)
    return f"{', '.join(others)} and {last}"


def words() -> list[tuple[Path, str]]:
    """Pages, and what each must hold."""
    focus, unscaled = full_length("primary"), full_length("primary-unscaled")
    random = full_length("primary", "random")
    full, scaled = span(unscaled.values(), 100, 1), span(focus.values(), 100, 1)
    longest = span(full_length("primary", steps=1024).values(), 100, 1)
    level = span([np.mean(list(full_length("primary", method, 16).values()))
                  for method in STUDIES["primary"].methods], 100)  # fmt: skip
    took = f"{span(minutes_of_training())} minutes"
    recurrent = next(c.in_paper for c in verdicts.CLAIMS if c.worse == "recurrent")
    lower = [
        effect("restoring the memory helps", task) for task in ("sudoku", "maze")
    ]  # fmt: skip
    third = [
        share for method in ("focus", "energy-hard", "permuted")
        for share in full_length("secondary-third", method).values()
    ]  # fmt: skip
    selected = span(third, 100, 1)
    replaying = span([*third, *full_length("secondary-third-untaught").values()], 100, 1)
    one_step = [
        100 * np.mean(list(full_length("secondary-third", "one-step", steps).values()))
        for steps in (1, 128)
    ]
    coins = [coin(puzzles) for puzzles in (2, 16)]
    published = f"{paper.source_rate('sudoku', paper.STUDIED, 'focus')}"
    eight = figures("campaign-primary")["runs"]["as-is-focus-4"]
    assert eight["together"] == 8
    shared = eight["seconds"] / 8 / 60
    alone = figures("campaign-primary")["runs"]["as-is-focus-1"]["seconds"] / 60
    few, many = validated("sudoku-none-1000"), validated("sudoku-none")
    trm, unscaled_random = figures("sudoku-trm"), full_length("primary-unscaled", "random")
    hinted = small("hundred-hints", "focus")
    retried = next(row for row in figures("symmetry-retries") if row["checkpoint"] == "sudoku-trm")
    early = [f"{100 * row['exact']:.1f} % within {row['steps']:,}" for row in trm["early_stop"]]
    taken = [f"{row['taken']:.0f}" for row in trm["early_stop"]]
    return [
        (SUDOKU, f"{few[1500]:.0f} % of the validation puzzles at update 1,500 become"
                 f" {few[6000]:.0f} % at 6,000"),
        (SUDOKU, with_hints_from_1000()),
        (README, "it has 79 % of the validation puzzles at K = 128"),
        (RESULTS, "it has 79 % of the validation puzzles at K = 128"),
        (SUDOKU, f"has {many[5376]:.0f} % at update 5,376 and {max(many.values()):.0f} at its"
                 " best"),
        (README, f"it has {few[1500]:.0f} % at its best and {few[6000]:.0f} at the end"),
        (RESULTS, f"without hints {few[1500]:.0f} % at its best and {few[6000]:.0f} at the end"),
        (DEVIATIONS, f"{100 * np.mean(list(focus.values())):.1f} % at K = 128 in the mean of"
                     f" {_NUMBERS[len(focus)]} seeds at full length; the three that were also run"
                     f" unscaled have {100 * np.mean([focus[seed] for seed in unscaled]):.1f}"
                     f" instead of {100 * np.mean(list(unscaled.values())):.1f}"),
        (RESULTS, f"Without seed 1 FOCUS is {without_the_first('random', ' points')} above Random,"
                  f" and selection is worth {without_the_first('random-penalty')}"),
        (RESULTS, f"has Random {100 * -over(unscaled, unscaled_random)[0]:.1f} points ahead"),
        (README, f"has Random ahead by {100 * -over(unscaled, unscaled_random)[0]:.1f}"),
        (SUDOKU, f"Hints are worth {gain(hinted, small('hundred', 'focus'), ' points')} to FOCUS"
                 " at K = 16 with the last checkpoints, over seeds and puzzles, and"
                 f" {gain_at_best('focus'):.1f} with the best"),
        (SUDOKU, "Hints are worth"
                 f" {gain(small('hundred-hints', 'trm'), small('hundred', 'trm'), ' points')} to"
                 " the plain TRM at K = 16 with the last weights, because it ends with its 100"
                 f" puzzles memorised, and {gain_at_best('trm'):.1f} with the best checkpoints"),
        (SUDOKU, f"FOCUS is {gain(hinted, small('hundred-hints', 'random'), ' points')} above"
                 " Random, in every seed, and"
                 f" {gain(hinted, small('hundred-hints', 'no-replay'))} above no replay"),
        (README, f"FOCUS, Energy-Hard and permuted steps are at {selected} %"),
        (RESULTS, f"FOCUS without a teacher have {replaying} % there in each of three seeds"),
        (METHODS, f"All that replay have {replaying} % at K = 128"),
        (METHODS, f"One-step solves {one_step[0]:.1f} % with its one step (the paper: 0.5) and"
                  f" {one_step[1]:.1f} % with more"),
        (METHODS, f"a coin for each two is {lower_by(*coins)}"),
        (DEVIATIONS, f"A coin for each two is {lower_by(*coins)}"),
        (RESULTS, by_file("puzzles4_forum_hardest_1905", "FOCUS is {:.1f} points above Random on"
                                                         " the {:,} puzzles of the hardest")),
        (RESULTS, by_file("puzzles1_unbiased", "and {:.1f} on the {:,} unbiased ones")),
        (SUDOKU, f"campaign, had {100 * rate('sudoku-teacher-primary', 16):.1f} %"),
        (SUDOKU, f"It solves {100 * rate('sudoku-teacher', 16):.1f} % of the test puzzles after"
                 " 16 steps"),
        (README, f"about {trm_over_updater()} of our updater's"),
        (README, f"took {took} on one H200"),
        (README, f"memory, {span(lower)} points lower on average in short runs"),
        (README, f"gap of {recurrent:.0f} points to a plain recurrent run is not seen"),
        (README, f"{full} % at K = 128 at full length"),
        (README, f"and {scaled} % when gradients are scaled by 0.8 a step"),
        (README, f"by {effect('FOCUS above Random', 'sudoku'):.1f} points in the mean"),
        (README, "the selection that helps, by"
                 f" {effect('selection at the frontier helps', 'sudoku'):.1f} points"
                 " with the penalty on both sides; the penalty's"
                 f" {effect('the penalty helps', 'sudoku'):.1f} are undecided"),
        (METHODS, f"FOCUS is {listed(over(focus, unscaled))} points above the same seeds without"),
        (METHODS, f"FOCUS is ahead by {listed(over(focus, random))} points at K = 128"),
        (METHODS, f"missed by {float(published) - 100 * np.mean(list(focus.values())):.1f} points"
                  f" in the mean of {_NUMBERS[len(focus)]} seeds at K = 128"),
        (METHODS, f"no solved puzzle is lost up to K = 1,024, and {gained_without_loss(16)} are"
                  " gained after K = 16"),
        (README, f"beside the paper's {published}"),
        (RESULTS, f"reaches {full} %** of the Sudokus at K = 128"),
        (RESULTS, "Random with one seed"
                  f" {span(full_length('primary-unscaled', 'random').values(), 100)} %"),
        (RESULTS, f"the one before it reaches {scaled} %**, and {longest} % at K = 1,024"),
        (RESULTS, f"all methods solve {level} % at K = 16"),
        (RESULTS, f"ahead of Random by {points('focus', 'random', 32):.1f} points at K = 32 and"
                  f" {points('focus', 'random'):.1f} at 128"),
        (RESULTS, f"worth {points('focus', 'random-penalty'):.1f} points with the penalty on both"
                  f" sides and {points('no-penalty', 'random'):.1f} without"),
        (RESULTS, f"the penalty {points('focus', 'no-penalty'):.1f} at the frontier and"
                  f" {points('random-penalty', 'random'):.1f} on random states"),
        (README, f"({100 * np.mean(list(focus.values())):.1f} in the mean)"),
        (RESULTS, f"solves {100 * rate('sudoku-trm', 128):.1f} % at K = 128"),
        (RESULTS, f"retries under symmetries leave {_NUMBERS[len(retried['left'])]} of"
                  f" {retried['n']:,} puzzles"),
        (RESULTS, f"{early[0]} steps and {early[1]}, after {' and '.join(taken)} steps"),
        (RESULTS, f"the paper has {published} %"),
        (RESULTS, f"with the published ones it reached {100 * rate('maze-trm-plain', 16):.1f} %"),
        (RESULTS, f"about {trm_over_updater()} steps of the updater"),
        (RESULTS, f"took {took} to train"),
        (RESULTS, f"takes {_NUMBERS[round(alone)]} minutes alone"),
        (RESULTS, f"eight that share the GPU cost {_NUMBERS[round(shared)]} GPU-minutes each"),
        (RESULTS, "0.5B a base update (no replay) takes "
                  f"{milliseconds('sudoku/qwen2.5-coder-0.5b')} ms"),
        (RESULTS, f"with Qwen3-8B {milliseconds('sudoku/qwen3-8b')}."),
        (RESULTS, f"a Sudoku takes {span(seconds_on_a_cpu('sudoku'), digits=1)} s"),
        (RESULTS, f"(`sudoku-trm` {span(seconds_on_a_cpu('sudoku', ('trm',)), digits=1)} s at"),
        (RESULTS, f"a maze {span(seconds_on_a_cpu('maze', EVERY_KIND), digits=1)} s"),
    ]  # fmt: skip
