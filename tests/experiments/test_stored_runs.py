"""Figures that are stored from the folders of `focus eval` and `focus transfer`."""

import json
import tarfile

import pytest

from experiments import store_transfer, symmetry_retries, transfer_bits


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


def test_completions_are_kept_as_they_are(tmp_path):
    run, archive = tmp_path / "run", tmp_path / "kept.tar.xz"
    (run / "base").mkdir(parents=True)
    (run / "base" / "settings.json").write_text("{}")
    (run / "base" / "math.written.jsonl").write_text('{"id": "1"}\n')
    (run / "base" / "math.jsonl").write_text("verdicts, which are made again")
    store_transfer.keep_completions(run, archive)
    first = archive.read_bytes()
    (run / "base" / "settings.json").touch()
    store_transfer.keep_completions(run, archive)
    assert archive.read_bytes() == first
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "again", filter="data")
    kept = sorted(file.name for file in (tmp_path / "again" / "base").iterdir())
    assert kept == ["math.written.jsonl", "settings.json"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again", "kept.tar.xz", "run"]
