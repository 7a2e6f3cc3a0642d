"""The results in README.md, docs/RESULTS.md and docs/measured, from what docs/results stores.

python -m experiments.results_page

The words are written by hand; what stands between `<!-- NAME -->` and `<!-- end -->` is
replaced by the table of that name; some say of what, as `<!-- methods RUNS -->` does.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import (
    answer_decay,
    by_file,
    compared,
    foundations,
    gradient_noise,
    headlines,
    language_model_figures,
    mini_runs,
    one_step,
    operations,
    reading,
    symmetry_retries,
    verdicts,
)
from experiments import regime_tables as regime
from experiments import speed_tables as speed
from experiments import transfer_tables as transfer
from experiments.stored import (
    RESULTS,
    command_line,
    markdown,
    rate,
    stored_results,
    unpack,
)
from focus.evaluation.statistics import mcnemar, paired_difference
from focus.files import write_text
from focus.report import paper
from focus.report.plots import PALETTE

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (DOCS.parent / "README.md", DOCS / "RESULTS.md", *sorted((DOCS / "measured").glob("*.md")))
_SUDOKUS = {
    "sudoku-smollm2": "**`sudoku-smollm2`**: SmolLM2-135M, answer decay 0.05",
    "sudoku-none": "**`sudoku-none`**, its control: no language model, answer decay 0.05",
    "sudoku-quick-more-data": "no language model, no answer decay, same puzzles",
    "sudoku-quick": "no language model, no answer decay, train and extra",
    "sudoku-none-1000": "no language model, answer decay 0.05, train alone (1,000)",
    "sudoku-trm": "**`sudoku-trm`**: TRM, trained with 16 steps, same puzzles",
    "sudoku-teacher": "**`sudoku-teacher`**: TRM, trained with 16 steps, the puzzles of `sudoku`",
}
_MAZES = {
    "maze-smollm2": "**`maze-smollm2`**: SmolLM2-135M, hops, answer decay 0.05",
    "maze-none": "**`maze-none`**, its control: no language model, hops, answer decay 0.05",
    "maze-none-seed1": "the same run with seed 1, alone on its GPU",
    "maze-bias": "no language model, paper-sized updater (`bias`), answer decay 0.05, same mazes",
    "maze-trm": "**`maze-trm`**: TRM, neighbour heads, parents and distances learned",
    "maze-trm-plain": "TRM with the published heads and targets (marked cells), same mazes",
}
_CURVES = {
    "sudoku-smollm2": "SmolLM2-135M, decay 0.05",
    "sudoku-none": "no language model, decay 0.05",
    "sudoku-quick-more-data": "no language model, no decay",
    "sudoku-none-1000": "no language model, decay 0.05, 1,000 puzzles",
    "sudoku-trm": "TRM, K = 16",
}


def curve(name: str) -> list[dict]:
    """The stored lines of a training."""
    lines = (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _test_rows(rows: dict[str, str], steps: tuple[int, ...]) -> list[list[str]]:
    """A row for each run that is stored."""
    here = {name: what for name, what in rows.items() if (RESULTS / f"{name}.json").exists()}
    return [_test_row(name, what, steps) for name, what in here.items()]


def _test_row(name: str, what: str, steps: tuple[int, ...]) -> list[str]:
    stored = stored_results(name)
    at = {result["steps"]: result for result in stored.get("test") or stored["results"]}
    return [what, _seconds(name), *(rate(at[k]) if k in at else "–" for k in steps)]


def _seconds(name: str) -> str:
    """Seconds of training, and after how many of them the chosen weights were there.

    Those of a run that shared its GPU are not stored.
    """
    lines, update = curve(name), stored_results(name).get("update")
    if "seconds" not in lines[-1]:
        return "–"
    end = lines[-1]["seconds"]
    chosen = next((line["seconds"] for line in lines if line["update"] == update), end)
    return f"{end:.0f} s" if chosen == end else f"{chosen:.0f} of {end:.0f} s"


def sudoku() -> str:
    """Exact rates on the 9,000 test puzzles."""
    steps = (16, 32, 64, 128, 256)
    quoted = paper.source_rate("sudoku", paper.STUDIED, "focus")
    return markdown(
        [
            ["solver", "training", *(f"K = {k}" for k in steps)],
            *_test_rows(_SUDOKUS, steps),
            ["paper, Qwen3-1.7B (its own test puzzles)", "", "", "", "", f"{quoted}", ""],
        ]
    )


def maze() -> str:
    """Exact rates on the 1,000 test mazes."""
    steps = (1, 4, 8, 16, 32, 64)
    quoted = paper.source_rate("maze", paper.STUDIED, "focus")
    in_paper = [f"{quoted}" if k == paper.STEPS["maze"] else "" for k in steps]
    return markdown(
        [
            ["solver", "training", *(f"K = {k}" for k in steps)],
            *_test_rows(_MAZES, steps),
            ["paper, Qwen3-1.7B", "", *in_paper],
        ]
    )


def maze_paths() -> str:
    """Other figures of the answers on the test mazes."""
    names = {"valid": "valid path", "optimal": "shortest path", "path_f1": "path F1"}
    rows = [["solver", "K", *names.values()]]
    for solver in _MAZES:
        for result in stored_results(solver)["test"]:
            shares = [f"{100 * result[name]:.1f}" for name in names]
            rows.append([f"`{solver}`", str(result["steps"]), *shares])
    return markdown(rows)


def maze_larger() -> str:
    """The same weights on mazes larger than those they were trained on."""
    stored = stored_results("maze-larger")
    tested = [(name, side) for name, sides in stored.items() for side in sides if side.isdigit()]
    steps = sorted({row["steps"] for name, side in tested for row in stored[name][side]})
    rows = [["solver", "side", "figure", *(f"K = {k}" for k in steps)]]
    for name, side in tested:
        at = {row["steps"]: row for row in stored[name][side]}
        cells = [rate(at[k]) if k in at else "–" for k in steps]
        rows.append([f"`{name}`", side, "exact", *cells])
        for key, what in (("optimal", "shortest path"), ("valid", "valid path")):
            cells = [f"{100 * at[k][key]:.0f}" if k in at else "–" for k in steps]
            rows.append([f"`{name}`", side, what, *cells])
    return markdown(rows)


def changes(task: str) -> str:
    """What more steps change, puzzle by puzzle."""
    rows = [["solver", "from K", "to K", "gain in points", "95 % interval"]]
    solvers = ("sudoku-smollm2", "sudoku-none", "sudoku-trm") if task == "sudoku" else _MAZES
    for name in solvers:
        for change in stored_results(name)["changes"]:
            gain, low, high = (100 * change[key] for key in ("gain", "low", "high"))
            interval = f"{low:+.1f} to {high:+.1f}"
            rows.append(
                [f"`{name}`", str(change["from"]), str(change["to"]), f"{gain:+.1f}", interval]
            )
    return markdown(rows)


def controls() -> str:
    """The same weights with the language model's reading changed."""
    rows = [["solver", "K", "as trained", "R zeroed", "R shuffled", "adapter off", "‖ΔW‖ / ‖W‖"]]
    for name in ("sudoku-smollm2", "maze-smollm2"):
        stored = stored_results(name)
        changed = [stored["controls"][key] for key in ("zeroed", "shuffled", "adapter-off")]
        steps = changed[0]["steps"]
        plain = next(result for result in stored["test"] if result["steps"] == steps)
        rates = [rate(result) for result in (plain, *changed)]
        rows.append([f"`{name}`", str(steps), *rates, f"{stored['adapter']:.4f}"])
    return markdown(rows)


