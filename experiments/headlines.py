"""What README and RESULTS open with: our solvers, the paper's claims, what others report.

For `experiments/results_page.py`.
"""

import numpy as np

from experiments import compared, regime_tables, symmetry_retries, verdicts
from experiments.stored import markdown, points, rate, rate_of, stored_results, unpack
from experiments.studies import STUDIES
from focus.errors import counted
from focus.evaluation.statistics import student_quantile, wilson_interval
from focus.report import paper


def _at(name: str, steps: int) -> str:
    """A solver's exact rate at K."""
    return rate(next(row for row in stored_results(name)["test"] if row["steps"] == steps))


def _mean(name: str, method: str, steps: int) -> str:
    """Mean rate of a method's seeds."""
    rates = [100 * row["exact"] for row in compared.results(stored_results(name), method, steps)]
    return f"{np.mean(rates):.1f} (mean of {len(rates)} seeds)"


TRM = "TRM, its authors (arXiv 2510.04871)"
# What others report, each in its own setting: data, Sudoku-Extreme, Maze-Hard.
_PEERS = {
    "LDT, search with 64 chains (arXiv 2605.08605)": (
        "1,000", "~99.96 (1,000 test puzzles)", "99.3 to 99.9, any shortest path"),
    "EqR, restarts (arXiv 2605.21488)": ("1,000", "99.8", "–"),
    "Sotaku, second version, one rollout, K = 1,024 (github.com/chenglou/sotaku)": (
        "2.7 million", "99.1 (25,000 puzzles of its own)", "–"),
    "InfiLoop, one rollout": ("1,000", "97.9", "87.4"),
    "Probabilistic TRM, 87.4 without its noise, many rollouts (arXiv 2605.19943)": (
        "1,000", "98.75", "–"),
    "SiC, one rollout (arXiv 2601.19085)": ("1,000", "96.9", "–"),
    "Augmented HRM, many rollouts of several nets (arXiv 2601.10679)": ("1,000", "96.9", "–"),
    "Attractor Models (arXiv 2605.12466)": ("1,000", "91.4", "93.1"),
    TRM: ("1,000", "87.4", "85.3"),
    "HRM, its authors (arXiv 2506.21734)": ("1,000", "55", "74.5"),
}  # fmt: skip


_MORE = "250,044 / 20,900"  # puzzles of the released solvers


def _few() -> tuple[str, str, str]:
    """Our updater trained on the public training puzzles alone."""
    return (
        "1,000 / 900", _at("sudoku-none-1000", 128), _mean("methods-maze-quick", "focus", 16)
    )  # fmt: skip


def _solved(study: str) -> list[np.ndarray]:
    """Which test puzzles FOCUS solves at the paper's length and K, seed by seed."""
    at = str(paper.STEPS[_task(study)])
    runs = stored_results(f"campaign-{study}")["runs"].values()
    return [unpack(r["test"][at], r["n_test"]) for r in runs if r["method"] == "focus"]


def _task(study: str) -> str:
    return STUDIES[study].recipe.split("/")[0]


def _full_length(study: str) -> str:
    solved = _solved(study)
    if len(solved) > 1:
        return f"{100 * np.mean(solved):.1f} (mean of {len(solved)} seeds)"
    return rate_of(solved[0])


def summary() -> str:
    """Our solvers beside the paper's, in short."""
    paper_rates = [
        f"{paper.source_rate(task, paper.STUDIED, 'focus')}" for task in ("sudoku", "maze")
    ]
    return markdown(
        [
            ["solver", "language model", "training puzzles", "Sudoku-Extreme", "Maze-Hard"],
            [
                "paper, FOCUS, K = 128 / 16", "Qwen3-1.7B", "121,407 / 900", *paper_rates,
            ],
            [
                "FOCUS in the paper's regime, gradients unscaled, K = 128 / 16", "none",
                "121,407 / 900", _full_length("primary-unscaled"), _full_length("primary-maze"),
            ],
            [
                "FOCUS in the paper's regime, gradients scaled by 0.8 a step, K = 128", "none",
                "121,407", _full_length("primary"), "–",
            ],
            [
                "the same, `sudoku-qwen2.5-coder-0.5b`", "Qwen2.5-Coder-0.5B", "121,407",
                _full_length("table1-full"), "–",
            ],
            [
                "`sudoku-none`, `maze-none`, K = 128 / 16", "none", _MORE,
                _at("sudoku-none", 128), _at("maze-none", 16),
            ],
            [
                "`sudoku-smollm2`, `maze-smollm2`, K = 128 / 16", "SmolLM2-135M", _MORE,
                _at("sudoku-smollm2", 128), _at("maze-smollm2", 16),
            ],
            [
                "`sudoku-trm`, `maze-trm`, K = 128 / 16", "none", _MORE,
                _at("sudoku-trm", 128), _at("maze-trm", 16),
            ],
            ["TRM, its authors", "none", *_PEERS[TRM]],
            ["our updater, as few puzzles, K = 128 / 16", "none", *_few()],
        ]
    )  # fmt: skip


