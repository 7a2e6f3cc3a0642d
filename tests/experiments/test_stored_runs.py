"""Figures that are stored from the folders of `focus eval` and `focus transfer`."""

import io
import json
import random
import re
import string
import tarfile

import numpy as np
import pytest

from experiments import (
    held_out,
    store_transfer,
    symmetry_retries,
    transfer_bits,
    transfer_tables,
)
from focus.data.table import read_table, write_table
from focus.errors import UserError
from focus.evaluation.transfer import AVERAGED, BENCHMARKS
from focus.tasks import Sudoku


@pytest.fixture
def call(tmp_path, monkeypatch):
    """A function that runs a script on words, with a place of its own for what it stores."""
    results = tmp_path / "results"
    results.mkdir()
    for script in (transfer_bits, store_transfer):
        monkeypatch.setattr(script, "RESULTS", results)
    monkeypatch.setattr(symmetry_retries, "STORED", results / "symmetry-retries.json")

    def run(script, *words) -> None:
        monkeypatch.setattr("sys.argv", ["script", *map(str, words)])
        script.main()

    return run


def evaluated(folder, retries: int, **about) -> None:
    """An evaluation of four puzzles, of which one is never solved."""
    folder.mkdir(exist_ok=True)
    about = {**about, "symmetry_retries": retries} if retries else about
    (folder / "results.json").write_text(json.dumps({"results": [], **about}))
    lines = [
        {"id": n, "steps": 8, "exact": used < 3, "symmetry_retries": used, "taken": 8 * (1 + used)}
        for n, used in enumerate((0, 0, 1, 3))
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "predictions.jsonl").write_text(text)


def test_retries_are_counted_from_an_evaluation(tmp_path, call):
    run, path = tmp_path / "run", tmp_path / "results" / "symmetry-retries.json"
    evaluated(run, 3)
    call(symmetry_retries, run, "made")
    (plain,) = json.loads(path.read_text())
    assert [row["symmetry_retries"] for row in plain["results"]] == [0, 1, 2, 3]
    assert [row["exact"] for row in plain["results"]] == [0.5, 0.75, 0.75, 0.75]
    assert [row["rollouts"] for row in plain["results"]] == [1, 1.5, 1.75, 2]
    assert (plain["left"], "taken" in plain) == ([3], False)
    evaluated(run, 3, early_stop=True)
    for _ in range(2):  # once more replaces its own figures alone
        call(symmetry_retries, run, "made")
    both = json.loads(path.read_text())
    assert [one["early_stop"] for one in both] == [False, True]
    assert both[1]["taken"] == 16
    assert symmetry_retries.table(both).count("`made`") == 8


def test_a_folder_that_is_something_else_is_one_line(tmp_path, call, capsys):
    evaluated(tmp_path / "plain", 0)
    (tmp_path / "plain" / "bits.json").write_text("{}")
    (tmp_path / "plain" / "base").mkdir()
    (tmp_path / "plain" / "base" / "settings.json").write_text("{}")
    for script in (symmetry_retries, transfer_bits, store_transfer):
        for folder in ("plain", "nowhere"):
            with pytest.raises(SystemExit) as ended:
                call(script, tmp_path / folder, "made")
            said = capsys.readouterr().err
            assert (ended.value.code, said.count("\n")) == (2, 1), (script.__name__, said)


def completed(run, *variants) -> None:
    """A run whose completions are noise, which takes its size when it is packed."""
    rng = random.Random(0)
    for variant in variants:
        (run / variant).mkdir(parents=True)
        (run / variant / "settings.json").write_text("{}")
        text = "".join(rng.choices(string.ascii_letters, k=4000))
        (run / variant / "math.written.jsonl").write_text(f'{{"id": "1", "completion": "{text}"}}')
        (run / variant / "math.jsonl").write_text("verdicts, which are made again")


def test_figures_of_fewer_variants_do_not_take_the_place_of_stored_ones(tmp_path):
    path = tmp_path / "made.json"
    two = {"results": [{"variant": "base"}, {"variant": "focus-1"}]}
    store_transfer.check_no_variant_is_lost(path, two)
    path.write_text(json.dumps(two))
    store_transfer.check_no_variant_is_lost(path, two)
    with pytest.raises(UserError, match=r"made\.json has focus-1 too"):
        store_transfer.check_no_variant_is_lost(path, {"results": [{"variant": "base"}]})


