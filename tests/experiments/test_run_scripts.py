"""Scripts of `runs/`: every command that they call is there, and takes their flags."""

import argparse
import importlib
import os
import subprocess
from pathlib import Path

import pytest

from experiments.stored import stored_results
from experiments.studies import STUDIES
from focus import cli
from focus.model.checkpoint import releases

ROOT = Path(__file__).parents[2]
NOTE = """#!/bin/sh
printf '%s\\037' "${0##*/}" "$@" >> "$CALLS" && echo >> "$CALLS"
"""


def calls(script: Path, folder: Path, *more: str) -> list[list[str]]:
    """The commands that a script calls, noted in place of being run."""
    programs, noted = folder / "programs", folder / "calls"
    programs.mkdir()
    for name in ("focus", "python"):
        (programs / name).write_text(NOTE)
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    surroundings = {**os.environ, "PATH": path, "CALLS": str(noted), "FOCUS_DATA": "DIR"}
    words = ["maze-none"] if script.stem == "larger_mazes" else more
    subprocess.run([script, *words], cwd=folder, env=surroundings, check=True)
    return [line.split("\037")[:-1] for line in noted.read_text().splitlines()]


class ReadError(Exception):
    """The words of a command have been read."""


@pytest.mark.parametrize("script", sorted((ROOT / "runs").glob("*.sh")), ids=lambda p: p.stem)
def test_the_commands_of_a_script_take_its_flags(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    parse, parse_args = cli._parse, argparse.ArgumentParser.parse_args

    def read(name, words):
        parse(name, words)
        raise ReadError

    def read_args(parser):
        parse_args(parser)
        raise ReadError

    monkeypatch.setattr(cli, "_parse", read)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", read_args)
    called = calls(script, tmp_path)
    assert called
    for words in called:  # focus COMMAND ... or python -m MODULE ...
        ours = words[0] == "focus"
        monkeypatch.setattr("sys.argv", words if ours else words[2:])
        main = cli.main if ours else importlib.import_module(words[2]).main
        with pytest.raises(ReadError):
            main()


def test_every_adapter_of_the_sweep_is_measured(tmp_path):
    called = calls(ROOT / "runs" / "adapter_rates.sh", tmp_path, "made")
    finals = {
        f"{name.removesuffix('-focus-1')}=made/runs/{name}/final"
        for name, _ in STUDIES["adapter-rates"].runs("")
    }
    transfers = [words for words in called if words[:2] == ["focus", "transfer"]]
    assert len(transfers) == 3
    for words in transfers:
        assert set(words[2 : words.index("--backbone")]) == {"base", *finals}


def test_table_1_has_all_of_its_studies(tmp_path):
    called = calls(ROOT / "runs" / "table1.sh", tmp_path)
    assert called[-1][:4] == ["python", "-m", "experiments.campaign", "table"]
    studies = {name for name in STUDIES if name.startswith("table1")}
    assert set(called[-1][4:]) == studies
    for part in ("run", "store"):
        assert {words[4] for words in called if words[3] == part} == studies


@pytest.mark.parametrize(
    ("script", "names", "with_nulls"),
    [
        ("transfer_adapters", ["focus-1", "focus-2", "focus-3", "direct", "recurrent"], 3),
        ("transfer_full", ["focus-full"], 1),  # their bits alone
    ],
)
def test_adapters_are_the_last_weights_of_runs_that_are_in_the_studies(
    script, names, with_nulls, tmp_path
):
    runs = {f"{study}/{name}/final" for study, of in STUDIES.items() for name, _ in of.runs("")}
    called = calls(ROOT / "runs" / f"{script}.sh", tmp_path, "made")
    transfers = [words for words in called if words[:2] == ["focus", "transfer"]]
    assert sorted(words.count("--bits") for words in transfers) == [0, 0, 1]
    assert sum("null" in words for words in transfers) == with_nulls
    for words in transfers:
        adapters = dict(word.split("=") for word in words if "=" in word)
        assert list(adapters) == names
        assert {path.removeprefix("made/") for path in adapters.values()} <= runs
        assert "base" in words


def test_the_card_of_a_release_says_what_its_script_says(tmp_path):
    called = calls(ROOT / "runs" / "table1.sh", tmp_path, "made")
    (words,) = [words for words in called if words[1:3] == ["-m", "experiments.release"]]
    _, _, _, run, name, _, trained = words
    study, of_study = run.split("/")[1:]
    assert of_study in dict(STUDIES[study].runs(""))
    assert stored_results(name)["trained"] == trained
    assert (releases()[name] / "README.md").read_text().endswith(f"{trained}\n")


def test_a_script_of_qwen_takes_either_size(tmp_path):
    called = calls(ROOT / "runs" / "transfer_qwen.sh", tmp_path, "qwen2.5-coder-1.5b")
    assert len(called) == 6
    assert all("1.5b" in " ".join(words) and "0.5b" not in " ".join(words) for words in called)
