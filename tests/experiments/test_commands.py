"""Commands of `experiments/`: what is wrong with their words is one line; a page lists them all."""

import gzip
import importlib
import re
from pathlib import Path

import pytest

from focus.data.sources import Generated

ROOT = Path(__file__).parents[2]
MODULES = {path.stem: path.read_text() for path in (ROOT / "experiments").glob("*.py")}
COMMANDS = {name for name, text in MODULES.items() if "__main__" in text}


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path):
    """A function that gives the one line with which a command refuses its words."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Generated.__init__, "__defaults__", (0, 50, 20))

    def call(words: str) -> str:
        monkeypatch.setattr("sys.argv", words.split())
        with pytest.raises(SystemExit) as ended:
            importlib.import_module(f"experiments.{words.split()[0]}").main()
        said = capsys.readouterr().err
        assert ended.value.code == 2
        assert said.count("\n") == 1
        return said

    return call


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("campaign table nothing", "no runs of nothing are stored"),
        ("campaign run primary --data nowhere --out out --together 0", "takes a number from 1"),
        ("campaign run primary --data nowhere --out out --updates 0", "takes a number from 1"),
        ("campaign run primary --data nowhere --out out --minutes 0", "takes a number above 0"),
        ("campaign run primary --data nowhere --out out --minutes nan", "takes a number above 0"),
        ("campaign run primary --data nowhere --out out --minutes long", "invalid float value"),
        ("campaign run primary --data nowhere --out out --only nothing", "--only nothing"),
        ("campaign run mini-sudoku --data nowhere --out out", "invalid choice"),
        ("campaign store primary --out nowhere", "no finished run"),
        ("release nowhere made --trained today", "nowhere"),
        ("release nowhere made --trained today --steps 1,x", "numbers with commas"),
        ("memorised sudoku-none --data nowhere --rows 0", "takes a number from 1"),
        ("memorised nowhere --data nowhere", "nowhere"),
        ("by_file", "no such file or folder: nowhere"),
        ("foundations", "no such file or folder: nowhere"),
        ("answer_decay nowhere", "nowhere"),
        ("answer_decay sudoku-trm", "does not decay"),
        ("answer_decay sudoku-none --data nowhere", "nowhere"),
        ("answer_decay sudoku-none --answer-decays 0,x", "numbers with commas"),
        ("larger_mazes maze-none nowhere.csv", "nowhere.csv"),
        ("larger_mazes maze-none nowhere.csv --steps x", "numbers with commas"),
        ("carried_on nowhere", "nowhere"),
        ("gradient_noise nowhere", "nowhere"),
        ("one_step nowhere", "nowhere"),
        ("completions_check nowhere", "nowhere"),
        ("harness_check --data nowhere", "name the folder and the variant"),
        ("harness_check --answers --data nowhere", "nowhere"),
        ("harness_check nowhere base --data nowhere", "nowhere"),
        ("methods --out out --recipe nothing", "nothing"),
        ("methods --out out --store --updates 7", "another budget"),
        ("methods --recipe mini-sudoku", "not stored"),
        ("store_transfer nowhere made", "nowhere"),
        ("transfer_bits nowhere made", "nowhere"),
        ("symmetry_retries nowhere made", "nowhere"),
        ("verdicts sudoku", "unrecognized arguments"),
        ("results_page README.md", "unrecognized arguments"),
        ("frontier_figure here.svg", "unrecognized arguments"),
        ("mini_runs fast", "unrecognized arguments"),
    ],
)
def test_bad_words_are_one_line(refused, monkeypatch, words, problem):
    monkeypatch.setenv("FOCUS_DATA", "nowhere")
    assert problem in refused(words)


def test_files_are_asked_of_the_data_that_the_stored_runs_had(refused, monkeypatch, tmp_path):
    lacking = "no column source; set FOCUS_DATA to a folder with Sudoku-Extreme"
    monkeypatch.delenv("FOCUS_DATA", raising=False)
    assert lacking in refused("by_file")
    few = ROOT / "tests" / "assets" / "data"
    monkeypatch.setenv("FOCUS_DATA", str(few))
    assert lacking in refused("by_file")
    with gzip.open(few / "sudoku-extreme" / "test.csv.gz", "rt") as lines:
        head, *rows = lines.read().splitlines()
    text = "".join(f"{line}\n" for line in (f"{head},source", *(f"{row},here" for row in rows)))
    (tmp_path / "test.csv").write_text(text)
    monkeypatch.setenv("FOCUS_DATA", str(tmp_path))
    assert "the stored runs were tested on 9,000" in refused("by_file")


def test_the_page_of_the_experiments_lists_every_command():
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "experiments" / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(COMMANDS)
