"""What the sentences of README and RESULTS must say, made from the stored figures."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from experiments import by_file as files
from experiments import verdicts
from experiments.headlines import over_seeds
from experiments.results_page import curve
from experiments.stored import points as with_interval
from experiments.stored import stored_results, unpack
from experiments.studies import STUDIES
from focus.evaluation.statistics import effect_over_seeds, mcnemar
from focus.model.solver import Solver
from focus.report import paper

EVERY_KIND = ("none", "smollm2", "trm")
ROOT = Path(__file__).parents[1]
README, RESULTS = ROOT / "README.md", ROOT / "docs" / "RESULTS.md"
TRAIN = ROOT / "docs" / "tutorials" / "train.md"
DEVIATIONS = ROOT / "docs" / "deviations.md"
METHODS, SUDOKU, MAZES, SPEED = (
    ROOT / "docs" / "measured" / f"{page}.md" for page in ("methods", "sudoku", "mazes", "speed")
)
HARDEST, UNBIASED = "puzzles4_forum_hardest_1905", "puzzles1_unbiased"
_FEW_HARDEST = "puzzles5_forum_hardest_1905_11+"


_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def span(values, scale: float = 1.0, digits: int = 0) -> str:
    """The lowest to the highest, as it is written."""
    low, high = (f"{scale * end:.{digits}f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def rate(name: str, steps: int) -> float:
    return next(row["exact"] for row in stored_results(name)["test"] if row["steps"] == steps)


def full_length(study: str, method: str = "focus", steps: int = 128) -> dict[int, float]:
    """Shares by seed."""
    runs = stored_results(f"campaign-{study}")["runs"].values()
    return {
        run["seed"]: float(np.mean(unpack(run["test"][str(steps)], run["n_test"])))
        for run in runs if run["method"] == method
    }  # fmt: skip


def mazes_at_length() -> list[str]:
    """What the first seed on mazes in the paper's regime solves."""
    runs = verdicts.stored_bits("campaign-primary-maze")
    focus, random = (runs[method][1] for method in ("focus", "random"))
    lost, won = (focus[16] < random[16]).sum(), (focus[16] > random[16]).sum()
    return [
        f"FOCUS {100 * focus[16].mean():.1f} %, Random {100 * random[16].mean():.1f}"
        f" (p = {mcnemar(int(lost), int(won)):.2f})",
        f"{100 * focus[1024].mean():.1f} % at K = 1,024",
    ]


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
    run = stored_results("campaign-thousand")["runs"]["thousand-hints-focus-1"]
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
    runs = stored_results(f"campaign-{study}")["runs"]
    return [runs[f"{choice}-{method}-{seed}"] for seed in STUDIES[study].seeds]


def small(choice: str, method: str) -> np.ndarray:
    """What they solve at K = 16."""
    runs = small_runs(choice, method)
    return np.stack([unpack(run["validation"]["16"], run["n_validation"]) for run in runs])


def gain(one: np.ndarray, other: np.ndarray, unit: str = "") -> str:
    """Points of one over the other with their interval, over seeds and puzzles."""
    points, low, high, _ = (100 * value for value in effect_over_seeds(one, other))
    return f"{points:.1f}{unit} [{low:.1f}, {high:.1f}]"


def coin(mazes: int) -> np.ndarray:
    """What runs on small mazes solve at K = 16, with a replay coin for so many mazes."""
    runs = stored_results("campaign-coin-mini-maze")["runs"]
    return np.stack([
        unpack(run["validation"]["16"], run["n_validation"])
        for name, run in sorted(runs.items()) if name.startswith(f"coin-of-{mazes}-")
    ])  # fmt: skip


def hard_files(worse: str) -> str:
    """FOCUS minus another method on the three hard files, at a third of the length."""
    source, names = stored_results("sudoku-test-files"), ("01_file1", HARDEST, _FEW_HARDEST)
    in_file = np.any([files.of_file(source, name) for name in names], 0)
    pair = (files.solved("secondary-third", method, in_file) for method in ("focus", worse))
    return with_interval(*effect_over_seeds(*pair)[:3])


def small_mazes_at_most() -> str:
    """The largest effect at K = 16 that an interval on small mazes leaves room for."""
    bits = verdicts.stored_bits("campaign-methods-mini-maze")
    pairs = (
        ("focus", "random-penalty"), ("no-penalty", "random"), ("focus", "no-penalty"),
        ("random-penalty", "random"), ("focus", "fixed-mix"),
    )  # fmt: skip
    sides = ([np.stack([bits[m][seed][16] for seed in sorted(bits[m])]) for m in p] for p in pairs)
    ends = [abs(end) for pair in sides for end in effect_over_seeds(*pair)[1:3]]
    return f"{100 * max(ends):.1f}"


