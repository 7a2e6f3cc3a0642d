"""What the sentences of README and RESULTS must say, made from the stored figures."""

from pathlib import Path

import numpy as np

from experiments import verdicts
from experiments.stored import figures, unpack
from focus.model.solver import Solver
from focus.report import paper

EVERY_KIND = ("none", "smollm2", "trm")
ROOT = Path(__file__).parents[1]
README, RESULTS = ROOT / "README.md", ROOT / "docs" / "RESULTS.md"


def span(values, scale: float = 1.0, digits: int = 0) -> str:
    """The lowest to the highest, as it is written."""
    low, high = (f"{scale * end:.{digits}f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def rate(name: str, steps: int) -> float:
    return next(row["exact"] for row in figures(name)["test"] if row["steps"] == steps)


def primary(method: str, steps: int = 128) -> list[float]:
    runs = figures("campaign-primary")["runs"].values()
    return [
        float(np.mean(unpack(run["test"][str(steps)], run["n_test"])))
        for run in runs if run["method"] == method
    ]  # fmt: skip


def effect(what: str, task: str) -> float:
    found = {(v.claim.what, v.claim.task): v.effect for v in verdicts.verdicts()}
    return 100 * found[what, task]


def minutes_of_training() -> list[float]:
    from experiments.results_page import _curve

    names = ("sudoku-none", "sudoku-smollm2", "sudoku-trm", "maze-smollm2", "maze-trm")
    return [_curve(name)[-1]["seconds"] / 60 for name in names]


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


def words() -> list[tuple[Path, str]]:
    """Pages, and what each must hold."""
    full = span(primary("focus"), 100, 1)
    took = f"{span(minutes_of_training())} minutes"
    recurrent = next(c.in_paper for c in verdicts.CLAIMS if c.worse == "recurrent")
    lower = [
        effect(what, task) for task in ("sudoku", "maze")
        for what in ("FOCUS above Energy-Hard", "restoring the memory helps")
    ]  # fmt: skip
    published = f"{paper.source_rate('sudoku', paper.STUDIED, 'focus')}"
    alone = figures("campaign-primary")["runs"]["as-is-focus-1"]
    shared = alone["seconds"] / alone["together"] / 60
    return [
        (README, f"about {trm_over_updater()} of our updater's"),
        (README, f"took {took} on one H200"),
        (README, f"is {span(lower)} points lower on average"),
        (README, f"gap of {recurrent:.0f} points to a plain recurrent run is not seen"),
        (README, f"{full} % at K = 128 at full length"),
        (README, f"below the paper's {published}"),
        (RESULTS, f"reaches {full} %** of the Sudokus at K = 128"),
        (RESULTS, f"Random with one seed {span(primary('random'), 100)} %"),
        (RESULTS, f"the paper has {published} %"),
        (RESULTS, f"with the published ones it reached {100 * rate('maze-trm-plain', 16):.1f} %"),
        (RESULTS, f"about {trm_over_updater()} steps of the updater"),
        (RESULTS, f"took {took} to train"),
        (RESULTS, f"costs {['', 'one', 'two', 'three', 'four'][round(shared)]} GPU-minutes"),
        (RESULTS, f"0.5B an update takes {milliseconds('sudoku/qwen2.5-coder-0.5b')} ms"),
        (RESULTS, f"with Qwen3-8B {milliseconds('sudoku/qwen3-8b')}."),
        (RESULTS, f"a Sudoku takes {span(seconds_on_a_cpu('sudoku'), digits=1)} s"),
        (RESULTS, f"(`sudoku-trm` {span(seconds_on_a_cpu('sudoku', ('trm',)), digits=1)} s at"),
        (RESULTS, f"a maze {span(seconds_on_a_cpu('maze', EVERY_KIND), digits=1)} s"),
    ]  # fmt: skip