def with_and_without(task: str) -> str:
    """The language model's solver against the one without, puzzle by puzzle."""
    rows = [["K", "gain in points", "95 % interval", "McNemar's p"]]
    ours, control = stored_results(f"{task}-smollm2"), stored_results(f"{task}-none")
    for result in ours["test"]:
        with_it, without = (
            unpack(stored["exact_by_puzzle"][str(result["steps"])], result["n"])
            for stored in (ours, control)
        )
        gain, low, high = (100 * value for value in paired_difference(with_it, without))
        p = mcnemar(int((without & ~with_it).sum()), int((with_it & ~without).sum()))
        interval = f"{low:+.2f} to {high:+.2f}"
        rows.append([str(result["steps"]), f"{gain:+.2f}", interval, f"{p:.2g}"])
    return markdown(rows)


def methods(name: str) -> str:
    """Methods at one budget, means over seeds; those with a teacher beside those without."""
    stored = stored_results(f"methods-{name}")
    with_teacher = "teacher" in stored["budget"]
    plain = compared.stored_as(stored["budget"]["recipe"], with_teacher=False)
    return compared.table(stored, stored_results(plain) if with_teacher else None)


def method_paths(name: str) -> str:
    """The paths that methods on mazes find."""
    return compared.paths_table(stored_results(f"methods-{name}"))


