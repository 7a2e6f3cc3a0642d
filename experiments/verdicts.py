"""The paper's claims against the stored runs: effect, interval, seeds and verdict, from the bits.

python -m experiments.verdicts

A claim is that one method solves more test puzzles than another. It is judged in the paper's own
regime (`experiments/campaign.py`) where both methods have runs of two common seeds or more; else in
the same regime with gradients that are not scaled between steps, as the first runs had them; else
at a third of its length; else in short runs of ours (`experiments/methods.py`). On mazes gradients
are never scaled. docs/LOG.md had the rules before the campaign:

- confirmed: the 95 % interval of the effect lies above 0, and its corrected p-value below 0.05;
  "but smaller" where the interval also lies below half of the paper's effect;
- contradicted: it lies below half of the paper's effect (below 0 where the paper has no figure);
- undecided: otherwise.

Short runs have a fraction of the paper's updates and settings of ours, so their words are *seen*
and *not seen* in place of *confirmed* and *contradicted*. Runs of a third of the length have these
words too; that was decided after them, because they solve easy puzzles alone.

Intervals are those of a bootstrap crossed over seeds and puzzles, and never narrower than Student's
t over the seeds; p-values are corrected by Holm over all claims of a task, whether they have runs
yet or not. A verdict in the paper's regime is interim until every seed of the campaign has run.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from experiments.stored import RESULTS, command_line, markdown, points, unpack
from experiments.studies import STUDIES
from focus.evaluation.statistics import effect_over_seeds, holm
from focus.report import paper

PAPERS, SHORT = "the paper's regime, scaled", "short runs"
UNSCALED, THIRD = "the paper's regime, unscaled", "a third of its length, scaled"
# Where a task's claims are judged, best first, with the endings of the studies' names.
_LENGTHS = {
    "sudoku": ((PAPERS, ""), (UNSCALED, "-unscaled"), (THIRD, "-third")),
    "maze": ((UNSCALED, "-maze"),),
}
Bits = dict[str, dict[int, dict[int, np.ndarray]]]  # by method, seed and K


@dataclass(frozen=True)
class Claim:
    """That one method solves more puzzles than another, or a method more with more steps."""

    what: str
    task: str
    better: str
    worse: str
    worse_steps: int = 0  # K of the worse side; 0 = the paper's K, as on the better side
    teacher: bool = False  # the better side has a teacher, the worse one has none

    @property
    def in_paper(self) -> float | None:
        """The effect in points, where the paper has both figures."""
        rates = [
            paper.source_rate(self.task, paper.STUDIED, name) for name in (self.better, self.worse)
        ]
        if self.better == self.worse or rates[0] is None or rates[1] is None:
            return None
        return rates[0] - rates[1]


@dataclass(frozen=True)
class Verdict:
    """What the stored runs say of a claim."""

    claim: Claim
    regime: str
    effect: float
    low: float
    high: float
    p: float
    seeds: int
    planned: int  # seeds of the study

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        full = self.regime not in (THIRD, SHORT)
        yes, no = ("confirmed", "contradicted") if full else ("seen", "not seen")
        if full and self.seeds < self.planned:
            yes, no = f"{yes} (interim)", f"{no} (interim)"
        half = (self.claim.in_paper or 0.0) / 200
        if self.low > 0 and self.p < 0.05:
            return f"{yes}, but smaller" if self.high < half else yes
        if self.high < half:
            return no
        return f"undecided (p = {self.p:.3f})" if self.low > 0 else "undecided"


_OVER = {
    "FOCUS above Random": "random",
    "FOCUS above Energy-Hard": "energy-hard",
    "FOCUS above Fixed Mix": "fixed-mix",
    "FOCUS above Recurrent": "recurrent",
    "the penalty helps": "no-penalty",
    "selection at the frontier helps": "random-penalty",
    "restoring the memory helps": "no-memory",
    "replay helps": "no-replay",
    "the frontier, not just early states": "permuted",
}
CLAIMS = tuple(
    claim
    for task, fewer in (("sudoku", 16), ("maze", 8))
    for claim in (
        *(
            Claim(what, task, "focus", worse)
            for what, worse in _OVER.items()
            if (task, worse) != ("maze", "no-replay")  # there Fixed Mix is no replay
        ),
        Claim("the teacher helps", task, "focus", "focus", teacher=True),
        Claim("more steps help", task, "focus", "focus", fewer),
    )
)


def _regimes(claim: Claim) -> Iterator[tuple[str, str, str]]:
    """Where a claim can be judged, best first: regime, and what is stored for either side."""
    primary = claim.worse in STUDIES["primary"].methods and not claim.teacher
    for regime, ending in _LENGTHS[claim.task]:
        study = f"{'primary' if primary else 'secondary'}{ending}"
        pairs = [(study, study)]
        if claim.teacher:  # the runs of a study have one, or they have none
            pairs = [(study, f"{study}-untaught"), (f"{study}-taught", study)]
        for better, worse in pairs:
            if {better, worse} <= STUDIES.keys():
                yield regime, f"campaign-{better}", f"campaign-{worse}"
    short = f"methods-{claim.task}-quick"
    yield SHORT, f"{short}-teacher" if claim.teacher else short, short


@cache
def stored_bits(name: str) -> Bits:
    """Which puzzles every run of a stored study solves; nothing where none is stored."""
    path = RESULTS / f"{name}.json"
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []
    result: Bits = {}
    for run in runs.values() if isinstance(runs, dict) else runs:
        count = run["n_test"] if "n_test" in run else run["results"][0]["n"]
        result.setdefault(run["method"], {})[run["seed"]] = {
            int(steps): unpack(bits, count)
            for steps, bits in (run.get("test") or run.get("correct") or {}).items()
        }
    return result


def _pair(claim: Claim, better: Bits, worse: Bits) -> tuple[np.ndarray, np.ndarray] | None:
    """Bits (seeds, puzzles) of both sides, for the seeds that both have."""
    at = paper.STEPS[claim.task]
    ours, theirs = better.get(claim.better, {}), worse.get(claim.worse, {})
    seeds = sorted(ours.keys() & theirs.keys())
    if len(seeds) < 2:  # one seed decides nothing
        return None
    first = np.stack([ours[seed][at] for seed in seeds])
    return first, np.stack([theirs[seed][claim.worse_steps or at] for seed in seeds])


@cache
def verdicts(claims: Sequence[Claim] = CLAIMS) -> tuple[Verdict, ...]:
    """A verdict for each claim with runs, in the best regime that has them."""
    judged = []
    for claim in claims:
        for regime, better, worse in _regimes(claim):
            pair = _pair(claim, stored_bits(better), stored_bits(worse))
            if pair is not None:
                effect, low, high, p = effect_over_seeds(*pair)
                study = STUDIES.get(better.removeprefix("campaign-"))
                planned = 0 if study is None else len(study.seeds)
                judged.append(Verdict(claim, regime, effect, low, high, p, len(pair[0]), planned))
                break
    corrected: dict[Claim, float] = {}
    for task in {verdict.claim.task for verdict in judged}:
        p_values = {verdict.claim: verdict.p for verdict in judged}
        corrected |= holm(
            {claim: p_values.get(claim, 1.0) for claim in claims if claim.task == task}
        )
    return tuple(Verdict(**(vars(v) | {"p": corrected[v.claim]})) for v in judged)


def table(task: str) -> str:
    """A line for each claim on a task."""
    by_claim = {verdict.claim: verdict for verdict in verdicts()}
    rows = [["claim", "paper", "ours [95 % interval]", "seeds", "runs", "verdict"]]
    for claim in (claim for claim in CLAIMS if claim.task == task):
        row = [claim.what[0].upper() + claim.what[1:]]
        row.append("–" if claim.in_paper is None else f"{claim.in_paper:+.1f}")
        if verdict := by_claim.get(claim):
            runs = "short" if verdict.regime == SHORT else verdict.regime
            row += [points(verdict.effect, verdict.low, verdict.high), str(verdict.seeds), runs]
        rows.append([*row, verdict.word] if verdict else [*row, "–", "–", "–", "not measured"])
    return markdown(rows)


def main() -> None:
    """The command line."""
    command_line(__doc__).parse_args()
    print(f"Sudoku\n\n{table('sudoku')}\n\nMazes\n\n{table('maze')}")


if __name__ == "__main__":
    main()