def unsolved(name: str) -> tuple[str, str, str]:
    """What FOCUS and Random leave unsolved of a file, and by how much less it is, in percent."""
    in_file = files.of_file(stored_results("sudoku-test-files"), name)
    focus, random = (
        1 - files.solved("primary", method, in_file).mean() for method in ("focus", "random")
    )
    return f"{100 * focus:.1f}", f"{100 * random:.1f}", f"{100 * (1 - focus / random):.1f}"


def whole_runs() -> list[str]:
    """Rows of the primary campaign's runs: how many shared the GPU, and what they took."""
    seconds: dict[int, list[float]] = {}
    for run in stored_results("campaign-primary")["runs"].values():
        seconds.setdefault(run["together"], []).append(run["seconds"])
    return [
        f"| {together} | {np.mean(took):,.0f} | {np.mean(took) / 60 / together:.1f} |"
        for together, took in sorted(seconds.items())
    ]


def by_file(name: str, sentence: str) -> str:
    """Points of FOCUS over Random on the puzzles of a file, and how many there are."""
    in_file = files.of_file(stored_results("sudoku-test-files"), name)
    focus, random = (files.solved("primary", method, in_file) for method in ("focus", "random"))
    return sentence.format(100 * (focus.mean() - random.mean()), in_file.sum())


def third_by_file(name: str) -> str:
    """What FOCUS solves of a file at a third of the length, in percent."""
    in_file = files.of_file(stored_results("sudoku-test-files"), name)
    return f"{100 * files.solved('secondary-third', 'focus', in_file).mean():.1f}"


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


def mean_of_seeds(shares: Iterable[float]) -> str:
    """The 95 % interval of a mean over seeds, by Student's t."""
    low, high = over_seeds(100 * np.array(list(shares)))
    return f"[{low:.1f}, {high:.1f}]"


def in_points(effect: float, low: float, high: float) -> str:
    """A signed difference with its interval, in a sentence."""
    return with_interval(effect, low, high).replace(" [", " points [")


def minutes_of_training() -> list[float]:
    names = ("sudoku-none", "sudoku-smollm2", "sudoku-trm", "maze-smollm2", "maze-trm")
    return [curve(name)[-1]["seconds"] / 60 for name in names]


def seconds_on_a_cpu(task: str, kinds: tuple[str, ...] = ("none", "smollm2")) -> list[float]:
    names = {f"{task}-{kind}" for kind in kinds}
    return [row["seconds_one"] for row in stored_results("bench-cpu")["results"]
            if row["checkpoint"] in names]  # fmt: skip


def milliseconds(recipe: str) -> str:
    rows = {row["recipe"]: row for row in stored_results("bench-language-models")["results"]}
    return f"{1000 / rows[recipe]['captured']['updates_per_second']['base']:.0f}"


def trm_over_updater() -> str:
    one, other = (
        Solver.from_pretrained(name).updater.step_flops() for name in ("sudoku-trm", "sudoku-none")
    )
    return f"{5 * round(one / other / 5)}"


def gained_without_loss(after: int) -> int:
    """Puzzles that the diagnosed rollout solves after a step, where it loses none."""
    rows = stored_results("diagnosis-primary-focus-3")["results"]
    assert not any(row["lost"] for row in rows)
    return sum(row["gained"] for row in rows if row["step"] > after)


