"""Tables of the runs in the paper's regime, for `experiments/results_page.py`."""

import numpy as np

from experiments import gradient_noise as noise
from experiments import one_step as single_steps
from experiments.stored import figures, markdown, unpack
from focus.evaluation.statistics import paired_difference, wilson_interval


def choices(study: str = "choices") -> str:
    """FOCUS in the paper's regime, a fifth of its length: what the paper leaves open."""
    runs = figures(f"campaign-{study}")["runs"]
    by_choice: dict[str, list[dict]] = {}
    for name, run in runs.items():
        by_choice.setdefault(name.rsplit("-", 2)[0], []).append(run)
    steps = list(next(iter(runs.values()))["validation"])
    rows = [["choice", "seeds", *(f"K = {int(k):,}" for k in steps)]]
    for choice, own in by_choice.items():
        cells = []
        for k in steps:
            shares = [100 * unpack(r["validation"][k], r["n_validation"]).mean() for r in own]
            cells.append(f"{np.mean(shares):.1f} ({min(shares):.1f} to {max(shares):.1f})")
        rows.append([choice, str(len(own)), *cells])
    return markdown(rows)


def long_rollouts(study: str) -> str:
    """The paper's regime at full length: exact by K, and what the last steps change."""
    steps, changes = ("16", "32", "64", "128", "256", "1024"), (("64", "128"), ("128", "1024"))
    by_change = (f"{one} to {int(other):,}" for one, other in changes)
    rows = [["method, seed", *(f"K = {int(k):,}" for k in steps), *by_change]]
    for run in figures(f"campaign-{study}")["runs"].values():
        solved = {k: unpack(bits, run["n_test"]) for k, bits in run["test"].items()}
        row = [f"{run['method']}, {run['seed']}"]
        row += [f"{100 * solved[k].mean():.1f}" if k in solved else "–" for k in steps]
        for fewer, more in changes:
            if more not in solved:
                row.append("–")
                continue
            gain, low, high = (100 * v for v in paired_difference(solved[more], solved[fewer]))
            row.append(f"{gain:+.1f} [{low:+.1f}, {high:+.1f}]")
        rows.append(row)
    return markdown(rows)


def memorised() -> str:
    """A full-length run on puzzles that it was trained on, and on others."""
    kinds = figures("memorised")["kinds"]
    steps = list(next(iter(kinds.values()))["exact"])
    rows = [["puzzles", "n", *(f"K = {k}" for k in steps)]]
    for name, kind in kinds.items():
        solved = [int(unpack(kind["exact"][k], kind["n"]).sum()) for k in steps]
        bounds = [wilson_interval(count, kind["n"]) for count in solved]
        rates = (
            f"{100 * count / kind['n']:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
            for count, (low, high) in zip(solved, bounds, strict=True)
        )
        rows.append([name, str(kind["n"]), *rates])
    return markdown(rows)


def one_step() -> str:
    """What a single step on chosen states is worth."""
    return single_steps.table(figures("one-step"))


def carried_on() -> str:
    """A saved run, carried on with one choice changed: the last four windows."""
    runs = figures("carried-on")["runs"]
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


def gradient_noise() -> str:
    """How much of the mean gradient the gradient of one batch holds."""
    return noise.table(figures("gradient-noise"))
