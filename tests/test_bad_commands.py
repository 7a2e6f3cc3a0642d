"""Command lines that cannot be carried out: one line that says what is wrong, and exit code 2."""

import gzip
import io
import shlex
import shutil

import pytest

from focus.cli import main
from tests.conftest import ASSETS

GOOD = "question,answer\n1...34....21...3,1234341243212143\n"
FILES = {
    "puzzles.csv": GOOD.encode(),
    "header.csv": b"question,answer\n",
    "short.csv": b"question,answer\n1...\n",
    "quote.csv": b'question,answer\n"1...,2\n',
    "twice.csv": GOOD.replace("answer\n", "question\n").encode(),
    "unicode.csv": f"question,answer\n{'é' * 81},{'1' * 81}\n".encode(),
    "void.csv": b"",
    "cut.csv.gz": gzip.compress(50 * GOOD.encode())[:-20],
    "binary.dat": bytes(range(256)),
    "corner.txt": b"S..\n.#\n..G\n",
    "hello.txt": b"hello",
    "hello.json": b"[1]",
}


def read_commands() -> list[tuple[str, str]]:
    """Each command, and what its error must mention."""
    lines = (ASSETS / "bad_commands.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" => ") for line in lines if line and not line.startswith("#")]
    return [(command, mention) for command, mention in pairs]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    shutil.copytree(ASSETS / "data", folder / "data")
    (folder / "empty").mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


def test_there_are_two_hundred_different_ones():
    commands = read_commands()
    assert len(set(commands)) == len(commands) >= 200


@pytest.mark.parametrize(("command", "mention"), read_commands())
def test_a_bad_command_is_answered_with_one_line(
    command, mention, folder, capsys, monkeypatch, tmp_path
):
    monkeypatch.delenv("FOCUS_DATA", raising=False)
    monkeypatch.setenv("FOCUS_CACHE", str(tmp_path))  # nothing is installed
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    before = {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}
    code = main(shlex.split(command))
    out, err = capsys.readouterr()
    assert code == 2, err
    assert mention in err
    assert len(err.splitlines()) == 1
    assert err.startswith("focus")
    assert not out
    assert {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")} == before
