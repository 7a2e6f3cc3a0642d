"""Tables of the runs in the paper's regime, for `experiments/results_page.py`."""

from collections.abc import Iterable

import numpy as np

from experiments.campaign import LONGEST, STEPS
from experiments.stored import markdown, points, rate_of, spread, stored_results, unpack
from experiments.studies import STUDIES
from experiments.verdicts import stored_bits
from focus.evaluation.controls import CONTROLS
from focus.evaluation.statistics import effect_over_seeds, holm, paired_difference
from focus.recipes import recipe
from focus.report import paper

Seeds = dict[int, dict[int, np.ndarray]]  # solved puzzles by seed and K
# Choices that a table names otherwise.
_NAMES = {
    "thousand-": "", "coin-of-": "a coin for ", "hundred-hints-": "hints, ",
    "hundred-": "no hints, ",
}  # fmt: skip


def _named(choice: str) -> str:
    prefix = next((start for start in _NAMES if choice.startswith(start)), "")
    return _NAMES.get(prefix, "") + choice.removeprefix(prefix)


def _rate(solved: list[np.ndarray]) -> str:
    """Mean and range over seeds, or one seed and its interval."""
    if len(solved) > 1:
        return spread([bits.mean() for bits in solved])
    return rate_of(solved[0]) if solved else "–"


def choices(study: str = "choices") -> str:
    """Choices on validation puzzles: mean and range over seeds, or one seed and its interval."""
    runs = stored_results(f"campaign-{study}")["runs"]
    by_choice: dict[str, list[dict]] = {}
    several = len({run["method"] for run in runs.values()}) > 1
    for name, run in runs.items():
        choice = name.removesuffix(f"-{run['seed']}")
        choice = choice if several else choice.removesuffix(f"-{run['method']}")
        by_choice.setdefault(choice, []).append(run)
    steps = list(next(iter(runs.values()))["validation"])
    rows = [["choice", "seeds", *(f"K = {int(k):,}" for k in steps)]]
    for choice, own in by_choice.items():
        cells = []
        for k in steps:
            cells.append(_rate([unpack(run["validation"][k], run["n_validation"]) for run in own]))
        rows.append([_named(choice), str(len(own)), *cells])
    return markdown(rows)


