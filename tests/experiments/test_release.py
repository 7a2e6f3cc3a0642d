"""Runs that become released checkpoints, with what was measured of them."""

import json
import shutil

import pytest
from safetensors.torch import load_file

from experiments import campaign, release
from focus.training.loop import Trainer
from tests.training.samples import tiny_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a campaign with a language model, tested on test puzzles."""
    folder, patch = tmp_path_factory.mktemp("runs") / "as-is-focus-1", pytest.MonkeyPatch()
    patch.setitem(campaign.STEPS, "sudoku", (1, 2))
    patch.setattr(campaign, "LONGEST", 2)
    trainer = Trainer(tiny_run("sudoku", "tiny-llama", updates=4), folder)
    campaign.note_start(folder, trainer.config, 1)
    trainer.run()
    campaign.test(trainer, folder, ("test",), lambda: False)
    patch.undo()
    return folder


@pytest.fixture
def call(tmp_path, monkeypatch):
    """A function that releases a run as `made`, with a place of its own for what it writes."""
    monkeypatch.setattr(release, "RESULTS", tmp_path)
    monkeypatch.setattr(release, "RELEASES", (tmp_path / "releases",))
    made = tmp_path / "releases" / "made"

    def call(run, *words: str):
        monkeypatch.setattr(release, "releases", lambda: {"made": made} if made.exists() else {})
        monkeypatch.setattr("sys.argv", ["release", str(run), "made", "--trained", "Once.", *words])
        release.main()
        return made, json.loads((tmp_path / "made.json").read_text())

    return call


def test_the_last_weights_of_a_campaign_are_released_with_its_tests(run, call):
    made, figures = call(run)
    tested = json.loads((run / "run.json").read_text())
    assert figures["exact_by_puzzle"] == tested["test"]
    assert set(figures["controls"]) == {"zeroed", "shuffled", "adapter-off"}
    card = (made / "README.md").read_text()
    assert "Validation after 4 updates of the method `focus`" in card
    assert card.endswith("Once.\n")
    for file in ("updater.safetensors", "adapter/adapter_model.safetensors"):
        last, released = (load_file(folder / file) for folder in (run / "final", made))
        assert last.keys() == released.keys()
        assert all(last[name].equal(weight) for name, weight in released.items())


def test_another_run_is_tested_when_it_is_released(run, call, tmp_path):
    plain = tmp_path / "plain"
    shutil.copytree(run, plain, ignore=shutil.ignore_patterns("final", "run.json"))
    made, figures = call(plain, "--steps", "1,2", "--early-stop", "2")
    assert set(figures["exact_by_puzzle"]) == {"1", "2"}
    assert len(figures["early_stop"]) == 1
    best, released = (load_file(f / "updater.safetensors") for f in (plain / "best", made))
    assert all(weight.bfloat16().equal(released[name]) for name, weight in best.items())


def without(*names: str):
    """Leaves figures out of what a campaign has noted of its run."""

    def change(folder) -> None:
        path = folder / "run.json"
        noted = json.loads(path.read_text())
        path.write_text(json.dumps({key: noted[key] for key in noted if key not in names}))

    return change


@pytest.mark.parametrize(
    ("damage", "words", "said"),
    [
        (without("test", "controls"), (), "does not hold a campaign's run with tests on test"),
        (without("n_test"), (), "its files lack 'n_test'"),
        (lambda folder: (folder / "run.json").write_text("{"), (), "run.json"),
        (lambda folder: (folder / "run.json").unlink(), (), "run.json"),
        (lambda folder: (folder / "metrics.jsonl").unlink(), (), "metrics.jsonl"),
        (lambda folder: (folder / "metrics.jsonl").write_text(""), (), "nothing was trained"),
        (lambda folder: (folder / "metrics.jsonl").write_text('{"up'), (), "metrics.jsonl"),
        (lambda folder: None, ("--steps", "1"), "--steps is for a run that is tested now"),
        (lambda folder: None, ("--batch", "1"), "--batch is for a run that is tested now"),
    ],
)
def test_what_cannot_be_released_leaves_what_was(damage, words, said, run, call, tmp_path, capsys):
    made, _ = call(run)
    before = {path.name: path.read_bytes() for path in made.iterdir() if path.is_file()}
    damaged = tmp_path / "damaged"
    shutil.copytree(run, damaged)
    damage(damaged)
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        call(damaged, *words)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert before == {path.name: path.read_bytes() for path in made.iterdir() if path.is_file()}