def collapsing(feature: str = "-logits") -> str:
    """What the diagnosed `mini-sudoku` solves after few, some and all steps."""
    stored = stored_results(f"diagnosis-mini-sudoku{feature}")
    exact = {row["step"]: 100 * row["exact"] for row in stored["results"]}
    assert exact[3] == 100, "all of them"
    return (
        f"all {stored['n']} test puzzles after 3 steps, {exact[48]:.1f} % after 48 and"
        f" {exact[1024]:.1f} % after 1,024"
    )


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
    penalty = next(c for c in verdicts.CLAIMS if c.worse == "no-penalty" and c.task == "sudoku")
    short = verdicts.stored_bits("methods-sudoku-quick")
    third = [
        share for method in ("focus", "energy-hard", "permuted")
        for share in full_length("secondary-third", method).values()
    ]  # fmt: skip
    replaying = span([*third, *full_length("secondary-third-untaught").values()], 100, 1)
    one_step = [
        100 * np.mean(list(full_length("secondary-third", "one-step", steps).values()))
        for steps in (1, 128)
    ]
    coins = in_points(*effect_over_seeds(coin(2), coin(16))[:3])
    taught = next(v for v in verdicts.verdicts() if v.claim.teacher and v.claim.task == "sudoku")
    choices = [
        np.mean(unpack(run["validation"]["128"], run["n_validation"]))
        for run in stored_results("campaign-choices")["runs"].values()
    ]
    published = f"{paper.source_rate('sudoku', paper.STUDIED, 'focus')}"
    eight = stored_results("campaign-primary")["runs"]["as-is-focus-4"]
    assert eight["together"] == 8
    shared = eight["seconds"] / 8 / 60
    alone = stored_results("campaign-primary")["runs"]["as-is-focus-1"]["seconds"] / 60
    few, many = validated("sudoku-none-1000"), validated("sudoku-none")
    trm, unscaled_random = stored_results("sudoku-trm"), full_length("primary-unscaled", "random")
    hinted = small("hundred-hints", "focus")
    retried = next(
        row for row in stored_results("symmetry-retries") if row["checkpoint"] == "sudoku-trm"
    )
    early = [f"{100 * row['exact']:.1f} % within {row['steps']:,}" for row in trm["early_stop"]]
    taken = [f"{row['taken']:.0f}" for row in trm["early_stop"]]
    return [
        (SUDOKU, f"{few[1500]:.0f} % of the validation puzzles at update 1,500 become"
                 f" {few[6000]:.0f} % at 6,000"),
        (SUDOKU, with_hints_from_1000()),
        *((page, "it ends at 79 % (one seed, validation only)") for page in (README, RESULTS)),
        (SUDOKU, f"has {many[5376]:.0f} % at update 5,376 and {max(many.values()):.0f} at its"
                 " best"),
        (README, f"validation peaks at {few[1500]:.0f} % and ends at {few[6000]:.0f} %"),
        (RESULTS, f"K = 128 peaks at {few[1500]:.0f} % and ends at {few[6000]:.0f} %"),
        (DEVIATIONS, f"{100 * np.mean(list(focus.values())):.1f} % at K = 128 in the mean of"
                     f" {_NUMBERS[len(focus)]} seeds at full length; the three that were also run"
                     f" unscaled have {100 * np.mean([focus[seed] for seed in unscaled]):.1f}"
                     f" instead of {100 * np.mean(list(unscaled.values())):.1f}"),
        (RESULTS, f"Without seed 1 FOCUS is {without_the_first('random', ' points')} above Random,"
                  f" and selection is worth {without_the_first('random-penalty')}"),
        (RESULTS, "seed 1 of FOCUS had gained {:.0f} points by it, which the rule did not foresee;"
                  " seeds 2 and 3, run afterwards, gain {:.0f} and {:.0f}".format(
                      *(100 * gained for gained in over(focus, unscaled)))),
        (RESULTS, f"has Random {100 * -over(unscaled, unscaled_random)[0]:.1f} points ahead"),
        (README, "unscaled runs has Random ahead by"
                 f" {100 * -over(unscaled, unscaled_random)[0]:.1f}"),
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
        (RESULTS, f"Energy-Hard and permuted steps are between {replaying.replace('to', 'and')} %"),
        (RESULTS, f"{third_by_file(UNBIASED)} % of the unbiased puzzles and"
                  f" {third_by_file(HARDEST)} % of those of the hardest"),
        (METHODS, f"The methods that replay have {replaying} % at K = 128"),
        (METHODS, f"hard files the differences are {hard_files('energy-hard')} and"
                  f" {hard_files('permuted')}"),
        (METHODS, f"intervals at K = 16 leave room for {small_mazes_at_most()} points at most"),
        (METHODS, "leaves {} % instead of {} % ({} % fewer)".format(*unsolved(UNBIASED))),
        (METHODS, "solves {:.1f} % of the 400 test mazes at K = 16 and {:.1f} at K = 1,024".format(
            *(100 * row["exact"] for row in stored_results("mini-runs")["mini-maze"]["test"][2:]))),
        (METHODS, "large file {} instead of {} % ({} % fewer)".format(*unsolved(HARDEST))),
        (METHODS, "FOCUS minus FOCUS without a teacher is"
                  f" {with_interval(taught.effect, taught.low, taught.high)}"),
        (DEVIATIONS, f"FOCUS without: {in_points(taught.effect, taught.low, taught.high)}"),
        (METHODS, f"{span(choices, 100, 1)} % of the validation puzzles at K = 128"),
        *((SPEED, row) for row in whole_runs()),
        (METHODS, f"One-step solves {one_step[0]:.1f} % with its one step (the paper: 0.5) and"
                  f" {one_step[1]:.1f} % with more"),
        (METHODS, f"with a coin for 16 is {coins}"),
        (DEVIATIONS, f"A coin for each two mazes: {coins}"),
        (RESULTS, by_file(HARDEST, "is {:.1f} points above Random on"
                                                         " the {:,} puzzles of the hardest")),
        (RESULTS, by_file(UNBIASED, "and {:.1f} on the {:,} unbiased ones")),
        (SUDOKU, "earlier training by the same script solves"
                 f" {100 * rate('sudoku-teacher-primary', 16):.1f} %"),
        (METHODS, f"stored solves {100 * rate('sudoku-teacher-primary', 16):.1f} % of the test"),
        (SUDOKU, f"language model solves {100 * rate('sudoku-none', 128):.1f} % at K = 128,"
                 f" {100 * rate('sudoku-none', 256):.1f} % at 256"),
        (SUDOKU, f"It solves {100 * rate('sudoku-teacher', 16):.1f} % of the test puzzles after"
                 " 16 steps"),
        (README, f"about {trm_over_updater()} of our updater's"),
        (README, f"took {took} on one H200"),
        (README, f"without that seed FOCUS is {without_the_first('random').split()[0]} points above"
                 " Random"),
        *((page, sentence) for page in (README, MAZES, RESULTS) for sentence in mazes_at_length()),
        (RESULTS, "(Energy-Hard on Sudoku by " + gain(
            *(np.stack([short[m][seed][128] for seed in sorted(short[m])])
              for m in ("focus", "energy-hard")), " points") + ")"),
        (METHODS, f"scaling gains {listed(over(focus, unscaled))} points"),
        (METHODS, f"At K = 128 FOCUS is ahead by {listed(over(focus, random))} points"),
        (METHODS, f"The mean of {_NUMBERS[len(focus)]} seeds is"
                  f" {100 * np.mean(list(focus.values())):.1f} % at K = 128"),
        (METHODS, f"The paper has {published} % at K = 128"),
        (METHODS, f"no solved puzzle is lost up to K = 1,024, and {gained_without_loss(16)} are"
                  " gained after K = 16"),
        (TRAIN, f"It solves {collapsing()}"),
        (RESULTS, f"solves {full} % unscaled (three seeds; Random with one seed"
                  f" {span(full_length('primary-unscaled', 'random').values(), 100, 1)} %)"),
        (RESULTS, f"and {scaled} % scaled (five seeds,"
                  f" {100 * np.mean(list(focus.values())):.1f} in the mean)"),
        (RESULTS, f"of that mean over the seeds is {mean_of_seeds(focus.values())}"),
        (RESULTS, "which is 1,024 in every seed, "
                  f"{100 * np.mean(list(full_length('primary', steps=1024).values())):.1f} %"),
        (RESULTS, f"{longest} % are solved at K = 1,024"),
        (RESULTS, f"where all solve {level} %"),
        (RESULTS, f"ahead of Random by {points('focus', 'random', 32):.1f} points at K = 32 and"
                  f" {points('focus', 'random'):.1f} at 128"),
        (RESULTS, f"worth {points('focus', 'random-penalty'):.1f} points with the penalty on both"
                  f" sides and {points('no-penalty', 'random'):.1f} without"),
        (RESULTS, f"The penalty is worth {points('focus', 'no-penalty'):.1f} at the frontier,"
                  f" where the paper has {penalty.in_paper:.1f}, and"
                  f" {points('random-penalty', 'random'):.1f} on random states"),
        *((page, f"{100 * np.mean(list(unscaled.values())):.1f} and"
                 f" {100 * np.mean(list(focus.values())):.1f} are of the last weights")
          for page in (README, RESULTS)),
        (RESULTS, f"solves {100 * rate('sudoku-trm', 128):.1f} % at K = 128"),
        (RESULTS, f"Retries under symmetries leave {_NUMBERS[len(retried['left'])]} of"
                  f" {retried['n']:,} puzzles"),
        (RESULTS, f"{early[0]} steps and {early[1]}, after {' and '.join(taken)} steps"),
        (RESULTS, f"the paper has {published} %"),
        (RESULTS, f"with the published ones it reached {100 * rate('maze-trm-plain', 16):.1f} %"),
        (RESULTS, f"about {trm_over_updater()} steps of the updater"),
        (RESULTS, f"took {took} to train"),
        (RESULTS, f"takes {_NUMBERS[round(alone)]} minutes alone"),
        (RESULTS, f"eight that share the GPU cost {_NUMBERS[round(shared)]} GPU-minutes each"),
        (RESULTS, "a base update (no replay) had taken "
                  f"{milliseconds('sudoku/qwen2.5-coder-0.5b')} ms"),
        (RESULTS, f"with Qwen3-8B {milliseconds('sudoku/qwen3-8b')}."),
        (RESULTS, f"a Sudoku takes {span(seconds_on_a_cpu('sudoku'), digits=1)} s"),
        (RESULTS, f"(`sudoku-trm` {span(seconds_on_a_cpu('sudoku', ('trm',)), digits=1)} s at"),
        (RESULTS, f"a maze {span(seconds_on_a_cpu('maze', EVERY_KIND), digits=1)} s"),
    ]  # fmt: skip
