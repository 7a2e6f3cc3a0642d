"""The command line: exit codes, one line for what the user can mend, clean JSON."""

import json
import pydoc
import signal
import subprocess
import sys
import time
from importlib.metadata import version

import pytest

import focus
from focus.cli import COMMANDS, SIGNATURES, function_of, main
from focus.recipes import TASKS

GOOD = "question,answer\n1...34....21...3,1234341243212143\n"


def run(capsys, *words):
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_ctrl_c_ends_a_training_that_goes_on_later(tmp_path, capsys):
    words = ["train", "mini-sudoku", "--data", "generated", "--out", str(tmp_path / "run")]
    few = ["--optimizer.updates", "60", "--optimizer.batch", "4", "--save-every", "1"]
    few += ["--eval-rows", "2"]
    handler = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program = f"{handler}from focus.cli import entry; entry()"
    command = [sys.executable, "-c", program, *words, *few]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "run" / ".saved").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert error.splitlines()[-1] == "focus train: stopped"
    assert "Traceback" not in error
    done = json.loads((tmp_path / "run" / "last" / "trainer.json").read_text())["update"]
    assert 1 <= done < 60
    code, out, _ = run(capsys, *words, *few, "--resume")
    assert code == 0
    assert "validation exact" in out


def test_audit_prints_one_json_object(capsys, tmp_path):
    file = tmp_path / "puzzles.csv"
    file.write_text(GOOD)
    code, out, _ = run(capsys, "data", "audit", "--data", str(file), "--task", "sudoku", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["leaks"] == 0
    (result,) = report["results"]
    assert result["rows"] == 1
    assert {"dataset", "rows", "valid", "unique", "canonical", "leaks"} <= set(result)


def test_leaks_and_invalid_rows_end_the_audit_with_code_2(capsys, tmp_path):
    for name in ("train", "test"):
        (tmp_path / f"{name}.csv").write_text(GOOD)
    words = ["data", "audit", "--data", str(tmp_path), "--task", "sudoku"]
    code, out, err = run(capsys, *words, "--json")
    assert (code, json.loads(out)["leaks"]) == (2, 1)
    assert "puzzles in two files: 1, invalid rows: 0" in err
    (tmp_path / "test.csv").write_text(GOOD.replace("2143", "2134"))
    code, out, err = run(capsys, *words)
    assert code == 2
    assert "invalid rows: 1" in err


def test_prepare_generate_show_and_audit_work_together(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("FOCUS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "data", "prepare", "--task", "maze", "--data", "generated", "--side", "20",
               "--out", "here", "--json")[0] == 0  # fmt: skip
    code, out, _ = run(capsys, "data", "generate", "--task", "maze", "--side", "20",
                       "--count", "20", "--seed", "5", "--exclude", "here/maze-hard/test.csv.gz",
                       "--out", "here/maze-hard/extra.csv", "--json")  # fmt: skip
    assert code == 0
    assert json.loads(out)["rows"] == 20
    code, out, _ = run(capsys, "data", "audit", "--data", "here", "--json")
    results = {r["dataset"]: r for r in json.loads(out)["results"]}
    assert results["maze-hard/extra"]["canonical"] == 20
    assert results["maze-hard/test"]["leaks"] == 0
    code, out, _ = run(capsys, "data", "show", "--task", "maze", "--side", "20", "--data", "here",
                       "--split", "train", "--json")  # fmt: skip
    assert len(json.loads(out)["question"]) == 400
    code, out, _ = run(capsys, "data", "show", "--task", "sudoku", "--data", "generated")
    assert code == 0
    assert "|" in out


def test_help_lists_and_explains_every_command(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    assert all(command in out for command in COMMANDS)
    for command in COMMANDS:
        code, out, _ = run(capsys, *command.split(), "--help")
        assert code == 0
        without = ("train", "report", "reproduce", "serve", "backbone install")
        assert command in without or "--json" in out
    assert all(name in run(capsys, "train", "--help")[1] for name in TASKS)
    assert "--optimizer.updates" in run(capsys, "train", "mini-maze", "--help")[1]
    assert run(capsys, "--version")[1].startswith("focus ")


def test_the_table_says_what_the_commands_say():
    for place, summary in COMMANDS.values():
        assert (function_of(place).__doc__ or "").splitlines()[0] == summary
    assert set(SIGNATURES) <= set(COMMANDS)
    assert all(callable(function_of(place)) for place in SIGNATURES.values())


HEAVY = (
    "torch", "torch._dynamo", "transformers", "peft", "matplotlib", "starlette", "uvicorn", "tyro",
)  # fmt: skip


def loaded_by(code: str) -> set[str]:
    """Which of the slow packages a fresh interpreter has loaded after some code."""
    program = f"import sys; {code}; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["data", "--help"], ["improve"]])
def test_a_list_of_commands_loads_none_of_them(words):
    assert loaded_by(f"from focus.cli import main; main({words})") == set()


def test_the_package_loads_nothing_until_it_is_asked():
    assert loaded_by("import focus; dir(focus); focus.__version__") == set()


def test_a_solver_is_imported_without_the_compiler_and_the_language_models():
    assert loaded_by("from focus import Solver") == {"torch"}


def test_help_of_the_package_tells_its_names_and_version():
    text = pydoc.plain(pydoc.render_doc(focus))
    for name in ("class Solver", "class Trainer", "class Maze", "evaluate(", "recipe("):
        assert name in text
    assert focus.__version__ == version("focus-solver")
    assert f"VERSION\n    {focus.__version__}" in text


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["data", "show", "--task", "maze", "--data", "generated"], {"torch", "tyro"}),
        (["train", "mini-sudoku", "--help"], {"torch", "tyro"}),
        (["solve", "--help"], {"torch", "tyro"}),
        (["serve", "--help"], {"tyro"}),
    ],
)
def test_a_command_loads_only_what_it_needs(words, needed):
    assert loaded_by(f"from focus.cli import main; main({words})") == needed
