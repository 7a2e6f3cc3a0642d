"""Every command in the documents' code blocks runs: as it stands, or made small for a CPU.

Training gets few updates and a run of its own folder, GPU recipes and large models give way to mini
ones, placeholders to small files, of real data where it is there. Whatever a rule changes is in
`SMALLER`.
"""

import gzip
import importlib.util
import itertools
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from focus.cli import main
from focus.data.sources import Generated
from focus.errors import UserError
from focus.export.runtime import find_runtime
from focus.model.install import installed

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page.name not in ("LOG.md", "cli.md")]
BLOCK = r"^```(\w*)\n(.*?)^```$"
FEW = (
    "--optimizer.updates 2 --optimizer.batch 4 --optimizer.accumulate 1 "
    "--eval-every 2 --save-every 2 --eval-rows 4"
)
# What stands in for a part of a command, in order.
SMALLER = [
    (r"^uvx --from focus-solver focus", "focus"),  # tests/test_wheel.py installs the wheel
    (r" --report-to trackio", ""),  # an extra; tests/training/test_trackers.py
    (r"^torchrun .* -m focus", "focus"),  # several processes have tests of their own
    (r"OWNER/NAME|/path/to/model", "tiny-llama"),
    (r"/(smollm2-135m|qwen[23]\S+b)\b(?=.* --data DIR|.* --out)", "/tiny-llama"),
    (r"SHARED/", "runs-out/"),
    (r"^(focus train .*?) --out \S+", r"\1"),
    (r"^(focus train .*?)( --optimizer\.\S+ \S+| --eval-\S+ \S+)+", r"\1"),
    (r"^(focus train trm-.*)", rf"\1 {FEW} --eval-steps 1 --out own/%d"),
    (r"^(focus train trm-maze-quick.*)", r"\1 --solver.trm.width 64 --method small"),
    (r"^(focus train (?!trm-).*)", rf"\1 {FEW} --eval-steps 2 --out own/%d"),
    (
        r"^(focus train (trm-)?sudoku(?!-quick)\b.*)",
        r"\1 --corpus.sources 3 --corpus.symmetries 1 --corpus.synthetic 0",
    ),
    (r"^(focus train .*) --resume(.*)", r"\1\2"),
    (r"^focus bench train sudoku-quick --data DIR", "focus bench train mini-sudoku --repeats 1"),
    (r"(--mode neighbourhood .*) --count \d+", r"\1 --count 4"),
    (r"--count 1000\b", "--count 20"),
    (r"--protocol paper", "--protocol standard"),  # needs a large corpus; tested on its own
    (r"--limit [25]0\b", "--limit 2"),
    (r"^(focus transfer (?!gold).*)", r"\1 --max-tokens 4"),
    (r"^(focus transfer (?!.*--limit).*)", r"\1 --limit 2"),
    (r"--limit 100", "--limit 2"),
    (r"^(focus transfer .*) --json", r"\1 --out own/%d --json"),
    (r"^(focus transfer gold .*)", r"\1 --out own/%d"),
    (r"^(focus reproduce (?!.*--dry-run).*)", r"\1 --dry-run"),
    (r"^(focus export page \S+)$", r"\1 --checkpoint runs-out/mini-sudoku"),
    (r"CHECKPOINT", "runs-out/lm"),
    (r"^(focus serve .*) --port 0|^(focus serve.*)", r"\1\2 --port 0"),
]


def documented() -> list[str]:
    """The command lines of all code blocks; of those that are equal when small, one."""
    found: dict[str, str] = {}
    for page in PAGES:
        found_here = re.findall(BLOCK, page.read_text(), re.DOTALL | re.M)
        for block in (text for language, text in found_here if language in ("", "sh")):
            for line in block.replace("\\\n", " ").splitlines():
                if command := " ".join(re.sub(r"\s#.*", "", line).split()):
                    found.setdefault(smaller(command, 0), command)
    return list(found.values())


def smaller(command: str, number: int) -> str:
    for pattern, stand_in in SMALLER:
        command = re.sub(pattern, stand_in, command)
    return command.replace("%d", str(number))


COMMANDS = documented()


@pytest.fixture(scope="module")
def place(tmp_path_factory, any_data_folder):
    """A working folder with little data (DIR) and small runs under the documents' names."""
    folder = tmp_path_factory.mktemp("documents")
    for name in ("aime", "cruxeval", "math"):
        shutil.copytree(any_data_folder / name, folder / "DIR" / name)
    for file, rows in {
        "sudoku-extreme/train": 60, "sudoku-extreme/test": 60, "sudoku-extreme/extra": 60,
        "maze-hard/train": 30, "maze-hard/test": 10,
    }.items():  # fmt: skip
        path = folder / "DIR" / f"{file}.csv"
        path.parent.mkdir(exist_ok=True)
        with gzip.open(any_data_folder / f"{file}.csv.gz", "rt") as lines:
            path.write_text("".join(itertools.islice(lines, rows + 1)))
    runs = {"mini-sudoku": "mini-sudoku", "maze": "mini-maze", "lm": "mini-sudoku/tiny-llama"}
    for name, recipe in runs.items():
        words = f"train {recipe} {FEW} --eval-steps 2 --data generated"
        assert main([*words.split(), "--out", str(folder / "runs-out" / name)]) == 0
    for name in ("mini", "mine", "focus", "baseline", "try"):
        source = "lm" if name == "try" else "mini-sudoku"
        shutil.copytree(folder / "runs-out" / source, folder / "runs-out" / name)
    return folder


