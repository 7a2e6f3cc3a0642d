"""How many puzzles are solved when those that break the rules are retried under symmetries.

focus eval CHECKPOINT --steps 128 --symmetry-retries 64 [--early-stop] --out RUN
python -m experiments.symmetry_retries RUN CHECKPOINT

Stores, for each number of retries, the exact rate and the rollouts it took on average, and which
puzzles were never solved. Figures of other runs in the file stay.
"""

import json
from pathlib import Path

import numpy as np

from experiments.stored import RESULTS, command_line, markdown, one_line, rate, stored_results
from focus.errors import UserError
from focus.evaluation.statistics import wilson_interval
from focus.files import parse_object, read_object, read_text, write_text

STORED = RESULTS / "symmetry-retries.json"


def stored_run(run: Path) -> dict:
    """The figures of an evaluation."""
    settings = read_object(run / "results.json")
    most = settings.get("symmetry_retries", 0)
    lines = read_text(run / "predictions.jsonl").splitlines()
    puzzles = [parse_object(line, f"{run}/predictions.jsonl") for line in lines]
    if not most or len({puzzle["steps"] for puzzle in puzzles}) != 1:
        raise UserError(f"{run} is no evaluation with --symmetry-retries and one number of steps")
    exact = np.array([puzzle["exact"] for puzzle in puzzles])
    used = np.array([puzzle["symmetry_retries"] for puzzle in puzzles])
    results = []
    for retries in sorted({0, most, *(2**n for n in range(most.bit_length()))}):
        hits = int((exact & (used <= retries)).sum())
        low, high = wilson_interval(hits, len(exact))
        rollouts = 1 + float(np.minimum(used, retries).mean())
        results.append(
            {
                "symmetry_retries": retries, "exact": hits / len(exact), "low": low, "high": high,
                "rollouts": rollouts,
            }
        )  # fmt: skip
    stops = settings.get("early_stop", False)
    figures = {
        "steps": puzzles[0]["steps"], "early_stop": stops, "n": len(exact), "results": results,
    }  # fmt: skip
    if stops:
        figures["taken"] = float(np.mean([puzzle["taken"] for puzzle in puzzles]))
    return {**figures, "left": [puzzle["id"] for puzzle in puzzles if not puzzle["exact"]]}


def most(checkpoint: str) -> dict:
    """What a solver reaches with as many retries as were tried."""
    runs = stored_results(STORED.stem)
    return next(run for run in runs if run["checkpoint"] == checkpoint)["results"][-1]


def table(runs: list[dict]) -> str:
    """Exact rates by the number of retries."""
    rows = [["solver", "n", "K of a try", "retries at most", "exact", "tries of a puzzle"]]
    for run in runs:
        for result in run["results"]:
            rows.append(
                [
                    f"`{run['checkpoint']}`", f"{run['n']:,}", str(run["steps"]),
                    str(result["symmetry_retries"]), rate(result), f"{result['rollouts']:.2f}",
                ]
            )  # fmt: skip
    return markdown(rows)


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("checkpoint")
    words = parser.parse_args()
    with one_line("symmetry_retries"):
        run = {"checkpoint": Path(words.checkpoint).name, **stored_run(words.run)}
        stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else []
        about = ("checkpoint", "steps", "early_stop")
        stored = [row for row in stored if any(row[key] != run[key] for key in about)]
        write_text(STORED, json.dumps([*stored, run], indent=1) + "\n")
        for row in run["results"]:
            print(json.dumps(row))


if __name__ == "__main__":
    main()