def long_rollouts(study: str) -> str:
    """The paper's regime at full length: exact by K, and what the last steps change."""
    tested, at = _tested(study)
    steps = [str(k) for k in (*tested, LONGEST)]
    changes = ((str(at // 2), str(at)), (str(at), str(LONGEST)))
    by_change = (f"{one} to {int(other):,}" for one, other in changes)
    rows = [["method, seed", *(f"K = {int(k):,}" for k in steps), *by_change]]
    runs = stored_results(f"campaign-{study}")["runs"].values()
    for run in sorted(runs, key=lambda run: (run["method"], run["seed"])):
        solved = {k: unpack(bits, run["n_test"]) for k, bits in run["test"].items()}
        row = [f"{run['method']}, {run['seed']}"]
        row += [f"{100 * solved[k].mean():.1f}" if k in solved else "–" for k in steps]
        for fewer, more in changes:
            if more not in solved:
                row.append("–")
                continue
            row.append(points(*paired_difference(solved[more], solved[fewer])))
        rows.append(row)
    return markdown(rows)


_FACTORS = (
    ("frontier instead of random states, with the penalty", "focus", "random-penalty"),
    ("frontier instead of random states, without", "no-penalty", "random"),
    ("the penalty, at the frontier", "focus", "no-penalty"),
    ("the penalty, on random states", "random-penalty", "random"),
)


def _tested(study: str) -> tuple[tuple[int, ...], int]:
    """The K of a study's tables, and the one that p and the verdicts are about."""
    task = recipe(STUDIES[study].recipe).task.name
    return tuple(k for k in STEPS[task] if k != LONGEST), paper.STEPS[task]


def factors(study: str = "primary") -> str:
    """What selection and what the penalty is worth at full length, with the other and without."""
    bits = stored_bits(f"campaign-{study}")
    pairs = (*_FACTORS, ("both: FOCUS instead of Random", "focus", "random"))
    effects = ((what, bits[better], bits[worse]) for what, better, worse in pairs)
    return _effects(effects, *_tested(study))


def chosen_steps() -> str:
    """K chosen on validation puzzles at full length, and FOCUS over the others at the longest K.

    As registered beside the primary endpoint. Only FOCUS was tested at every K.
    """
    by_method: dict[str, list[dict]] = {}
    for run in stored_results("campaign-primary")["runs"].values():
        by_method.setdefault(run["method"], []).append(run)

    def rates(runs: list[dict], split: str, k: str) -> list[float]:
        return [unpack(run[split][k], run[f"n_{split}"]).mean() for run in runs]

    def at_longest(method: str) -> Seeds:
        return {
            run["seed"]: {1024: unpack(run["validation"]["1024"], run["n_validation"])}
            for run in by_method[method]
        }

    steps = ("128", "256", "1024")
    shown = [f"K = {int(k):,}" for k in steps]
    rows = [["method", "seeds", *shown, "K chosen", "test at that K", "FOCUS minus it"]]
    for method, runs in by_method.items():
        best = [max(run["validation"], key=lambda k: rates([run], "validation", k)) for run in runs]
        tested = [
            unpack(run["test"][k], run["n_test"]).mean()
            for run, k in zip(runs, best, strict=True)
            if k in run["test"]
        ]
        effect = "–"
        if method != "focus":
            own, other = at_longest("focus"), at_longest(method)
            seeds = sorted(own.keys() & other.keys())
            pair = (np.stack([side[seed][1024] for seed in seeds]) for side in (own, other))
            effect = points(*effect_over_seeds(*pair)[:3])
        chosen = ", ".join(f"{int(k):,}" for k in sorted(set(best), key=int))
        rows.append([
            method, str(len(runs)), *(spread(rates(runs, "validation", k)) for k in steps),
            chosen, spread(tested) if len(tested) == len(runs) else "–", effect,
        ])  # fmt: skip
    return markdown(rows)


def secondary(study: str) -> str:
    """FOCUS above every other method of a secondary study."""
    bits, untaught = (stored_bits(f"campaign-{study}{end}") for end in ("", "-untaught"))
    others = bits | {"focus without a teacher": untaught.get("focus", {})}
    effects = (
        (name, bits["focus"], others[name])
        for name in others
        if name != "focus" and len(others[name]) > 1
    )
    return _effects(effects, *_tested(study))


def small_mazes() -> str:
    """The same on small mazes, and what replay is worth; p is corrected for all of them."""
    bits = stored_bits("campaign-methods-mini-maze")
    pairs = (*_FACTORS, ("replay: FOCUS instead of Fixed Mix", "focus", "fixed-mix"))
    effects = ((what, bits[better], bits[worse]) for what, better, worse in pairs)
    return _effects(effects, *_tested("methods-mini-maze"), corrected=True)


def _effects(
    pairs: Iterable[tuple[str, Seeds, Seeds]], steps: tuple[int, ...], at: int,
    corrected: bool = False,
) -> str:  # fmt: skip
    """Points by which one method is above another, at every K; p at one K, corrected by Holm."""
    rows = [["what", "seeds", f"the other at K = {at}", *(f"K = {k}" for k in steps)]]
    p_values: dict[str, float] = {}
    for what, better, worse in pairs:
        seeds = sorted(better.keys() & worse.keys())
        row = [what, str(len(seeds)), spread([worse[seed][at].mean() for seed in seeds])]
        for k in steps:
            one, other = (np.stack([side[seed][k] for seed in seeds]) for side in (better, worse))
            effect, low, high, p = effect_over_seeds(one, other)
            row.append(points(effect, low, high))
            if k == at:
                p_values[what] = p
        rows.append(row)
    if corrected:
        rows[0].append("p")
        adjusted = holm(p_values)
        for row in rows[1:]:
            row.append(f"{adjusted[row[0]]:.3f}")
    return markdown(rows)


_CONTROLS = dict(zip(CONTROLS[1:], ("R zeroed", "R shuffled", "adapter off"), strict=True))


# Runs with a language model, and those without one that they are compared with.
_WITH_AND_WITHOUT = (("table1", "table1-none"), ("table1-full", "primary"))


def table1() -> str:
    """With a language model and without at equal updates; the same weights with R changed."""
    steps = [str(k) for k in STEPS["sudoku"]]
    shown = [f"K = {int(k):,}" for k in steps]
    rows = [["language model", "updates", "method", "seeds", *shown, *_CONTROLS.values()]]
    for pair in _WITH_AND_WITHOUT:
        sides = [solved_by_method(study) for study in pair]
        for study, side in zip(pair, sides, strict=True):
            name = recipe(STUDIES[study].recipe).solver.backbone.name
            updates = f"{STUDIES[study].updates:,}"
            for method in (method for method in side if method in sides[0]):
                cells = [
                    _rate([solved[key] for solved in side[method].values() if key in solved])
                    for key in (*steps, *_CONTROLS)
                ]
                rows.append([name, updates, method, str(len(side[method])), *cells])
        focus = [side["focus"] for side in sides]
        effects = [points(*with_minus_without(*focus, k)) for k in steps]
        fewest, most = sorted(map(len, focus))
        beside = "one run beside one: puzzles alone" if most == 1 else f"one run beside {most}"
        what = beside if fewest == 1 else "over seeds"
        empty = ("" for _ in _CONTROLS)
        rows.append([f"with minus without ({what})", updates, "focus", "", *effects, *empty])
    return markdown(rows)


Solved = dict[int, dict[str, np.ndarray]]  # puzzles by seed and by K or control


def solved_by_method(study: str) -> dict[str, Solved]:
    """What the stored runs of a study solve, with R changed too."""
    by_method: dict[str, Solved] = {}
    for run in stored_results(f"campaign-{study}")["runs"].values():
        tested = run["test"] | run.get("controls", {})
        solved = {key: unpack(bits, run["n_test"]) for key, bits in tested.items()}
        by_method.setdefault(run["method"], {})[run["seed"]] = solved
    return by_method


def with_minus_without(one: Solved, other: Solved, key: str) -> tuple[float, float, float]:
    """Effect and interval of runs with a language model over those without.

    One beside one: its puzzles alone. One beside several: could it be one more of them? Several
    beside several: the seeds that both have.
    """
    first, second = ([solved[key] for solved in side.values()] for side in (one, other))
    several = max(len(first), len(second))
    if several == 1:
        return paired_difference(first[0], second[0])
    alone = min(len(first), len(second)) == 1
    if alone:
        first, second = (side * (several // len(side)) for side in (first, second))
    else:
        both = sorted(one.keys() & other.keys())
        first, second = ([side[seed][key] for seed in both] for side in (one, other))
    return effect_over_seeds(np.stack(first), np.stack(second), of_one=alone)[:3]


def memorised() -> str:
    """Full-length runs on puzzles that they were trained on, and on others."""
    steps, runs = ("16", "128"), {"unscaled": "memorised", "scaled": "memorised-scaled"}
    rows = [["puzzles", "n", *(f"{run}, K = {k}" for run in runs for k in steps)]]
    kinds = [stored_results(name)["kinds"] for name in runs.values()]
    for name, kind in kinds[0].items():
        rates = [rate_of(unpack(one[name]["exact"][k], kind["n"])) for one in kinds for k in steps]
        rows.append([name, str(kind["n"]), *rates])
    return markdown(rows)


def carried_on() -> str:
    """A saved run, carried on with one choice changed: the last four windows."""
    runs = stored_results("carried-on")["runs"]
    last = {name: lines[-4:] for name, lines in runs.items()}
    means = {
        name: [np.mean([line[key] for line in lines]) for key in ("loss", "exact")]
        for name, lines in last.items()
    }
    rows = [["choice", "loss", "over as it is", "training exact, %", "over as it is"]]
    for name, (loss, exact) in means.items():
        by_loss, by_exact = loss - means["as-is"][0], exact - means["as-is"][1]
        rows.append(
            [name, f"{loss:.3f}", f"{by_loss:+.3f}", f"{100 * exact:.1f}", f"{100 * by_exact:+.1f}"]
        )
    return markdown(rows)
