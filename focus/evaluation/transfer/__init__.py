"""Does the adapted language model reason better elsewhere? Mathematics and code, zero-shot.

A folder for a benchmark: its prompt, where its items come from, how an answer is found in a
completion. `run.py` generates and scores, `compare.py` and `cards.py` show.
"""

from focus.errors import UserError
from focus.evaluation.transfer.aime import AIME25, AIME26
from focus.evaluation.transfer.benchmark import Benchmark
from focus.evaluation.transfer.cruxeval import CRUXEVAL_I, CRUXEVAL_O
from focus.evaluation.transfer.math import MATH, MATH_HARD

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (MATH, MATH_HARD, CRUXEVAL_O, CRUXEVAL_I, AIME25, AIME26)
}
AVERAGED = ("math", "math-hard", "cruxeval-o", "cruxeval-i")  # the paper's Avg.


def find_benchmarks(names: str) -> list[Benchmark]:
    """Benchmarks by their names, separated by commas."""
    wanted_names = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted_names if name not in BENCHMARKS]
    if unknown or not wanted_names:
        what = f"no benchmark {unknown[0]!r}" if unknown else "no benchmark named"
        raise UserError(f"{what}; there are {', '.join(BENCHMARKS)}")
    return [BENCHMARKS[name] for name in dict.fromkeys(wanted_names)]
