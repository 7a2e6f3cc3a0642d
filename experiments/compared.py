"""How runs of several methods are compared: at which K, with which method, in which tables."""

import statistics
from dataclasses import dataclass

from experiments.stored import markdown, rate, spread, unpack
from focus.evaluation.statistics import mcnemar
from focus.recipes import METHODS, TRM_METHODS
from focus.report import paper

COMPARED = tuple(name for name in METHODS if name not in ("direct", "base"))
TRM = "trm"  # the plain method, and the beginning of the names of its recipes


@dataclass(frozen=True)
class Kind:
    """How runs of a recipe are compared."""

    steps: tuple[int, ...]  # K that are tested
    at: int  # K at which methods are paired
    reference: str  # the method that they are paired with
    methods: tuple[str, ...]


def task_of(name: str) -> str:
    """The task of a recipe."""
    return "maze" if "maze" in name else "sudoku"


def kind_of(name: str) -> Kind:
    """The kind of a recipe."""
    if name.startswith(TRM):
        return Kind((1, 4, 8, 16, 32, 64), 16, TRM, (TRM, *TRM_METHODS))
    task = task_of(name)
    steps = {"sudoku": (1, 16, 32, 64, 128, 256), "maze": (1, 8, 16, 32, 64)}[task]
    return Kind(steps, paper.STEPS[task], "focus", COMPARED)


def stored_as(name: str, with_teacher: bool) -> str:
    """The name of a recipe's stored figures."""
    return f"methods-{name.replace('/', '-')}{'-teacher' * with_teacher}"


def results(figures: dict, method: str, steps: int) -> list[dict]:
    """A method's results at K, one for each seed."""
    return [
        row
        for run in figures["runs"]
        for row in run["results"]
        if run["method"] == method and row["steps"] == steps
    ]


def of_seeds(figures: dict, method: str) -> dict[int, dict]:
    """A method's runs by seed."""
    return {run["seed"]: run for run in figures["runs"] if run["method"] == method}


def paired(runs: dict[int, dict], others: dict[int, dict], at: int) -> str:
    """Differences to other runs of the same seeds at a K: mean, range, how many are significant."""
    differences, significant, key = [], 0, str(at)
    for seed in sorted(runs.keys() & others.keys()):
        if key not in runs[seed]["correct"] or key not in others[seed]["correct"]:
            continue
        count = runs[seed]["results"][0]["n"]
        mine, theirs = (unpack(run[seed]["correct"][key], count) for run in (runs, others))
        only = int((theirs & ~mine).sum()), int((mine & ~theirs).sum())
        differences.append(100 * (only[1] - only[0]) / count)
        significant += mcnemar(*only) < 0.05
    if not differences:
        return "–"
    between = f"{min(differences):+.1f} to {max(differences):+.1f}; "
    ranged = between if len(differences) > 1 else ""
    return f"{statistics.mean(differences):+.1f} ({ranged}{significant} of {len(differences)})"


def table(figures: dict, without_teacher: dict | None = None) -> str:
    """The figures as a Markdown table; a method that writes its answer has one rate for all K.

    Those with a teacher may be paired with the same methods without one.
    """
    name = figures["budget"]["recipe"]
    kind, steps = kind_of(name), _tested(figures)
    head = ["method", "seeds", "GPU s", *(f"K = {k}" for k in steps)]
    pairs = [f"to {kind.reference}", *(["to no teacher"] if without_teacher else [])]
    rows = [[*head, *pairs, "paper"]]
    for method in (TRM, *METHODS):
        runs = [run for run in figures["runs"] if run["method"] == method]
        if not runs:
            continue
        alone = [run["seconds"] for run in runs if run["seconds"]]  # those that shared a GPU: null
        seconds = f"{statistics.mean(alone):.0f}" if alone else "–"
        cells = [_spread(results(figures, method, k)) for k in steps]
        if written := results(figures, method, 0):
            cells[steps.index(kind.at)] = _spread(written)
        in_paper = None
        if not name.startswith(TRM):
            in_paper = paper.source_rate(task_of(name), paper.STUDIED, method)
        quoted = "–" if in_paper is None else f"{in_paper}"
        own, reference = of_seeds(figures, method), of_seeds(figures, kind.reference)
        against = ["–" if method == kind.reference else paired(own, reference, kind.at)]
        if without_teacher:
            against.append(paired(own, of_seeds(without_teacher, method), kind.at))
        rows.append([method, str(len(runs)), seconds, *cells, *against, quoted])
    empty = {
        number
        for number, name in enumerate(rows[0])
        if name in ("GPU s", "paper") and all(row[number] == "–" for row in rows[1:])
    }
    return markdown([[cell for n, cell in enumerate(row) if n not in empty] for row in rows])


def paths_table(figures: dict) -> str:
    """Shares of valid and of shortest paths, and path F1, of maze methods: means over seeds."""
    steps, at = _tested(figures), kind_of(figures["budget"]["recipe"]).at
    rows = [["method (valid / shortest / F1)", *(f"K = {k}" for k in steps)]]
    for method in (TRM, *METHODS):
        cells = [_paths(results(figures, method, k)) for k in steps]
        cells[steps.index(at)] = cells[steps.index(at)] or _paths(results(figures, method, 0))
        if any(cells):
            rows.append([method, *(cell or "–" for cell in cells)])
    return markdown(rows)


def _paths(rows: list[dict]) -> str:
    """Means over seeds, in percent; nothing where nothing was measured."""
    scored = [row for row in rows if "path_f1" in row]
    names = ("valid", "optimal", "path_f1") if scored else ()
    return " / ".join(f"{statistics.mean(100 * row[name] for row in scored):.1f}" for name in names)


def _tested(figures: dict) -> list[int]:
    """The numbers of steps of a table."""
    kind = kind_of(figures["budget"]["recipe"])
    most = figures["budget"].get("most_steps", max(kind.steps))
    return [k for k in kind.steps if k <= most]


def _spread(rows: list[dict]) -> str:
    """Mean, and lowest to highest of the seeds; of one seed the interval."""
    if not rows:
        return "–"
    if len(rows) == 1:
        return rate(rows[0])
    return spread([row["exact"] for row in rows])