def _of_a_file(table: Callable[[Any], str], name: str) -> str:
    return table(stored_results(name))


# Tables that are made of one stored file.
_OF_A_FILE: dict[str, tuple[Callable[[Any], str], str]] = {
    "answer_decay": (answer_decay.table, "answer-decay"),
    "files": (by_file.table, "sudoku-test-files"),
    "foundations": (foundations.table, "foundations"),
    "gradient_noise": (gradient_noise.table, "gradient-noise"),
    "mini_runs": (mini_runs.table, "mini-runs"),
    "one_step": (one_step.table, "one-step"),
    "symmetry_retries": (symmetry_retries.table, "symmetry-retries"),
}
_OTHERS = (
    headlines.summary, headlines.claims, headlines.peers, sudoku, maze, maze_paths, maze_larger,
    changes, controls, with_and_without, methods, method_paths, operations.operations,
    regime.choices, regime.long_rollouts, regime.factors, regime.chosen_steps, regime.secondary,
    regime.small_mazes, regime.table1, reading.reading,
    regime.memorised, regime.carried_on, speed.speed, speed.language_model_speed, speed.stacks,
    speed.selection, speed.speed_on_a_cpu, transfer.transfer, transfer.transfer_ends,
    transfer.transfer_bits,
    transfer.text_held, transfer.harness,
)  # fmt: skip
TABLES: dict[str, Callable[..., str]] = {
    "verdicts": verdicts.table,
    **{table.__name__: table for table in _OTHERS},
    **{name: partial(_of_a_file, *both) for name, both in _OF_A_FILE.items()},
}


def fill(text: str) -> str:
    """A page with its tables as they follow from the stored figures."""

    def replaced(match: re.Match) -> str:
        name, *of_what = match[1].split()
        return f"<!-- {match[1]} -->\n{TABLES[name](*of_what)}\n<!-- end -->"

    return re.sub(r"<!-- (\w+(?: [\w.-]+)?) -->\n.*?<!-- end -->", replaced, text, flags=re.DOTALL)


def _draw_curves(axis: Axes) -> None:
    """Validation accuracy over minutes of training."""
    for (name, label), marker, colour in zip(_CURVES.items(), "os^vD", PALETTE, strict=False):
        points = [line for line in curve(name) if line.get("validation")]
        axis.plot(
            [line["seconds"] / 60 for line in points],
            [100 * line["validation"]["exact"] for line in points],
            marker=marker, ms=4, lw=1.2, color=colour, label=label,
        )  # fmt: skip
    axis.set_xlabel("minutes of training on one H200, compilation included")
    axis.set_ylabel("exact, % (K = 128 unless named)")
    axis.set_ylim(0, 100)


def draw(file: Path, contents: Callable[[Axes], None]) -> None:
    """A figure of one plot."""
    figure = Figure(figsize=(5.6, 3.0))
    axis = figure.subplots()
    contents(axis)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize="small")
    with matplotlib.rc_context({"svg.hashsalt": "focus", "font.size": 8}):
        figure.savefig(file, metadata={"Date": None}, bbox_inches="tight")


def main() -> None:
    """Write the tables and the figures."""
    command_line(__doc__).parse_args()
    for page in PAGES:
        write_text(page, fill(page.read_text(encoding="utf-8")))
    draw(DOCS / "figures" / "sudoku-time.svg", _draw_curves)
    draw(DOCS / "figures" / "sudoku-operations.svg", operations.draw)
    for name, contents in language_model_figures.figures().items():
        draw(DOCS / "figures" / f"{name}.svg", contents)


if __name__ == "__main__":
    main()
