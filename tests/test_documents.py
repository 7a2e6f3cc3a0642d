"""Documents say what the stored runs say."""

import json
from pathlib import Path

from benchmarks import foundations, mini_runs

ROOT = Path(__file__).parents[1]


def quick_table() -> str:
    """The test results of `sudoku-quick` as a Markdown table."""
    results = json.loads((ROOT / "docs/results/sudoku-quick.json").read_text())["results"]
    rows = [
        ["K", *(str(row["steps"]) for row in results)],
        ["---"] * (1 + len(results)),
        ["exact, %", *(f"{100 * row['exact']:.1f}" for row in results)],
        ["95 % interval", *(f"{100 * r['low']:.1f} – {100 * r['high']:.1f}" for r in results)],
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def test_the_readme_shows_the_stored_figures():
    readme = (ROOT / "README.md").read_text()
    for benchmark in (foundations, mini_runs):
        assert benchmark.table(json.loads(benchmark.STORED.read_text())) in readme
    assert quick_table() in readme
    last = (ROOT / "docs/results/sudoku-quick.jsonl").read_text().splitlines()[-1]
    assert f"{json.loads(last)['seconds']:.0f} s of training" in readme
