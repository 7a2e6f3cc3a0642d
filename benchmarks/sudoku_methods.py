"""Every curation method on Sudoku-Extreme at one budget, several seeds, one table.

python -m benchmarks.sudoku_methods --out DIR           # on a GPU; a killed campaign goes on
python -m benchmarks.sudoku_methods --out DIR --store   # put the finished runs into docs/results
python -m benchmarks.sudoku_methods --table             # the table of the stored figures

A run is `sudoku-quick` without a language model and without holding solved states (which only
methods with replay could), with fewer updates. Seeds come one after the other, so that a campaign
that is cut short has compared all methods equally often.
"""

import argparse
import base64
import gc
import itertools
import json
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from focus.evaluation.source import evaluate
from focus.evaluation.statistics import mcnemar
from focus.files import write_text
from focus.model.checkpoint import load_model
from focus.recipes import METHODS, recipe
from focus.training.config import RunConfig
from focus.training.loop import Trainer

STORED = Path(__file__).parents[1] / "docs" / "results" / "sudoku-methods.json"
PAPER = {  # exact at K = 128, Qwen3-1.7B; the paper's tables 1, 5, 6 and 7
    "focus": 64.4, "random": 57.8, "energy-hard": 61.3, "fixed-mix": 60.8, "no-penalty": 61.3,
    "random-penalty": 61.1, "recurrent": 7.2, "one-step": 0.5,
}  # fmt: skip
COMPARED = tuple(name for name in METHODS if name not in ("direct", "base"))
STEPS = (1, 16, 32, 64, 128, 256)


def a_run(name: str, method: str, updates: int, seed: int, more: tuple[str, ...]) -> RunConfig:
    """The run of a method and a seed."""
    config = recipe(f"{name}/{method}")
    return replace(
        config, seed=seed, more_data=(*config.more_data, *more),
        curation=replace(config.curation, hold=False),
        optimizer=replace(config.optimizer, updates=updates), eval_every=updates,
        save_every=updates,
    )  # fmt: skip


def train(config: RunConfig, folder: Path, device: str, rows: int | None) -> dict:
    """Train and test one run; what is kept of it."""
    folder.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(config, folder, device)
    trainer.run()
    model = load_model(folder).to(device)
    tested = evaluate(model, trainer.splits.test[:rows], list(STEPS))
    gc.collect()  # graphs of the last run
    return {
        "updates": config.optimizer.updates, "seconds": round(trainer.seconds, 1),
        "device": torch.cuda.get_device_name() if device != "cpu" else "cpu",
        "results": [result.summary() for result in tested],
        "correct": {str(result.steps): pack(result.exact) for result in tested},
    }  # fmt: skip


def pack(bits: np.ndarray) -> str:
    """Which test puzzles came out exact, as text."""
    return base64.b64encode(np.packbits(bits)).decode()


def unpack(text: str, count: int) -> np.ndarray:
    """The inverse of `pack`."""
    return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8), count=count).astype(bool)


def campaign(words: argparse.Namespace) -> None:
    """All runs that are not done yet."""
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    for seed, method in itertools.product(words.seeds, words.methods):
        done = words.out / f"{method}-{seed}" / "run.json"
        if done.exists():
            continue
        config = a_run(words.recipe, method, words.updates, seed, tuple(words.more_data))
        found = {"method": method, "seed": seed, **train(config, done.parent, device, words.limit)}
        write_text(done, json.dumps(found) + "\n")
        at = {row["steps"]: f"{100 * row['exact']:.1f}" for row in found["results"]}
        print(f"{method:16} seed {seed}: {found['seconds']:6.1f} s, exact {at}", flush=True)


def rates(figures: dict, method: str, steps: int) -> dict[int, float]:
    """Exact rate in percent by seed."""
    return {
        run["seed"]: 100 * row["exact"]
        for run in figures["runs"]
        for row in run["results"]
        if run["method"] == method and row["steps"] == steps
    }


def against_focus(figures: dict, method: str) -> str:
    """Paired with FOCUS at K = 128: mean difference, and how many seeds differ by themselves."""
    runs = {(run["method"], run["seed"]): run for run in figures["runs"]}
    differences, apart = [], 0
    for seed in sorted(rates(figures, method, 128)):
        if ("focus", seed) not in runs:
            continue
        count = runs[method, seed]["results"][0]["n"]
        ours, theirs = (
            unpack(runs[name, seed]["correct"]["128"], count) for name in ("focus", method)
        )
        only = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
        differences.append(100 * (only[1] - only[0]) / count)
        apart += mcnemar(*only) < 0.05
    if method == "focus" or not differences:
        return "–"
    return f"{statistics.mean(differences):+.1f} ({apart} of {len(differences)})"


def table(figures: dict) -> str:
    """The figures as a Markdown table."""
    lines = [
        f"| method | seeds | GPU s | {' | '.join(f'K = {k}' for k in STEPS)} | to FOCUS | paper |",
        "|---" * (5 + len(STEPS)) + "|",
    ]
    for method in (name for name in COMPARED if rates(figures, name, 128)):
        seconds = [run["seconds"] for run in figures["runs"] if run["method"] == method]
        cells = [_spread(list(rates(figures, method, k).values())) for k in STEPS]
        paper = f"{PAPER[method]:.1f}" if method in PAPER else "–"
        lines.append(
            f"| {method} | {len(seconds)} | {statistics.mean(seconds):.0f} | {' | '.join(cells)} "
            f"| {against_focus(figures, method)} | {paper} |"
        )
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    """Mean, and lowest to highest of the seeds."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{statistics.mean(values):.1f} ({min(values):.1f}–{max(values):.1f})"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="folder of the campaign's runs")
    parser.add_argument("--recipe", default="sudoku-quick")
    parser.add_argument("--methods", nargs="+", choices=COMPARED, default=COMPARED)
    parser.add_argument("--seeds", nargs="+", type=int, default=(1, 2, 3))
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--more-data", nargs="*", default=(), help="further CSV files")
    parser.add_argument("--limit", type=int, help="test puzzles; all by default")
    parser.add_argument("--store", action="store_true", help="store the finished runs")
    parser.add_argument("--table", action="store_true", help="print the stored figures' table")
    words = parser.parse_args()
    if words.out and not words.table:
        if not words.store:
            campaign(words)
        runs = [json.loads(p.read_text()) for p in sorted(words.out.glob("*/run.json"))]
        figures = {"recipe": words.recipe, "runs": runs}
        if words.store:
            write_text(STORED, json.dumps(figures) + "\n")
    else:
        figures = json.loads(STORED.read_text())
    print(table(figures))


if __name__ == "__main__":
    main()
