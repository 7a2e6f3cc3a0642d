"""A run generates every item once, scores what it has, and compares variants item by item."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from focus.cli import main
from focus.errors import UserError
from focus.evaluation import sandbox
from focus.evaluation.transfer.beyond_null import POINTS, verdicts
from focus.evaluation.transfer.compare import (
    against_nulls,
    comparisons,
    over_seeds,
    paired,
    seeds_table,
    table,
)
from focus.evaluation.transfer.store import Scored, Store, Written
from focus.training.loop import Trainer
from tests.training.samples import tiny_run


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """Small benchmarks of the real layout."""
    folder = tmp_path_factory.mktemp("data")
    problems = [
        {
            "problem": f"What is {n} + {n}?", "level": f"Level {1 + n % 5}", "idx": n,
            "solution": rf"It is \boxed{{{2 * n}}}.",
        }
        for n in range(24)
    ]  # fmt: skip
    programs = [
        {"code": "def f(a):\n    return a * 2", "input": str(n), "output": str(2 * n)}
        for n in range(4)
    ]
    for name, rows in (("math/test", problems), ("cruxeval/cruxeval", programs)):
        (folder / name).parent.mkdir()
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "solver"
    Trainer(tiny_run("sudoku", "tiny-llama", updates=3), folder).run()
    return folder


def _words(questions, out, *variants, benchmarks="math,math-hard", more=()):
    return [
        "transfer", *variants, "--benchmarks", benchmarks, "--data", str(questions), "--out",
        str(out), "--max-tokens", "24", "--batch", "4", *more,
    ]  # fmt: skip


def test_variants_side_by_side(questions, checkpoint, tmp_path, capsys):
    words = _words(questions, tmp_path, "base", str(checkpoint), "null", "gold")
    assert main([*words, "--null-seeds", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    by = {(r["variant"], r["benchmark"]): r for r in told["results"]}
    assert set(by) == {
        (v, b) for v in ("base", "solver", "null-solver-1", "gold") for b in ("math", "math-hard")
    }
    assert by["gold", "math"]["accuracy"] == 1.0
    assert by["base", "math-hard"]["n"] == 4
    assert {c["variant"] for c in told["compared"]} == {"solver", "null-solver-1", "gold"}
    lines = [json.loads(x) for x in (tmp_path / "base" / "math.jsonl").read_text().splitlines()]
    assert len(lines) == 24
    assert set(lines[0]) >= {"id", "completion", "extracted", "correct", "why"}
    (null,) = (row for row in told["beyond_null"] if row["benchmark"] == "math")
    assert (null["variant"], null["against"], null["nulls"]) == ("solver", "null-solver", 1)
    verdict = (tmp_path / "table.md").read_text().splitlines()[-1]
    assert verdict.startswith("tiny-llama: solver against 1 random adapter of its norms: MATH: ")
    card = (tmp_path / "cards" / "solver-math.html").read_text()
    assert card.startswith("<!doctype html>")
    assert "http" not in card
    # Once more: nothing is generated or judged again.
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/math*.jsonl")}
    assert main([*words, "--null-seeds", "1", "--json"]) == 0
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/math*.jsonl")} == before
    assert json.loads(capsys.readouterr().out) == told


def test_how_long_all_variants_take_is_said_when_the_first_has_begun(
    questions, checkpoint, tmp_path, capsys
):
    """24 items in batches of 4, with a cap of 64 tokens: 6 x 64 / 16 looks, of each variant."""
    words = _words(questions, tmp_path, "base", str(checkpoint), "null", benchmarks="math")
    words[words.index("--max-tokens") + 1] = "64"
    words += ["--null-seeds", "1", "--only-generate"]
    clock = itertools.count(0, 10)  # every look takes ten seconds
    ticking = SimpleNamespace(monotonic=lambda: next(clock))
    with mock.patch("focus.evaluation.transfer.run.time", ticking):
        assert main(words) == 0
    said = "72 completions to write: at most about 12 min, by the first tokens of base\n"
    error = capsys.readouterr().err
    assert said in error
    assert error.count("at most") == 1
    assert main(words) == 0  # nothing is missing
    assert "at most" not in capsys.readouterr().err
    words[words.index("--max-tokens") + 1] = "32"  # too few to tell
    words[words.index("--out") + 1] = str(tmp_path / "few")
    assert main(words) == 0
    assert "at most" not in capsys.readouterr().err


def test_other_settings_of_any_variant_are_refused_before_the_first_begins(
    questions, checkpoint, tmp_path, capsys
):
    words = _words(questions, tmp_path, str(checkpoint), benchmarks="math")
    assert main([*words, "--limit", "1", "--only-generate"]) == 0
    words = _words(questions, tmp_path, "base", str(checkpoint), benchmarks="math")
    assert main([*words, "--thinking", "True", "--only-generate"]) == 2
    assert "was begun with thinking = False" in capsys.readouterr().err
    assert not (tmp_path / "base" / "math.written.jsonl").exists()


def test_a_part_of_a_benchmark_is_generated_with_the_whole(questions, tmp_path):
    assert (
        main(
            _words(questions, tmp_path, "base", "--backbone", "tiny-llama", benchmarks="math-hard")
        )
        == 0
    )
    first = (tmp_path / "base" / "math.written.jsonl").read_text()
    assert len(first.splitlines()) == 4
    assert main(_words(questions, tmp_path, "base", "--backbone", "tiny-llama")) == 0
    whole = (tmp_path / "base" / "math.written.jsonl").read_text()
    assert whole.startswith(first)
    assert len(whole.splitlines()) == 24


def test_a_killed_run_loses_and_repeats_nothing(questions, tmp_path):
    words = _words(
        questions, tmp_path / "killed", "base", "--backbone", "tiny-llama", benchmarks="math"
    )
    file = tmp_path / "killed" / "base" / "math.written.jsonl"
    # Each batch waits, so that the kill meets the run in its middle.
    slow = (
        "import sys, time; from focus.evaluation.transfer import run; "
        "inner = run.complete_in_pieces\n"
        "def slowly(*given):\n    time.sleep(0.5)\n    return inner(*given)\n"
        "run.complete_in_pieces = slowly\n"
        "from focus.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    process = subprocess.Popen([sys.executable, "-c", slow, *words])
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (file.exists() and file.stat().st_size):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    some = file.read_text()
    assert 0 < len(some.splitlines()) < 24
    file.write_text(some + '{"id": "3", "compl')  # a line that the kill has torn
    assert main(words) == 0
    ids = Counter(json.loads(line)["id"] for line in file.read_text().splitlines())
    assert ids == Counter(str(n) for n in range(24))
    assert (
        main(
            _words(
                questions, tmp_path / "whole", "base", "--backbone", "tiny-llama", benchmarks="math"
            )
        )
        == 0
    )
    stored = [
        {line["id"]: line["completion"] for line in map(json.loads, text.splitlines())}
        for text in (file.read_text(), (tmp_path / "whole/base/math.written.jsonl").read_text())
    ]
    assert stored[0] == stored[1]


def test_a_full_disk_is_one_line_and_loses_nothing(questions, tmp_path, monkeypatch, capsys):
    words = _words(questions, tmp_path, "base", "--backbone", "tiny-llama", benchmarks="math")
    calls = itertools.count(1)

    def opened(path, mode):
        if next(calls) == 3:  # the third batch finds room for half a line
            with open(path, mode) as stream:
                stream.write(b'{"id": "3", "compl')
            raise OSError(28, "No space left on device")
        return open(path, mode)

    with monkeypatch.context() as full:
        full.setattr("focus.evaluation.transfer.store.open", opened, raising=False)
        assert main(words) == 2
    error = capsys.readouterr().err
    file = tmp_path / "base" / "math.written.jsonl"
    assert f"cannot write {file}: No space left on device\n" in error
    assert "Traceback" not in error
    assert file.read_text().count("\n") == 8
    assert main(words) == 0
    ids = Counter(json.loads(line)["id"] for line in file.read_text().splitlines())
    assert ids == Counter(str(n) for n in range(24))


def test_programs_run_only_when_allowed(questions, tmp_path, capsys):
    words = _words(questions, tmp_path, "gold", benchmarks="cruxeval-o,cruxeval-i")
    assert main(words) == 2
    assert "--allow-code" in capsys.readouterr().err
    try:
        sandbox.check_available()
    except UserError as error:
        pytest.skip(str(error))
    assert main([*words, "--allow-code", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["accuracy"] for row in told["results"]] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--max-tokens", "0"), "max-tokens"),
        (("--limit", "0"), "limit"),
        (("--batch", "-1"), "batch"),
        (("--benchmarks", "chess"), "no benchmark 'chess'"),
        (("--data", "/nowhere"), "no math/test.jsonl"),
    ],
)
def test_wrong_words_are_one_line(questions, tmp_path, capsys, more, message):
    words = _words(questions, tmp_path, "base", "--backbone", "tiny-llama", more=more)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_other_settings_in_the_same_folder_are_refused(questions, tmp_path, capsys):
    words = _words(questions, tmp_path, "base", "--backbone", "tiny-llama", "--limit", "2")
    assert main(words) == 0
    assert main([*words, "--max-tokens", "30"]) == 2
    assert "max_tokens" in capsys.readouterr().err


def test_completions_of_another_version_of_the_prompt_are_refused(questions, tmp_path, capsys):
    words = _words(questions, tmp_path, "base", "--backbone", "tiny-llama", "--limit", "2")
    assert main(words) == 0
    path = tmp_path / "base" / "settings.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "versions": {"math": 0}}))
    assert main(words) == 2
    assert "version 0 of math" in capsys.readouterr().err


def test_completions_without_settings_are_not_adopted(questions, tmp_path, capsys):
    words = _words(questions, tmp_path, "base", "--backbone", "tiny-llama", "--limit", "2")
    assert main([*words, "--only-generate"]) == 0
    before = (tmp_path / "base" / "math.written.jsonl").read_text()
    (tmp_path / "base" / "settings.json").unlink()
    assert main([*words, "--max-tokens", "9", "--only-generate"]) == 2
    error = capsys.readouterr().err
    assert "settings.json is missing" in error
    assert error.count("\n") == 1
    assert (tmp_path / "base" / "math.written.jsonl").read_text() == before


def test_completions_of_another_machine_are_judged_here_and_not_mixed(questions, tmp_path, capsys):
    words = _words(questions, tmp_path, "base", "--backbone", "tiny-llama", "--limit", "4")
    assert main([*words, "--only-generate"]) == 0
    assert not (tmp_path / "base" / "math.jsonl").exists()
    path = tmp_path / "base" / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "precision": "another"}))
    assert main(words) == 0
    assert (tmp_path / "base" / "math.jsonl").exists()
    assert main([*words, "--limit", "6"]) == 2
    assert "precision" in capsys.readouterr().err


def _scored(*verdicts):
    return [
        Scored(str(n), "1", "1", right, "", "text", 1, True) for n, right in enumerate(verdicts)
    ]


def test_paired_counts_only_where_two_differ():
    points, p = paired(_scored(1, 1, 1, 0), _scored(1, 0, 0, 0))
    assert points == 50.0
    assert p == 0.5
    results = {("base", "math"): _scored(1, 0), ("new", "math"): _scored(1, 1)}
    assert comparisons(results)[0]["points"] == 50.0


SIZES = {"math": 300, "math-hard": 100, "cruxeval-o": 200, "cruxeval-i": 200}


def _results(rates):
    rng = np.random.default_rng(0)
    return {
        (name, benchmark): _scored(*(rng.random(size) < rate).tolist())
        for name, rate in rates.items() for benchmark, size in SIZES.items()
    }  # fmt: skip


def test_seeds_of_an_adapter_are_judged_together():
    rates = {"base": 0.5, "null-focus-1-1": 0.5, "null-focus-1-2": 0.5, "null-focus-2-1": 0.5}
    rates |= {"focus-1": 0.7, "focus-2": 0.7, "focus-3": 0.7, "other-7": 0.9, "focus": 0.1}
    results = _results(rates)
    rows = over_seeds(results)
    found = {(row["variant"], row["benchmark"]): row for row in rows}
    assert {one for one, _ in found} == {"focus", "null-focus"}
    ours = found["focus", "average"]
    assert ours["seeds"] == 3
    assert 0 < ours["low"] < ours["points"] < ours["high"]
    # Benchmarks count alike, however many items they have.
    each = [found["focus", name]["points"] for name in SIZES]
    assert ours["points"] == pytest.approx(np.mean(each))
    control = found["null-focus", "average"]
    assert control["low"] < 0 < control["high"]
    assert f"| focus, 3 | base | average | {ours['points']:+.2f} [" in seeds_table(rows)
    # The same items asked twice are no further evidence.
    for name in rates:
        results[name, "math-hard"] = results[name, "math"]
        results[name, "cruxeval-i"] = results[name, "cruxeval-o"]
    again = {row["benchmark"]: row for row in over_seeds(results) if row["variant"] == "focus"}
    widths = {name: row["high"] - row["low"] for name, row in again.items()}
    two = (widths["math"] ** 2 + widths["cruxeval-o"] ** 2) ** 0.5 / 2
    assert widths["average"] > 0.8 * two
    del results["focus-2", "math"]
    assert ("focus", "average") not in {
        (row["variant"], row["benchmark"]) for row in over_seeds(results)
    }


def test_each_seed_is_compared_with_its_own_random_adapters():
    """Random adapters of other norms do other harm, so that seeds have different floors."""
    rates = {"base": 0.5}
    for seed, norm in ((1, 0.1), (2, 0.4), (3, 0.7)):
        rates |= {f"focus-{seed}": norm + 0.2, f"null-focus-{seed}-1": norm}
        rates[f"null-focus-{seed}-2"] = norm
    rates |= {"maze": 0.3, "null-maze-1": 0.5, "null-maze-2": 0.5, "null-maze-3": 0.5}
    rates |= {"direct": 0.5, "null-direct-1": 0.5, "alone": 0.5}
    rows = against_nulls(_results(rates))
    averaged = {
        (row["variant"], row["seeds"]): row for row in rows if row["benchmark"] == "average"
    }
    assert {key: row["nulls"] for key, row in averaged.items()} == {
        ("focus", 3): 6, ("maze", 1): 3, ("direct", 1): 1,
        ("focus-1", 1): 2, ("focus-2", 1): 2, ("focus-3", 1): 2,
    }  # fmt: skip
    for (name, _), row in averaged.items():
        expected = -20 if name == "maze" else 0 if name == "direct" else 20
        assert row["points"] == pytest.approx(expected, abs=8), name
    assert averaged["focus", 3]["low"] > 0
    assert f"| focus, 3 | null-focus, 6 | average | {averaged['focus', 3]['points']:+.2f} [" in (
        seeds_table(rows)
    )
    lines = verdicts(rows, "tiny-llama", POINTS)
    assert [line.partition(",")[0] for line in lines] == [
        "tiny-llama: maze against 3 random adapters of its norms: average: costs",
        "tiny-llama: direct against 1 random adapter of its norms: average: two random adapters "
        "or more are needed for a verdict",
        "tiny-llama: focus (3 seeds) against 6 random adapters of its norms: average: helps",
    ]
    one = averaged["maze", 1]
    assert f"{one['points']:+.2f} points [{one['low']:+.2f}, {one['high']:+.2f}]" in lines[0]


def test_the_table_marks_the_floor_and_leaves_gaps():
    rows = [
        {
            "variant": "base",
            "benchmark": "math",
            "accuracy": 0.3,
            "low": 0.2,
            "high": 0.4,
            "n": 100,
        },
        {"variant": "base", "benchmark": "aime25", "accuracy": 0.0, "low": 0, "high": 0.1, "n": 30},
        {"variant": "new", "benchmark": "math", "accuracy": 0.5, "low": 0.4, "high": 0.6, "n": 100},
    ]
    text = table(rows, [{"variant": "new", "benchmark": "math", "points": 20.0, "p": 0.001}])
    assert "AIME25 (n = 30) (floor)" in text
    assert "(+20.00*, p = 0.001) | – | – |" in text


def test_a_damaged_line_is_named(tmp_path):
    store = Store(tmp_path / "base")
    store.append("math", [Written("1", "text", 1, True)])
    with open(tmp_path / "base" / "math.written.jsonl", "a") as stream:
        stream.write("damaged\n")
    with pytest.raises(UserError, match="line 2 is damaged"):
        store.written("math")
