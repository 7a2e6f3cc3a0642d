"""Were stored completions greedy? Every token is scored again, in float32 and without a cache.

python -m experiments.completions_check RUN [--items 20] [--variants base sudoku-smollm2 ...]

RUN is a folder of `focus transfer`. A completion was written in a batch, padded, token by token,
in bf16 on a GPU. Here its prompt and text are read at once, alone, in float32: each token should
be the first choice, or lie behind it by no more than the noise of bf16; so should the token that
ended a completion. Completions whose text does not give back as many tokens as were written are
left out.
"""

import json
import random
from pathlib import Path

import torch

from experiments.stored import RESULTS, command_line, one_line, that_holds
from focus.evaluation.transfer import find_benchmarks
from focus.evaluation.transfer.store import Store
from focus.evaluation.transfer.variants import find_variants, load_variant
from focus.files import read_object, write_text
from focus.model.generate import prompt_ids

STORED = RESULTS / "completions.json"
BENCHMARKS = "math,cruxeval-o,cruxeval-i,aime25,aime26"


@torch.inference_mode()
def behind(model, prompt: list[int], written: list[int]) -> list[float]:
    """How far each written token's logit lies behind the highest."""
    logits = model(torch.tensor([prompt + written])).logits[0, len(prompt) - 1 : -1].float()
    return (logits.amax(1) - logits[torch.arange(len(written)), written]).tolist()


def check(run: Path, name: str, items: int) -> dict:
    """Figures of one variant."""
    variant = find_variants((name,), 1)[0]
    settings = read_object(run / variant.name / "settings.json")
    with that_holds(run / variant.name, "a variant of focus transfer"):
        backbone, thinking = (settings[name] for name in ("backbone", "thinking"))
    model, codec = load_variant(variant, backbone, "cpu")
    gaps, ends, left_out, drawn = [], [], 0, 0
    for benchmark in find_benchmarks(BENCHMARKS):
        written = Store(run / variant.name).written(benchmark.source)
        every = benchmark.items(None)
        some = random.Random(0).sample(every, min(items, len(every)))
        drawn += len(some)
        for item in some:
            with that_holds(run / variant.name, f"all of {benchmark.name}"):
                one = written[item.id]
            ids = codec.encode(one.completion)
            if len(ids) != one.tokens or not ids:
                left_out += 1
                continue
            prompt = prompt_ids(codec, benchmark.ask(item), thinking)
            if one.finished:
                ids.append(codec.end)
            gaps += behind(model, prompt, ids)
            ends += gaps[-1:] if one.finished else []
    behind_first = torch.tensor(gaps)
    return {
        "variant": variant.name, "completions": drawn - left_out, "left_out": left_out,
        "ends": len(ends), "end_behind_most": max(ends, default=None),
        "tokens": len(gaps), "first_choice": float((behind_first == 0).float().mean()),
        "behind_99.9_percent": float(behind_first.quantile(0.999)),
        "behind_most": float(behind_first.max()),
    }  # fmt: skip


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--items", type=int, default=20, help="of each benchmark")
    parser.add_argument("--variants", nargs="+", default=("base", "sudoku-smollm2"))
    words = parser.parse_args()
    rows = []
    with one_line("completions_check"):
        for name in words.variants:
            rows.append(check(words.run, name, words.items))
            print(json.dumps(rows[-1]), flush=True)
    figures = {"device": "CPU", "precision": "float32", "items": words.items, "rows": rows}
    write_text(STORED, json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
