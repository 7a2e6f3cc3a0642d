"""What README and RESULTS open with: our solvers, the paper's claims, what others report.

For `experiments/results_page.py`.
"""

import numpy as np

from experiments import compared, symmetry_retries, verdicts
from experiments.stored import markdown, points, rate, rate_of, stored_results, unpack
from experiments.studies import STUDIES
from focus.errors import counted
from focus.evaluation.statistics import paired_difference
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


def _full_length(study: str) -> str:
    """FOCUS at the paper's length and K."""
    runs = [
        r for r in stored_results(f"campaign-{study}")["runs"].values() if r["method"] == "focus"
    ]
    at = str(paper.STEPS[STUDIES[study].recipe])
    solved = [unpack(run["test"][at], run["n_test"]) for run in runs]
    if len(runs) > 1:
        return f"{100 * np.mean(solved):.1f} (mean of {len(runs)} seeds)"
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
                "the same, gradients scaled by 0.8 a step, K = 128", "none", "121,407",
                _full_length("primary"), "–",
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
                "`sudoku-trm`, `maze-trm`, K = 128 / 16", "none (TRM)", _MORE,
                _at("sudoku-trm", 128), _at("maze-trm", 16),
            ],
            ["TRM, its authors", "none (TRM)", *_PEERS[TRM]],
            ["our updater on as few, K = 128 / 16", "none", *_few()],
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
    "the penalty helps": "The defect penalty helps",
    "FOCUS above Energy-Hard": "FOCUS solves more than replaying the largest error",
    "FOCUS above Recurrent": "FOCUS solves more than a loss on the last step alone",
}
_LENGTHS = {
    verdicts.PAPERS: "the paper's length", verdicts.UNSCALED: "the paper's length",
    verdicts.THIRD: "a third of its length", verdicts.SHORT: "short runs",
}  # fmt: skip


def claims() -> str:
    """The paper's claims in short, with what our runs say of them."""
    rows = [["what the paper says", "paper", "ours [95 % interval]", "verdict"]]
    rows += [_solves_sudokus(), _solves_mazes()]
    judged = {v.claim.what: v for v in verdicts.verdicts() if v.claim.task == "sudoku"}
    for what, words in _ON_SUDOKU.items():
        verdict = judged[what]
        paper_has, seeds = verdict.claim.in_paper, counted(verdict.seeds, "seed")
        runs = f"{seeds}, {_LENGTHS[verdict.regime]}"
        rows.append([
            words, "–" if paper_has is None else f"{paper_has:+.1f} points",
            f"{points(verdict.effect, verdict.low, verdict.high)} points ({runs})",
            verdict.word.split(" (")[0],
        ])  # fmt: skip
    return markdown([*rows, _language_model(), _transfer()])


def _solves_sudokus() -> list[str]:
    published = paper.source_rate("sudoku", paper.STUDIED, "focus")
    unscaled, scaled = _full_length("primary-unscaled"), _full_length("primary")
    ours = f"{unscaled}; {scaled} with gradients scaled by 0.8 a step"
    return [
        "FOCUS solves Sudoku-Extreme, K = 128", f"{published} %", ours, "with a change of ours",
    ]  # fmt: skip


def _solves_mazes() -> list[str]:
    published, run = paper.source_rate("maze", paper.STUDIED, "focus"), _full_length("primary-maze")
    return ["FOCUS solves Maze-Hard, K = 16", f"{published} %", f"{run} (1 seed)", "reached"]


def _language_model() -> list[str]:
    with_it, without = (
        unpack(stored["exact_by_puzzle"]["128"], 9_000)
        for stored in map(stored_results, ("sudoku-smollm2", "sudoku-none"))
    )
    gain = points(*paired_difference(with_it, without))
    ours = f"{gain} points with SmolLM2-135M on Sudoku (1 seed)"
    return ["A language model helps to solve puzzles", "no run without", ours, "undecided"]


def _transfer() -> list[str]:
    costs = [
        row["bits_per_token"]
        for row in stored_results("transfer-bits-qwen2.5-coder-0.5b-focus")["compared"]
        if not row["variant"].startswith("null")
    ]
    ours = f"{min(costs):+.2f} to {max(costs):+.2f} bits per token with Qwen2.5-Coder-0.5B"
    average = [np.mean(paper.TRANSFER[paper.STUDIED][source]) for source in ("sudoku", "")]
    gained = f"{average[0] - average[1]:+.1f} points"
    return ["Its adapter helps mathematics and code", gained, ours, "not seen: text gets worse"]
