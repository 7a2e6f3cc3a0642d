"""The same adapter, the same items, in lm-evaluation-harness: do completions and verdicts agree?

pip install lm-eval
focus transfer VARIANT --benchmarks cruxeval-o --limit 100 --allow-code --out DIR
python -m experiments.harness_check DIR VARIANT [--peft ADAPTER] --data DATA --limit 100
python -m experiments.harness_check --answers --data DATA --limit 200

With `--answers` no model writes: both evaluators judge each item's reference answer and that of
the next item, so that there is something to agree about where a small model has nothing right.

The harness's own CruxEval task, its extraction and its evaluator, with our prompt, zero-shot and
greedy, from the local file. Its evaluator runs programs without a sandbox: give it completions that
you have seen.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

from experiments.stored import command_line, one_line, that_holds, this_device
from focus.errors import UserError
from focus.evaluation.transfer import BENCHMARKS
from focus.evaluation.transfer.benchmark import Benchmark
from focus.evaluation.transfer.items import Item
from focus.evaluation.transfer.run import by_execution
from focus.evaluation.transfer.store import Scored, Store
from focus.files import read_object, write_text
from focus.model.install import installed

_TASK = """
include: {harness}/tasks/cruxeval/cruxeval_common_yaml
task: focus_check
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{items}"}}}}
doc_to_text: "{{{{prompt}}}}"
doc_to_target: "assert f({{{{input}}}})=={{{{output}}}}"
repeats: 1
num_fewshot: 0
unsafe_code: true
generation_kwargs: {{until: [], do_sample: false, max_gen_toks: {cap}}}
filter_list:
  - name: create_test
    filter:
      - function: custom
        filter_fn: !function {harness}/tasks/cruxeval/utils.build_predictions_{kind}_cot
metric_list:
  - metric: !function {harness}/tasks/cruxeval/utils.pass_at_k
    aggregation: mean
    higher_is_better: true
    k: [1]
"""


_KIND = {"cruxeval-o": "output", "cruxeval-i": "input"}  # the harness's names


def harness_samples(
    benchmark: Benchmark, items: list[Item], backbone: str, peft: str | None, cap: int, batch: int
) -> dict[str, tuple[str, bool]]:
    """Completion and verdict of the harness by id."""
    os.environ["HF_ALLOW_CODE_EVAL"] = "1"
    import lm_eval
    from lm_eval.tasks import TaskManager

    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary, "items.jsonl")
        rows = [{**item.fields, "id": item.id, "prompt": benchmark.ask(item)} for item in items]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        task = _TASK.format(
            harness=Path(lm_eval.__file__).parent, items=file, cap=cap,
            kind=_KIND[benchmark.name],
        )  # fmt: skip
        Path(temporary, "focus_check.yaml").write_text(task)
        folder = installed(backbone) or backbone
        settings = f"pretrained={folder},dtype=float32" + (f",peft={peft}" if peft else "")
        evaluated = lm_eval.simple_evaluate(
            model="hf", model_args=settings, tasks=["focus_check"], batch_size=batch,
            task_manager=TaskManager(include_path=temporary), apply_chat_template=True,
            log_samples=True, confirm_run_unsafe_code=True,
            device=this_device()[0],
        )  # fmt: skip
    return {
        sample["doc"]["id"]: (sample["resps"][0][0], bool(sample["pass@1"]))
        for sample in evaluated["samples"]["focus_check"]
    }


def agreement(ours: dict[str, Scored], theirs: dict[str, tuple[str, bool]]) -> dict:
    """How many completions are the same text, and how many verdicts agree."""
    both = [(ours[id_], *theirs[id_]) for id_ in theirs]
    same = [one for one in both if one[0].completion.strip() == one[1].strip()]
    return {
        "items": len(both),
        "same_completion": len(same),
        "same_verdict": sum(line.correct == right for line, _, right in both),
        "same_verdict_given_same_completion": sum(line.correct == r for line, _, r in same),
        "ours_correct": sum(line.correct for line, _, _ in both),
        "harness_correct": sum(right for _, _, right in both),
    }


def judged_answers(benchmark: Benchmark, items: list[Item]) -> dict:
    """Both evaluators on right answers, and on those of the next item, most of which are wrong."""
    from lm_eval.tasks.cruxeval import utils

    texts = [item.gold for item in items] + [item.gold for item in (*items[1:], items[0])]
    twice = [*items, *items]
    ours = [right for _, right, _ in by_execution(benchmark, twice, texts, lambda done: None)]
    build = getattr(utils, f"build_predictions_{_KIND[benchmark.name]}_cot")
    programs = build([[text] for text in texts], [item.fields for item in twice])
    theirs = [utils.check_correctness(program) for (program,) in programs]
    n = len(items)
    return {
        "items": n,
        "same_verdict": sum(a == b for a, b in zip(ours, theirs, strict=True)),
        "of": 2 * n,
        "ours_right": {"reference": sum(ours[:n]), "next item": sum(ours[n:])},
        "harness_right": {"reference": sum(theirs[:n]), "next item": sum(theirs[n:])},
        "differ_on": [twice[i].id for i in range(2 * n) if ours[i] != theirs[i]],
    }


def measure(words: argparse.Namespace) -> dict:
    """How the two agree about completions, or about reference answers."""
    benchmark = BENCHMARKS[words.benchmark]
    items = benchmark.items(words.data)[: words.limit]
    if words.answers:
        return judged_answers(benchmark, items)
    folder = words.run / words.variant
    settings = read_object(folder / "settings.json")
    with that_holds(folder, "a variant of focus transfer"):
        backbone, most = (settings[name] for name in ("backbone", "max_tokens"))
    theirs = harness_samples(benchmark, items, backbone, words.peft, most, words.batch)
    return agreement(Store(folder).scores(benchmark.name), theirs)


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("run", type=Path, nargs="?", help="the --out of focus transfer")
    parser.add_argument("variant", nargs="?")
    parser.add_argument("--answers", action="store_true", help="judge reference answers alone")
    parser.add_argument("--peft", help="folder of the adapter")
    parser.add_argument("--benchmark", default="cruxeval-o", choices=("cruxeval-o", "cruxeval-i"))
    parser.add_argument("--data", required=True)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--store", type=Path, help="JSON file to add the figures to")
    words = parser.parse_args()
    if not words.answers and words.variant is None:
        parser.error("name the folder and the variant, or --answers")
    with one_line("harness_check"):
        try:
            figures = measure(words)
        except ModuleNotFoundError as error:
            raise UserError(f"{error}; pip install lm-eval") from error
        print(json.dumps(figures, indent=1))
        if words.store:
            stored = read_object(words.store) if words.store.exists() else {}
            stored[f"{words.variant or 'answers'} {words.benchmark}"] = figures
            write_text(words.store, json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
