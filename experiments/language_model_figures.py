"""What a language model costs, and what its adapter costs, for `experiments/results_page.py`."""

from collections.abc import Callable

from matplotlib.axes import Axes

from experiments import stored
from experiments.stored import stored_results, unpack
from experiments.studies import RATES, TEXT_KL
from focus.report import paper
from focus.report.plots import PALETTE

_SOLVERS = {
    "campaign-table1-none": "no language model, 20,000 updates",
    "campaign-table1": "Qwen2.5-Coder-0.5B, 20,000 updates",
    "campaign-table1-larger": "Qwen2.5-Coder-1.5B, 20,000 updates",
    "campaign-primary": "no language model, 50,000 updates",
    "campaign-table1-full": "Qwen2.5-Coder-0.5B, 50,000 updates",
}
_SWEEP, _BITS, _TEXT = (
    f"{kind}-adapter-rates" for kind in ("campaign", "transfer-bits", "transfer")
)


def draw_minutes(axis: Axes) -> None:
    """Validation accuracy of FOCUS over minutes of a GPU, with language models and without.

    Runs of a stack share its minutes. The first runs were stored without this curve.
    """
    devices = set()
    for (name, label), colour in zip(_SOLVERS.items(), PALETTE, strict=False):
        runs = stored_results(name)["runs"].values() if _is_stored(name) else ()
        drawn = (run for run in runs if run["method"] == "focus" and "validation_exact" in run)
        for run in drawn:
            minutes = run["seconds"] / run["together"] / 60
            devices.add(run["device"])
            points = {int(n): 100 * rate for n, rate in run["validation_exact"].items()}
            axis.plot(
                [minutes * update / run["updates"] for update in points], [*points.values()],
                marker="o", ms=3, lw=1.2, color=colour, label=label,
            )  # fmt: skip
            label = None  # of the first seed alone
    axis.set_xscale("log")
    axis.set_xlabel(f"minutes of one {' or '.join(sorted(devices))}, compilation included")
    axis.set_ylabel(f"exact, % of validation (K = {paper.STEPS['sudoku']})")


def draw_adapter_rates(axis: Axes) -> None:
    """What text costs at each rate of the adapter, over what the puzzle gains."""
    steps = str(paper.STEPS["sudoku"])
    solved = {
        name.removesuffix(f"-focus-{run['seed']}"): 100 * unpack(run["test"][steps], run["n_test"])
        for name, run in stored_results(_SWEEP)["runs"].items()
    }
    sides = (
        (axis, _BITS, "math", "bits_per_token", 1, "bits per token (MATH)"),
        (axis.twinx(), _TEXT, "cruxeval-o", "accuracy", 100, "exact, % (CruxEval-O)"),
    )
    for (side, file, benchmark, key, scale, label), colour in zip(sides, PALETTE, strict=False):
        rows = stored_results(file)["results"]
        of = {row["variant"]: scale * row[key] for row in rows if row["benchmark"] == benchmark}
        for choices, mark, what in ((RATES, "o-", ""), (TEXT_KL, "s", ", text held (weight)")):
            shown = [choice for choice in choices if choice in of and choice in solved]
            xs, ys = [solved[choice].mean() for choice in shown], [of[choice] for choice in shown]
            side.plot(xs, ys, mark, ms=4, lw=1.2, color=colour)
            axis.plot([], [], mark, ms=4, lw=1.2, color=colour, label=f"{label}{what}")
            for choice, x, y in zip(shown, xs, ys, strict=True):
                rate_or_weight = choice.rsplit("-rate-" if what == "" else "-", 1)[1]
                side.annotate(rate_or_weight, (x, y), (3, 3), textcoords="offset points")
        side.axhline(of["base"], color=colour, ls=":", lw=1.2)
        side.set_ylabel(label)
    axis.set_xlabel(f"exact, % of test Sudokus (K = {steps}); dotted: without an adapter")


def _is_stored(name: str) -> bool:
    return (stored.RESULTS / f"{name}.json").exists()


def figures() -> dict[str, Callable[[Axes], None]]:
    """Those whose runs are stored, by the name of their file."""
    needed = {
        "language-model-minutes": (draw_minutes, ("campaign-table1", "campaign-table1-none")),
        "adapter-rates": (draw_adapter_rates, (_SWEEP, _BITS, _TEXT)),
    }
    return {name: draw for name, (draw, files) in needed.items() if all(map(_is_stored, files))}