def latin_squares(folder: Path, monkeypatch) -> None:
    """Install the example of "Add a task" as its page tells."""
    info = folder / "latin_squares-0.1.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "docs" / "examples" / "latin_squares.py", folder)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: latin-squares\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[focus.tasks]\nlatin = latin_squares:LatinSquares\n")
    monkeypatch.syspath_prepend(folder)


def parameters() -> list:
    """Commands of ours; those that take a minute wait for make test-all."""
    ours = [command for command in COMMANDS if re.match("focus|torchrun|uvx", command)]
    marks = {True: [pytest.mark.long], False: []}
    return [pytest.param(command, marks=marks["neighbourhood" in command]) for command in ours]


@pytest.mark.parametrize("command", parameters())
def test_it_runs(command, place, monkeypatch, request):
    monkeypatch.chdir(place)
    monkeypatch.setenv("FOCUS_DATA", str(place / "DIR"))
    if "smollm2" in command or re.match(r"focus serve$", command):
        request.getfixturevalue("smollm2")
    if command.startswith("focus export page"):
        onnxruntime_web()
    if command.startswith("focus backbone install qwen") and installed(command.split()[3]) is None:
        pytest.skip("a test does not download that much")
    if "latin" in command:
        latin_squares(place / "site", monkeypatch)
        monkeypatch.setattr(Generated.__init__, "__defaults__", (0, 60, 20))  # its search is slow
    if (
        re.match(r"focus (eval|solve) .*runs-out/latin", command)
        and not Path("runs-out/latin").exists()
    ):
        assert main(["train", "latin", *FEW.split(), "--out", "runs-out/latin"]) == 0
    words = shlex.split(smaller(command, COMMANDS.index(command)))
    if words[1] == "serve":
        assert serves(words[1:])
    else:
        assert main(words[1:]) == 0


@pytest.mark.long
def test_every_table_and_figure_can_be_made_from_nothing(tmp_path, monkeypatch, any_data_folder):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOCUS_DATA", str(any_data_folder))
    assert main(["reproduce", "all", "--scale", "mini"]) == 0


def onnxruntime_web() -> None:
    """Skipped where no npm registry can be reached."""
    try:
        find_runtime()
    except UserError as error:
        pytest.skip(str(error))


def python_of_pages() -> dict[str, str]:
    """The Python blocks of each page that has some, one after the other."""
    found = {page: re.findall(BLOCK, page.read_text(), re.DOTALL | re.M) for page in PAGES}
    return {
        page.name: code for page, blocks in found.items()
        if (code := "\n".join(text for language, text in blocks if language == "python"))
    }  # fmt: skip


@pytest.mark.parametrize(("page", "code"), python_of_pages().items())
def test_the_python_of_a_page_runs(page, code, place, monkeypatch, request):
    monkeypatch.chdir(place)
    if "/path/to/model" in code or "HuggingFaceTB" in code:
        for name in ("/path/to/model", "HuggingFaceTB/SmolLM2-135M-Instruct"):
            code = code.replace(name, str(request.getfixturevalue("smollm2")))
        # An adapter of that model, in place of a run with it.
        code = code.replace("runs-out/lm/best", str(ROOT / "releases/sudoku-smollm2"))
    if "onnx-out" in code:
        assert main(["export", "onnx", "sudoku-none", "--out", "onnx-out"]) == 0
    exec(compile(code, page, "exec"), {"__name__": "page"})


def test_modules_that_pages_name_exist():
    for page in PAGES:
        for name in re.findall(r"python -m ([\w.]+)", page.read_text()):
            assert importlib.util.find_spec(name), (page.name, name)


def serves(words: list[str]) -> bool:
    """Whether the page comes up."""
    program = [sys.executable, "-m", "focus", *words]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().split()[0]
            with urllib.request.urlopen(address) as page:
                return b"Watch a repair" in page.read()
        finally:
            server.kill()


def test_make_has_the_documented_targets():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert {c.split()[1] for c in COMMANDS if c.startswith("make ")} <= targets


def test_nothing_else_is_documented():
    """A command of another kind needs a test of its own."""
    others = (
        r"git clone REPOSITORY ", r"\. \.venv/bin/activate$", r"pip install [\"']\.\[slurm\][\"']$",
        r"python -m experiments\.(campaign list|verdicts)$",  # tests/experiments
        r"uvx --from focus-solver focus ", r"pip install (focus-solver|'focus-solver\[trackio\]')$",
    )  # fmt: skip
    known = "|".join((r"focus |torchrun |make ", *others))
    assert [command for command in COMMANDS if not re.match(known, command)] == []


def test_flags_named_in_the_text_exist():
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text()
    known = set(re.findall(r"--[\w.-]+", reference)) | {"--help", "--version"}
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.M)
        for command in re.findall(r"`(focus [^`]+)`", text):
            assert set(re.findall(r"--[\w.-]+", command)) <= known, (page.name, command)
