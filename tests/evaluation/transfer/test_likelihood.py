"""Bits of reference texts: those of a plain loop, whatever the batch, and paired by item."""

import itertools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model

from focus.cli import main
from focus.errors import UserError
from focus.evaluation.statistics import ratio_intervals
from focus.evaluation.transfer import BENCHMARKS, likelihood
from focus.evaluation.transfer.beyond_null import BITS, verdicts
from focus.evaluation.transfer.likelihood import compare, reference_bits, table
from focus.evaluation.transfer.store import Bits, Store
from focus.evaluation.transfer.variants import Variant, load_variant
from focus.model.generate import end_ids, prompt_ids
from focus.model.install import SMOLLM2
from focus.model.pretrained import load_language_model
from tests.conftest import ASSETS

DATA = str(ASSETS / "data")
BASE = Variant("base", "base")


def _pairs(codec):
    return [
        (prompt_ids(codec, benchmark.ask(item), False), codec.encode(item.gold))
        for benchmark in (BENCHMARKS["math"], BENCHMARKS["cruxeval-o"])
        for item in benchmark.items(DATA)
    ]


def _by_hand(model, prompt, reference, ends) -> tuple[float, float]:
    """One forward pass for each token, without batch, padding or chunks."""
    seen, bits = list(prompt), 0.0
    for token in [*reference, None]:
        with torch.no_grad():
            p = model(torch.tensor([seen])).logits[0, -1].double().softmax(-1)
        if token is None:
            return bits, -math.log2(float(p[list(ends)].sum()))
        bits -= math.log2(float(p[token]))
        seen.append(token)
    raise AssertionError


def _check_by_hand(backbone: str, count: int) -> None:
    model, codec = load_variant(BASE, backbone, "cpu")
    ends, pairs = end_ids(model, codec), _pairs(codec)[-count:]
    expected = [_by_hand(model, *pair, ends) for pair in pairs]
    np.testing.assert_allclose(reference_bits(model, pairs, ends, "cpu"), expected, rtol=1e-4)


def test_bits_are_those_of_a_plain_loop():
    _check_by_hand("tiny-llama", 3)


def test_bits_of_a_real_model_are_those_of_a_plain_loop(smollm2):
    _check_by_hand(SMOLLM2, 1)


def test_every_token_that_ends_a_completion_counts_as_the_end():
    model, codec = load_variant(BASE, "tiny-llama", "cpu")
    pairs = _pairs(codec)[:1]
    ((bits, one),) = reference_bits(model, pairs, [2], "cpu")
    ((same, other),) = reference_bits(model, pairs, [5], "cpu")
    ((_, both),) = reference_bits(model, pairs, [2, 5], "cpu")
    assert bits == same
    assert both == pytest.approx(-math.log2(2**-one + 2**-other))


def test_bits_do_not_depend_on_the_batch_or_on_chunks(monkeypatch):
    model, codec = load_variant(BASE, "tiny-llama", "cpu")
    ends, pairs = end_ids(model, codec), _pairs(codec)
    assert len({len(prompt) for prompt, _ in pairs}) > 2  # prompts end in different places
    together = reference_bits(model, pairs, ends, "cpu")
    monkeypatch.setattr(likelihood, "_AT_ONCE", 7)
    alone = [reference_bits(model, [pair], ends, "cpu")[0] for pair in pairs]
    np.testing.assert_allclose(together, alone, rtol=1e-5)


def test_a_batch_that_does_not_fit_is_halved_down_to_one_text():
    model, codec = load_variant(BASE, "tiny-llama", "cpu")
    ends, pairs = end_ids(model, codec), _pairs(codec)[:5]

    def small(fits):
        def forward(input_ids, **more):
            if len(input_ids) > fits:
                raise torch.OutOfMemoryError
            return model(input_ids=input_ids, **more)

        return forward

    expected = reference_bits(model, pairs, ends, "cpu")
    halved = reference_bits(small(2), pairs, ends, "cpu")
    np.testing.assert_allclose(halved, expected, rtol=1e-5)
    with pytest.raises(UserError, match="does not fit"):
        reference_bits(small(0), pairs, ends, "cpu")


@pytest.fixture(scope="module")
def adapters(tmp_path_factory):
    """An adapter that changes nothing, and one that changes something."""
    folder = tmp_path_factory.mktemp("adapters")
    for name, scale in (("nothing", 0.0), ("something", 0.3)):
        model, _ = load_language_model("tiny-llama")
        adapted = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
        torch.manual_seed(0)
        for key, weight in adapted.named_parameters():
            if "lora_B" in key:
                weight.data = scale * torch.randn_like(weight)
        adapted.save_pretrained(folder / name)
        config = json.loads((folder / name / "adapter_config.json").read_text())
        config["base_model_name_or_path"] = "tiny-llama"
        (folder / name / "adapter_config.json").write_text(json.dumps(config))
    return folder


