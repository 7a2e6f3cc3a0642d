"""The methods of the paper at one budget, several seeds, one table.

python -m experiments.methods --updates 1500 --more-data neighbourhood-1.csv.gz --out DIR
    on a GPU; a killed campaign goes on, and runs of the same budget that are stored are not made
    again (the further puzzles are those of runs/sudoku_none.sh)
python -m experiments.methods ... --out DIR --store        # add finished runs to docs/results
python -m experiments.methods --recipe maze-quick --table  # the table of the stored figures

A run is a quick recipe with the `bias` updater, which leaves methods room to differ, without the
replay of solved states (which only methods with replay could have) and with fewer updates. Seeds
come one after the other, so that a campaign that is cut short has compared all methods equally
often. A recipe with a language model (`sudoku-quick/smollm2-135m`) may have `direct` and `base`
too. `trm-sudoku` and the like train TRMs, with the methods `trm` (plain) and `focus`, `random`,
`energy-hard` on carried states. With --teacher all methods that curate states learn from a TRM as
well. Several processes may share a GPU and an --out: give each methods of its own, and --shared.
"""

import argparse
import gc
import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import torch

from experiments.compared import TRM, kind_of, paths_table, stored_as, table, task_of
from experiments.stored import (
    RESULTS,
    command_line,
    one_line,
    pack,
    stored_results,
    this_device,
    weights_of,
)
from focus.errors import UserError
from focus.evaluation.puzzles import evaluate
from focus.files import read_object, write_text
from focus.model.checkpoint import load_model
from focus.recipes import METHODS, recipe
from focus.training.config import RunConfig, first_difference, read_config
from focus.training.loop import Trainer

NO_TEACHER = ("recurrent", "one-step", "direct", "base")  # they curate no states


def a_run(name: str, method: str, words: argparse.Namespace, seed: int) -> RunConfig:
    """The run of a method and a seed."""
    if name.startswith(TRM):
        config = recipe(name if method == TRM else f"{name}/{method}")
        return _within(config, words, seed)
    config = recipe(f"{name}/{method}")
    updater = replace(config.solver.updater, structure="bias", hops=0)
    # The paper's start states and stages, which the quick maze recipe changes.
    replay = config.replay if config.task.name == "sudoku" else recipe(f"maze/{method}").replay
    config = replace(
        config, solver=replace(config.solver, updater=updater), replay=replay,
        curation=replace(config.curation, replay_solved=False),
    )  # fmt: skip
    return _within(config, words, seed)