def test_a_test_file_is_made_again_from_a_larger_one(
    tmp_path, call, monkeypatch, capsys, any_data_folder
):
    task = Sudoku()
    corpus = read_table(any_data_folder / "sudoku-extreme" / "train.csv.gz", task)
    write_table(tmp_path / "corpus.csv", corpus, task)
    write_table(tmp_path / "test.csv", corpus[np.array([7, 2, 5])], task)
    monkeypatch.setattr(held_out, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(
        held_out, "stored_results",
        lambda name: json.loads((tmp_path / f"results/{name}.json").read_text()),
    )  # fmt: skip
    call(held_out, "store", tmp_path / "test.csv")
    call(held_out, "find", tmp_path / "corpus.csv", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "test.csv").read_text()
    write_table(tmp_path / "corpus.csv", corpus[:6], task)
    with pytest.raises(SystemExit, match="2"):
        call(held_out, "find", tmp_path / "corpus.csv", tmp_path / "again.csv")
    assert "lacks 1 of the 3 puzzles" in capsys.readouterr().err


def test_our_test_puzzles_are_those_that_are_named(data_folder):
    test = read_table(data_folder / "sudoku-extreme" / "test.csv.gz", Sudoku())
    assert held_out.hashes(test) == held_out.stored_hashes()


def test_completions_are_kept_as_they_are(tmp_path):
    run, archive = tmp_path / "run", tmp_path / "kept.tar.xz"
    completed(run, "base")
    store_transfer.keep_completions(run, archive, ["base"], 1e6)
    first = archive.read_bytes()
    (run / "base" / "settings.json").touch()
    assert store_transfer.keep_completions(run, archive, ["base"], 1e6) == (len(first), [])
    assert archive.read_bytes() == first
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "again", filter="data")
    kept = sorted(file.name for file in (tmp_path / "again" / "base").iterdir())
    assert kept == ["math.written.jsonl", "settings.json"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again", "kept.tar.xz", "run"]


def test_variants_whose_completions_do_not_fit_are_named(tmp_path):
    run, archive = tmp_path / "run", tmp_path / "kept.tar.xz"
    completed(run, "base", "focus-1", "null-focus-1-1")
    variants = ["base", "null-focus-1-1", "focus-1"]  # as the run has them
    size, left_out = store_transfer.keep_completions(run, archive, variants, 8000)
    assert size == archive.stat().st_size <= 8000
    assert left_out == ["focus-1"]
    with tarfile.open(archive) as packed:
        assert {name.split("/")[0] for name in packed.getnames()} == set(variants[:2])
    with pytest.raises(UserError, match="completions of base alone take"):
        store_transfer.keep_completions(run, archive, variants, 1000)


def test_a_full_disk_leaves_the_archive_that_was_there(tmp_path, monkeypatch):
    run, archive = tmp_path / "run", tmp_path / "kept.tar.xz"
    completed(run, "base")
    archive.write_text("of an earlier run")

    inner = store_transfer._pack

    def pack(run, variants, stream):
        with open("/dev/full", "wb", buffering=0) as full:
            inner(run, variants, stream if isinstance(stream, io.BytesIO) else full)

    monkeypatch.setattr(store_transfer, "_pack", pack)
    with pytest.raises(UserError, match=r"cannot write .*No space left"):
        store_transfer.keep_completions(run, archive, ["base"], 1e6)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["kept.tar.xz", "run"]
    assert archive.read_text() == "of an earlier run"


def test_what_is_kept_is_said_in_a_line(tmp_path, call, capsys):
    run = tmp_path / "run"
    completed(run, "base", "focus-1")
    for variant in ("base", "focus-1"):
        (run / variant / "math.jsonl").write_text(json.dumps({
            "id": "1", "reference": "1", "extracted": "1", "correct": True, "why": "",
            "completion": "1", "tokens": 1, "finished": True,
        }) + "\n")  # fmt: skip
        settings = {"max_tokens": 4, "thinking": False, "precision": "bfloat16"}
        (run / variant / "settings.json").write_text(json.dumps(settings))
    rows = [{"variant": name, "benchmark": "math"} for name in ("base", "focus-1")]
    (run / "results.json").write_text(json.dumps({"results": rows}))
    call(store_transfer, run, "made", "--completions", "--most-mb", "0.005")
    assert re.fullmatch(r"made\.tar\.xz: 0\.0 MB; left out: focus-1\n", capsys.readouterr().out)


@pytest.mark.parametrize("backbone", ["qwen2.5-coder-1.5b", "smollm2-135m"])
@pytest.mark.parametrize("benchmarks", [tuple(BENCHMARKS), AVERAGED])
def test_every_language_model_has_tables(benchmarks, backbone, tmp_path, monkeypatch):
    """Of all benchmarks, or of those that were measured."""
    of_one = {"accuracy": 0.2, "low": 0.1, "high": 0.3, "n": 30, "finished": 1.0, "answered": 1.0}
    rows = [
        {"variant": "base", "benchmark": name, **of_one, "repeats": 0.0, "tokens": 9.0}
        for name in benchmarks
    ]
    figures = {
        f"transfer-{backbone}.json": {"backbone": backbone, "results": rows, "compared": []},
        f"transfer-bits-{backbone}.json": {
            "results": [{
                "variant": "base", "benchmark": "math", "n": 9, "bits_per_token": 1.5, "low": 1.0,
                "high": 2.0, "end_bits": 0.5, "end_low": 0.4, "end_high": 0.6,
            }],
            "compared": [],
        },
    }  # fmt: skip
    for name, content in figures.items():
        (tmp_path / name).write_text(json.dumps(content))
    monkeypatch.setattr("experiments.stored.RESULTS", tmp_path)
    monkeypatch.setattr(transfer_tables, "RESULTS", tmp_path)
    title = {"qwen2.5-coder-1.5b": "Qwen2.5-Coder-1.5B", "smollm2-135m": "SmolLM2-135M"}[backbone]
    shown = transfer_tables.transfer(backbone)
    assert f"| {title} as it is | 20.00 " in shown
    assert shown.endswith("| 20.00 |")  # the average of four
    assert ("AIME" in shown) == (len(benchmarks) == len(BENCHMARKS))
    assert f"| {title} as it is | MATH | 100.0 % " in transfer_tables.transfer_ends(backbone)
    assert f"| {backbone} | MATH (9) | base | 1.500 " in transfer_tables.transfer_bits()