def _words(out, *variants, more=()):
    return [
        "transfer", *variants, "--bits", "--benchmarks", "math,math-hard,cruxeval-o", "--data",
        DATA, "--out", str(out), *more,
    ]  # fmt: skip


def test_an_adapter_of_norm_zero_and_its_null_are_the_base(adapters, tmp_path, capsys):
    nothing, something = str(adapters / "nothing"), str(adapters / "something")
    words = _words(tmp_path, "base", nothing, something, "null", f"null:{something}")
    assert main([*words, "--null-seeds", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["backbone"] == "tiny-llama"
    by_variant = {}
    for row in told["results"]:
        by_variant.setdefault(row.pop("variant"), []).append(row)
    assert {row["benchmark"]: row["n"] for row in by_variant["base"]} == {
        name: len(BENCHMARKS[name].items(DATA)) for name in ("math", "math-hard", "cruxeval-o")
    }
    for name in ("nothing", "null-nothing-1", "null-nothing-2"):
        assert by_variant[name] == by_variant["base"]
    for row in told["compared"]:
        zero = (row["bits_per_token"], row["low"], row["high"], row["end_bits"]) == (0, 0, 0, 0)
        assert zero == ("nothing" in row["variant"])
    text = (tmp_path / "bits.md").read_text()
    assert "null-something (2 seeds)" in text
    nothing, something = (line for line in text.splitlines() if line.startswith("tiny-llama: "))
    assert nothing.count("no difference seen, +0.000 bits per token [+0.000, +0.000]") == 3
    assert "something against 2 random adapters of its norms: MATH: " in something
    # Once more: nothing is measured again.
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/bits/*")}
    assert main([*words, "--null-seeds", "2"]) == 0
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/bits/*")} == before


def test_completions_and_bits_lie_beside_each_other(tmp_path, capsys):
    words = _words(tmp_path, "base", more=["--backbone", "tiny-llama", "--limit", "1"])
    written = [word for word in words if word != "--bits"] + ["--max-tokens", "4"]
    assert main(words) == 0
    assert main([*written, "--only-generate"]) == 0
    assert main(words) == 0
    assert main([*words, "--thinking", "True"]) == 2
    assert "was begun with thinking = False" in capsys.readouterr().err


def test_a_killed_run_loses_and_repeats_nothing(tmp_path):
    more = ["--backbone", "tiny-llama", "--batch", "1"]
    words = _words(tmp_path / "killed", "base", more=more)
    file = tmp_path / "killed" / "base" / "bits" / "math.written.jsonl"
    # Each batch waits, so that the kill meets the run in its middle.
    slow = (
        "import sys, time; from focus.evaluation.transfer import likelihood; "
        "inner = likelihood.reference_bits\n"
        "def slowly(*given):\n    time.sleep(0.5)\n    return inner(*given)\n"
        "likelihood.reference_bits = slowly\n"
        "from focus.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    process = subprocess.Popen([sys.executable, "-c", slow, *words])
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (file.exists() and file.stat().st_size):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    some = file.read_text()
    items = BENCHMARKS["math"].items(DATA)
    assert 0 < len(some.splitlines()) < len(items)
    file.write_text(some + '{"id": "3", "tok')  # a line that the kill has torn
    assert main(words) == 0
    assert file.read_text().startswith(some)
    ids = Counter(json.loads(line)["id"] for line in file.read_text().splitlines())
    assert ids == Counter(item.id for item in items)
    assert main(_words(tmp_path / "whole", "base", more=more)) == 0
    assert (tmp_path / "killed/bits.json").read_text() == (tmp_path / "whole/bits.json").read_text()


def test_how_long_it_takes_is_said_after_the_second_batch(adapters, tmp_path, capsys):
    words = _words(tmp_path, "base", str(adapters / "something"), more=["--batch", "2"])
    words[words.index("--benchmarks") + 1] = "math"
    clock = itertools.count(0, 30)  # every batch takes half a minute
    ticking = SimpleNamespace(monotonic=lambda: next(clock))
    with mock.patch("focus.evaluation.transfer.likelihood.time", ticking):
        assert main(words) == 0
    (count, minutes) = re.findall(
        r"(\d+) references to read: about (\d+) min, by the first texts of base\n",
        capsys.readouterr().err,
    )[0]
    items = len(BENCHMARKS["math"].items(DATA))
    assert int(count) == 2 * items
    # Two items of half a minute; the longest come first, so that all take somewhat less.
    assert 0.5 * items / 2 * 0.5 < int(minutes) / 2 <= items / 2 * 0.5 + 1


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "0", "tokens": 0, "bits": 1.0, "end_bits": 1.0}',
        '{"id": "0", "tokens": 3, "bits": NaN, "end_bits": 1.0}',
        '{"id": "0", "tokens": 3, "bits": 1.0}',
        "damaged",
    ],
)
def test_a_damaged_line_is_named(tmp_path, line):
    (tmp_path / "math.written.jsonl").write_text(line + "\n")
    with pytest.raises(UserError, match="line 1 is damaged"):
        Store(tmp_path).read(Bits, "math")


def test_an_adapter_that_is_not_finite_is_refused(adapters, tmp_path, capsys):
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "broken"
    shutil.copytree(adapters / "something", folder)
    weights = load_file(folder / "adapter_model.safetensors")
    save_file(
        {name: w * float("nan") for name, w in weights.items()},
        folder / "adapter_model.safetensors",
    )
    assert main(_words(tmp_path / "out", str(folder))) == 2
    error = capsys.readouterr().err
    assert "damaged" in error
    assert error.count("\n") == 1


def test_ratios_are_those_of_sums_and_their_draws_are_shared():
    tokens = np.array([1, 9, 10, 20])
    bits = np.array([5.0, 18.0, 20.0, 40.0])
    (one, twice, same) = ratio_intervals(
        np.stack([bits, 2 * bits, 3.0 * tokens]), tokens, draws=500
    )
    assert one[0] == 83 / 40  # not the mean of the items' ratios, 11 / 4
    assert one[1] < one[0] < one[2]
    np.testing.assert_allclose(twice, 2 * one)
    np.testing.assert_allclose(same, 3.0)


def test_a_difference_is_paired_by_item():
    rng = np.random.default_rng(0)
    tokens = rng.integers(10, 200, 100)
    hard = tokens * rng.uniform(0.5, 4, 100)  # items differ far more than variants do

    def lines(more, end):
        return {
            "math": [
                Bits(str(n), int(t), float(b + more * t), end)
                for n, (t, b) in enumerate(zip(tokens, hard, strict=True))
            ]
        }

    report = compare({"base": lines(0, 1.0), "null-a-1": lines(0.01, 4.0), "b": lines(-0.02, 1.0)})
    base = report["results"][0]
    assert base["high"] - base["low"] > 0.1
    null, trained = report["compared"]
    np.testing.assert_allclose([null[key] for key in ("bits_per_token", "low", "high")], 0.01)
    np.testing.assert_allclose([trained[key] for key in ("low", "high")], -0.02)
    assert (null["end_bits"], trained["end_bits"]) == (3.0, 0.0)
    assert "| MATH (100) | b |" in table(report)
    assert "| -0.020 [-0.020, -0.020] |" in table(report)


def test_bits_of_each_seed_are_compared_with_those_of_its_own_random_adapters():
    rng = np.random.default_rng(0)
    tokens, hard = rng.integers(10, 200, 100), rng.uniform(0.5, 4, 100)

    def lines(more):
        return {
            "math": [
                Bits(str(n), int(t), float((h + more) * t), 1.0)
                for n, (t, h) in enumerate(zip(tokens, hard, strict=True))
            ]
        }

    bits = {"base": 0.0, "a-1": 0.1, "a-2": 0.5, "b": 0.3}
    bits |= {
        "null-a-1-1": 0.2,
        "null-a-1-2": 0.2,
        "null-a-2-1": 0.6,
        "null-b-1": 0.1,
        "null-b-2": 0.1,
    }
    rows = compare({name: lines(more) for name, more in bits.items()})["beyond_null"]
    found = {(row["variant"], row["seeds"]): row["bits_per_token"] for row in rows}
    expected = {("a-1", 1): -0.1, ("a-2", 1): -0.1, ("b", 1): 0.2, ("a", 2): -0.1}
    assert found == pytest.approx(expected)
    for line, word in zip(
        verdicts(rows, "tiny-llama", BITS),
        ("costs", "helps"), strict=True,
    ):  # fmt: skip
        assert f"MATH: {word}, " in line


def test_seeds_share_a_row_of_the_table():
    def lines(bits):
        return {"math": [Bits("0", 10, bits, 1.0), Bits("1", 10, bits, 1.0)]}

    report = compare({"base": lines(10.0), "null-a-1": lines(20.0), "null-a-2": lines(40.0)})
    assert table(report).splitlines()[-1] == (
        "| MATH (2) | null-a (2 seeds) | 3.000 (2.000 to 4.000) | +2.000 (+1.000 to +3.000) "
        "| 1.000 (1.000 to 1.000) | +0.000 (+0.000 to +0.000) |"
    )