def _within(config: RunConfig, words: argparse.Namespace, seed: int) -> RunConfig:
    """The run within the budget of the table.

    What a language model writes cannot be used for several updates: as many batches are read.
    """
    writes = config.solver.answer == "written"
    updates = words.updates // words.updates_per_encode if writes else words.updates
    trained = config.optimizer.updates > 0
    return replace(
        config, seed=seed, more_data=(*config.more_data, *words.more_data),
        train_share=words.train_share,
        optimizer=replace(
            config.optimizer, updates=updates if trained else 0,
            batch=words.batch or config.optimizer.batch,
            warmup=min(config.optimizer.warmup, updates // 5),
        ),
        eval_every=updates, save_every=updates,
        eval_rows=min(config.eval_rows, words.limit or config.eval_rows),
        teacher=replace(config.teacher, checkpoint=words.teacher),
        encode_batches=1 if writes else words.encode_batches,
        updates_per_encode=1 if writes else words.updates_per_encode,
    )  # fmt: skip


def train(
    config: RunConfig, folder: Path, device: str, steps: tuple[int, ...], rows: int | None
) -> dict:
    """Train and test one run; what is stored of it."""
    if (path := folder / "config.json").exists() and first_difference(read_config(path), config):
        raise UserError(f"{folder} holds another run; choose another --out")
    shutil.rmtree(folder, ignore_errors=True)  # what was cut off begins again
    folder.mkdir(parents=True)
    trainer = Trainer(config, folder, device)
    trainer.run()
    model = load_model(folder).to(device)
    tested = evaluate(model, trainer.splits.test[:rows], list(steps))
    torch.compiler.reset()  # compiled code is kept for a few models only
    gc.collect()  # graphs of the last run
    return {
        "updates": config.optimizer.updates, "seconds": round(trainer.seconds, 1),
        "device": this_device()[1],
        "results": [result.summary() for result in tested],
        "correct": {str(result.steps): pack(result.exact) for result in tested},
    }  # fmt: skip


def budget(words: argparse.Namespace) -> dict:
    """What all runs of a table share."""
    return {
        "recipe": words.recipe, "updates": words.updates, "batch": words.batch,
        "more_data": [Path(name).name for name in words.more_data],
        "train_share": words.train_share, "encode_batches": words.encode_batches,
        "updates_per_encode": words.updates_per_encode,
        "limit": words.limit, **({"teacher": weights_of(words.teacher)} if words.teacher else {}),
        **({"most_steps": words.most_steps} if words.most_steps else {}),
    }  # fmt: skip


def stored_runs(stored: Path, words: argparse.Namespace) -> list[dict]:
    """Runs of this budget that are stored; others may not be mixed with them."""
    if not stored.exists():
        return []
    figures = json.loads(stored.read_text(encoding="utf-8"))
    if figures["budget"] == budget(words):
        return figures["runs"]
    if words.store:
        raise UserError(f"{stored} holds runs of another budget: {figures['budget']}")
    return []


def finished_runs(out: Path, words: argparse.Namespace) -> list[dict]:
    """Runs of this budget in the campaign's folder."""
    runs = []
    for path in sorted(out.glob("*/run.json")):
        run = read_object(path)
        if run.pop("budget", None) != budget(words):
            raise UserError(f"{path} is a run of another budget; choose another --out")
        runs.append(run)
    return runs


def campaign(words: argparse.Namespace, stored: list[dict]) -> None:
    """All runs that are not stored or finished yet."""
    device, _ = this_device()
    made = {(run["method"], run["seed"]) for run in stored}
    methods = words.methods or [
        name for name in kind_of(words.recipe).methods if not (words.teacher and name in NO_TEACHER)
    ]
    for seed, method in itertools.product(words.seeds, methods):
        file = words.out / f"{method}-{seed}" / "run.json"
        if file.exists() or (method, seed) in made:
            continue
        config = a_run(words.recipe, method, words, seed)
        most = words.most_steps or max(kind_of(words.recipe).steps)
        steps = tuple(k for k in kind_of(words.recipe).steps if k <= most)
        figures = train(config, file.parent, device, steps, words.limit)
        figures = {"method": method, "seed": seed, "budget": budget(words), **figures}
        if words.shared:
            figures["seconds"] = None
        write_text(file, json.dumps(figures) + "\n")
        at = {row["steps"]: f"{100 * row['exact']:.1f}" for row in figures["results"]}
        print(f"{method:16} seed {seed}: exact {at}", flush=True)


def measured(words: argparse.Namespace) -> dict:
    """The figures of a table, made or as they are stored."""
    stored = RESULTS / f"{stored_as(words.recipe, bool(words.teacher))}.json"
    if words.out and not words.table:
        runs = stored_runs(stored, words)
        finished_runs(words.out, words)  # refuses a folder of other runs before anything is made
        if not words.store:
            campaign(words, runs)
        fresh = finished_runs(words.out, words)
        runs = list({(run["method"], run["seed"]): run for run in (*runs, *fresh)}.values())
        figures = {"budget": budget(words), "runs": runs}
    elif stored.exists():
        figures = stored_results(stored.stem)
    else:
        raise UserError(f"{stored.name} is not stored; --out DIR makes its runs")
    if not figures["runs"]:
        raise UserError(f"{words.out} holds no finished run (NAME/run.json)")
    if len({run["results"][0]["n"] for run in figures["runs"]}) > 1:
        raise UserError("runs were tested on different numbers of puzzles; is FOCUS_DATA the same?")
    if words.store:
        write_text(stored, json.dumps(figures) + "\n")
    return figures


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("--out", type=Path, help="folder of the campaign's runs")
    parser.add_argument("--recipe", default="sudoku-quick")
    parser.add_argument("--methods", nargs="+", choices=(TRM, *METHODS), help="all of them")
    parser.add_argument("--seeds", nargs="+", type=int, default=(1, 2, 3))
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--batch", type=int, help="the recipe's by default")
    parser.add_argument("--more-data", nargs="*", default=(), help="further CSV files")
    parser.add_argument("--train-share", type=float, default=0.05, help="beside further puzzles")
    parser.add_argument("--teacher", default="", help="a TRM's checkpoint to learn from as well")
    parser.add_argument("--encode-batches", type=int, default=1)
    parser.add_argument("--updates-per-encode", type=int, default=1)
    parser.add_argument("--shared", action="store_true", help="a GPU with other work: no seconds")
    parser.add_argument("--limit", type=int, help="test puzzles, all by default, and of validation")
    parser.add_argument("--most-steps", type=int, help="largest K that is tested")
    parser.add_argument("--store", action="store_true", help="store the finished runs")
    parser.add_argument("--table", action="store_true", help="print the stored figures' table")
    words = parser.parse_args()
    if words.teacher and words.recipe.startswith(TRM):
        parser.error("a TRM has no teacher")
    if words.teacher and (alone := set(words.methods or ()) & set(NO_TEACHER)):
        parser.error(f"a teacher is for methods of curation, not for {', '.join(sorted(alone))}")
    if words.most_steps and words.most_steps < kind_of(words.recipe).at:
        parser.error(f"methods are paired at K = {kind_of(words.recipe).at}: --most-steps is less")
    with one_line("methods"):
        figures = measured(words)
        print(table(figures))
        if task_of(words.recipe) == "maze":
            print(f"\n{paths_table(figures)}")


if __name__ == "__main__":
    main()