def peers() -> str:
    """What others report, and ours from the same data or more."""
    retried = symmetry_retries.most("sudoku-trm")
    ours = {
        f"`sudoku-trm`, early stop, {retried['symmetry_retries']} retries": (
            _MORE.split(" / ")[0], rate(retried), "–"),
        "`sudoku-trm` and `maze-trm`, one rollout, K = 128 / 16": (
            _MORE, _at("sudoku-trm", 128), _at("maze-trm", 16)),
        "`sudoku-none` and `maze-none`, one rollout, K = 256 / 16": (
            _MORE, _at("sudoku-none", 256), _at("maze-none", 16)),
        "no language model, train alone, one rollout, K = 128 / 16": _few(),
    }  # fmt: skip
    rows = [["solver", "training puzzles", "Sudoku-Extreme", "Maze-Hard, exact"]]
    rows += [[who, *figures] for who, figures in (_PEERS | ours).items()]
    return markdown(rows)


# Claims about methods on Sudoku: how README words them.
_ON_SUDOKU = {
    "more steps help": "More steps solve more Sudokus (K = 16 to 128)",
    "FOCUS above Random": "FOCUS solves more than random selection",
    "selection at the frontier helps": "Selecting states at the frontier helps",
    "the frontier, not just early states": "It is each puzzle's own frontier that helps",
    "the penalty helps": "The defect penalty helps",
    "FOCUS above Energy-Hard": "FOCUS solves more than replaying the states of largest error",
    "FOCUS above Recurrent": "FOCUS solves more than a run trained on its last step only",
}
_LENGTHS = {
    verdicts.PAPERS: "the paper's length",
    verdicts.UNSCALED: "the paper's length, unscaled",
    verdicts.THIRD: "a third of its length",
    verdicts.SHORT: "short runs",
}


def claims() -> str:
    """The paper's claims in short, with what our runs say of them."""
    rows = [["claim", "paper", "ours [95 % interval]", "verdict"]]
    rows.append(_solves("primary-unscaled", "Sudoku-Extreme at K = 128"))
    rows.append(_solves("primary", "Sudoku-Extreme at K = 128 with scaled gradients"))
    with_qwen = "Sudoku-Extreme at K = 128 with scaled gradients and Qwen2.5-Coder-0.5B"
    rows.append(_solves("table1-full", with_qwen))
    rows.append(_solves("primary-maze", "Maze-Hard at K = 16"))
    judged = {v.claim.what: v for v in verdicts.verdicts() if v.claim.task == "sudoku"}
    for what, words in _ON_SUDOKU.items():
        verdict = judged[what]
        paper_has, seeds = verdict.claim.in_paper, counted(verdict.seeds, "seed")
        rows.append([
            words, "–" if paper_has is None else f"{paper_has:+.1f} points",
            f"{points(verdict.effect, verdict.low, verdict.high)} points"
            f" ({seeds}, {_LENGTHS[verdict.regime]})",
            verdict.word.split(" (")[0],
        ])  # fmt: skip
    return markdown([*rows, _language_model(), _transfer()])


def _solves(study: str, what: str) -> list[str]:
    """What FOCUS solves at the paper's length: over seeds, or one seed with Wilson's interval."""
    published = paper.source_rate(_task(study), paper.STUDIED, "focus")
    assert published is not None
    solved = _solved(study)
    rates = 100 * np.array([bits.mean() for bits in solved])
    if len(solved) > 1:
        low, high = over_seeds(rates)
    else:
        low, high = (100 * end for end in wilson_interval(int(solved[0].sum()), len(solved[0])))
    word = "reached" if low > published else "missed" if high < published else "level"
    ours = f"{rates.mean():.1f} % [{low:.1f}, {high:.1f}] ({counted(len(solved), 'seed')})"
    return [f"FOCUS solves {what}", f"{published} %", ours, word]


def over_seeds(rates: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of a mean over seeds, by Student's t."""
    reach = student_quantile(0.975, len(rates) - 1) * rates.std(ddof=1) / len(rates) ** 0.5
    return float(rates.mean() - reach), float(rates.mean() + reach)


def _language_model() -> list[str]:
    """One run with the 0.5B beside the seeds without a language model."""
    with_it, without = (
        regime_tables.solved_by_method(study)["focus"] for study in ("table1-full", "primary")
    )
    gain, low, high = regime_tables.with_minus_without(with_it, without, "128")
    seeds = f"{counted(len(with_it), 'seed')}, {len(without)} without"
    which = f"Qwen2.5-Coder-0.5B on Sudoku ({seeds}), the paper's length"
    word = "undecided" if low <= 0 <= high else "seen" if low > 0 else "not seen"
    what = "A language model helps to solve puzzles"
    return [what, "–", f"{points(gain, low, high)} points, {which}", word]


def _transfer() -> list[str]:
    """What the adapter of the run at the paper's length changes on four benchmarks."""
    stored = stored_results("transfer-qwen2.5-coder-0.5b-full")
    gained = 100 * (stored["average"]["focus-full"] - stored["average"]["base"])
    # MATH-Hard is a part of MATH, and CruxEval-I is at the floor.
    tests = [test for test in stored["compared"] if test["benchmark"] in ("math", "cruxeval-o")]
    decided = all(test["p"] < 0.05 and test["points"] * gained > 0 for test in tests)
    word = ("harm seen" if gained < 0 else "gain seen") if decided else "undecided"
    published = [
        np.mean(of_one["sudoku"]) - np.mean(of_one[""]) for of_one in paper.TRANSFER.values()
    ]
    theirs = f"{min(published):+.1f} to {max(published):+.1f} points ({len(published)} adapters)"
    ours = f"{gained:+.1f} points in the average of four benchmarks, Qwen2.5-Coder-0.5B (1 seed)"
    return ["The Sudoku adapter helps mathematics and code", theirs, ours, word]
