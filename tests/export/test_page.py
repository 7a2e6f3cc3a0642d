"""The page without a server, in a real browser: it solves alone, also offline."""

import functools
import http.server
import importlib
import json
import shutil
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from focus.cli import main
from focus.errors import UserError
from focus.model.solver import Solver
from focus.tasks import Maze, Sudoku
from tests.web.samples import store, untrained

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("selenium")
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from focus.export import runtime
from focus.export.page import check_solver
from tests.web.test_browser import Page, browser, network  # noqa: F401

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def engine() -> Path:
    """The files of onnxruntime-web."""
    try:
        return runtime.find_runtime(say=lambda text: None)
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def folder(engine, tmp_path_factory) -> Path:
    """The page with the released solvers."""
    path = tmp_path_factory.mktemp("page") / "page"
    assert main(["export", "page", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def pair(engine, tmp_path_factory) -> Path:
    """The page with two solvers of one kind and name."""
    path = tmp_path_factory.mktemp("pair")
    checkpoint = str(store(untrained("sudoku"), path))
    words = ["--checkpoint", checkpoint, checkpoint]
    assert main(["export", "page", str(path / "page"), *words]) == 0
    return path / "page"


@dataclass
class Served:
    """A static host, and what it was asked for."""

    address: str = ""
    asked: dict[str, int] = field(default_factory=dict)  # path -> status


@contextmanager
def static_host(folder: Path) -> Iterator[Served]:
    served = Served()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, code="-", size="-"):
            served.asked[self.path] = int(code)

    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        served.address = f"http://127.0.0.1:{server.server_address[1]}/"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def served(folder):
    with static_host(folder) as host:
        yield host


def write(page: Page, kind: str, text: str) -> None:
    """Put a puzzle into the grid by paste."""
    page.choose(kind)
    page.paste(text)
    page.wait(lambda: page.entered() == "".join(text.split("\n")))


def solve(page: Page, steps: int) -> None:
    page.browser.execute_script(f"document.getElementById('steps').value = {steps}")
    page.find("#solve").click()
    page.wait(lambda: page.all(".scrub") and not page.all("#live"))
    page.scrub(Keys.END)


def example(folder: Path, kind: str, level: str, number: int = 0) -> str:
    return json.loads((folder / "solvers.json").read_text())["puzzles"][kind][level][number]


def test_it_is_small(folder):
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert sum(map(len, files)) < 25 * MEGABYTE
    assert sum(len(zlib.compress(content)) for content in files) < 12 * MEGABYTE


def test_an_extreme_sudoku_is_watched_and_solved_as_on_the_command_line(browser, folder, served):  # noqa: F811
    page = Page(browser, served.address)
    network(browser)
    puzzle = example(folder, "sudoku-9", "extreme")
    write(page, "sudoku-9", puzzle)
    page.browser.execute_script("document.getElementById('steps').value = 16")
    page.find("#solve").click()
    page.wait(lambda: page.all("#live") and "step" in page.find("#live").text)  # while it computes
    page.wait(lambda: page.all(".scrub") and not page.all("#live"))
    page.scrub(Keys.END)
    answer = Solver.from_pretrained("sudoku-none").solve(puzzle, 16)
    assert page.answer() == answer
    assert Sudoku().judge(*codes(Sudoku(), puzzle, answer)).valid.all()
    assert "solved at step" in page.find(".said").text
    page.scrub(Keys.HOME)
    assert page.answer() == puzzle
    # Nothing but files of the folder was asked for, by the page or by its workers.
    assert all(url.startswith((served.address, "data:")) for url in network(browser))
    assert {"/worker.js", "/sudoku-none/step.onnx"} < set(served.asked)
    assert set(served.asked.values()) <= {200, 304}
    assert page.complaints() == []


def codes(task, puzzle: str, answer: str) -> tuple[np.ndarray, np.ndarray]:
    return task.encode_questions([puzzle]), task.encode_answers([answer])


def test_a_maze_is_solved_on_a_narrow_screen(browser, folder, served):  # noqa: F811
    page = Page(browser, served.address)
    page.size(360)
    puzzle = example(folder, "maze-30", "hard")
    lines = "\n".join(puzzle[start : start + 30] for start in range(0, 900, 30))
    write(page, "maze-30", lines)
    solve(page, 6)
    answer = Solver.from_pretrained("maze-none").solve(puzzle, 6)
    assert page.answer() == answer
    assert Maze().judge(*codes(Maze(), puzzle, answer)).valid.all()
    assert "solved at step" in page.find(".said").text
    assert page.fits(360)
    page.choose("sudoku-9")
    assert page.fits(320)
    assert page.complaints() == []


def test_a_wrong_puzzle_is_told_in_the_words_of_the_command_line(browser, served):  # noqa: F811
    page = Page(browser, served.address)
    page.choose("sudoku-9")
    page.paste("11" + "." * 79)
    page.wait(lambda: "1 stands twice in row 1" in page.find("#message").text)
    page.paste("." * 81)
    page.wait(lambda: not page.entered().strip("."))
    page.find("#solve").click()
    page.wait(lambda: "several solutions; it needs more givens" in page.find("#message").text)
    closed = "S#G" + "#" * 897
    for task, kind, text in (
        (Sudoku(), "sudoku-9", "12"), (Sudoku(), "sudoku-9", "x" + "." * 80),
        (Sudoku(), "sudoku-9", "." * 40 + "7" + "." * 8 + "7" + "." * 31),
        (Sudoku(), "sudoku-9", "5" + "." * 9 + "5" + "." * 70),
        (Sudoku(), "sudoku-9", "12345678." + "." * 8 + "9" + "." * 63),
        (Maze(), "maze-30", ""), (Maze(), "maze-30", "#\n#"), (Maze(), "maze-30", "# S"),
        (Maze(), "maze-30", "\n".join(["#" * 30] * 29 + ["#" * 31])),
        (Maze(), "maze-30", "#" * 900), (Maze(), "maze-30", closed),
        (Maze(), "maze-30", "x" + closed[1:]),
    ):  # fmt: skip
        with pytest.raises(UserError) as refusal:
            task.solve(task.parse(text))
        assert rules(page, kind, text) == str(refusal.value)


def rules(page: Page, kind: str, text: str) -> str:
    """The answer that the page finds by search, or why there is none."""
    return page.browser.execute_async_script(
        """
        const [name, text, done] = arguments;
        Focus.ask("api/checkpoints").then(({ kinds }) => {
          const kind = kinds.find(({ kind }) => kind === name);
          try {
            done(Focus.rules.solve(kind, Focus.rules.parse(kind, text)));
          } catch (error) { done(error.message); }
        });
        """,
        kind,
        text,
    )


def test_the_page_searches_for_the_answers_that_the_command_line_finds(browser, folder, served):  # noqa: F811
    page = Page(browser, served.address)
    for task, kind in ((Sudoku(), "sudoku-9"), (Maze(), "maze-30")):
        for level in ("easy", "medium", "hard", "extreme"):
            puzzle = example(folder, kind, level, 1)
            assert rules(page, kind, puzzle) == task.answer_text(task.solve(task.parse(puzzle)))


def test_a_stopped_repair_shows_what_was_found(browser, served):  # noqa: F811
    page = Page(browser, served.address)
    page.choose("sudoku-9")
    page.browser.execute_script("document.getElementById('steps').value = 512")
    page.find("#solve").click()
    page.wait(lambda: page.all("#live") and page.find("#live").text.startswith("step 1"))
    page.find("#cancel").click()
    page.wait(lambda: page.all(".scrub") and not page.all("#live"))
    assert 1 <= int(page.find(".scrub").get_attribute("max")) < 512
    solve(page, 2)  # a worker that was ended is started again
    assert page.find(".count").text == "2 / 2"
    page.browser.execute_script("document.getElementById('steps').value = 9999")
    page.find("#solve").click()
    page.wait(lambda: "steps is a number from 1 to 512, not 9999" in page.find("#message").text)


def visit(browser, address: str) -> None:  # noqa: F811
    """Stay on a page until all of it is kept."""
    Page(browser, address).wait(
        lambda: browser.execute_async_script(
            "navigator.serviceWorker.ready"
            ".then(({ active }) => arguments[0](active.state === 'activated'))"
        )
    )


def test_after_a_visit_it_works_without_the_host(browser, folder, pair, tmp_path):  # noqa: F811
    shutil.copytree(folder, tmp_path / "one")
    shutil.copytree(pair, tmp_path / "two")
    with static_host(tmp_path) as served:
        visit(browser, f"{served.address}one/")
        visit(browser, f"{served.address}two/")  # neither takes the place of the other
    page = Page(browser, f"{served.address}one/")  # nobody answers at this address any more
    page.choose("sudoku-9")
    solve(page, 3)
    assert page.find(".count").text == "3 / 3"
    page = Page(browser, f"{served.address}two/")
    page.choose("sudoku-4")
    Select(page.find("#first")).select_by_value("tiny-sudoku-0 (2)")
    solve(page, 3)
    assert page.find(".count").text == "3 / 3"


def test_of_two_solvers_both_are_shown_unless_the_first_is_stopped(browser, pair):  # noqa: F811
    with static_host(pair) as served:
        page = Page(browser, served.address)
        page.choose("sudoku-4")
        Select(page.find("#second")).select_by_value("tiny-sudoku-0 (2)")
        solve(page, 2)
        assert len(page.all(".player .repair")) == 2
        for stop, repairs in ((9, 2), (2, 1)):
            found, saved = browser.execute_async_script(_WATCHED, page.entered(), stop)
            assert found == repairs
            assert not saved  # nothing could be saved before all of it was there


_WATCHED = """
const [puzzle, stop, done] = arguments, aborter = new AbortController();
const checkpoints = [...document.getElementById("first").options].map(({ value }) => value);
let saved = false;
new MutationObserver(() => {
  saved ||= !document.getElementById("save").hidden;
  if (document.getElementById("live").textContent.startsWith(`step ${stop}`)) aborter.abort();
}).observe(document.getElementById("player"), { childList: true, subtree: true });
Focus.ask("api/solve", { checkpoints, puzzle, steps: 4 }, aborter.signal)
  .then(({ repairs }) => done([repairs.length, saved]));
"""


def test_a_page_from_a_file_says_how_to_serve_it(browser, folder):  # noqa: F811
    page = Page(browser, (folder / "index.html").as_uri())
    page.wait(lambda: "python3 -m http.server" in page.find("#message").text)


def refused(capsys, *words: str) -> str:
    assert main(["export", "page", *words]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    return line


def test_what_no_page_can_hold_is_refused(tmp_path, capsys, monkeypatch):
    from focus.model.backbone import BackboneConfig

    reader = untrained("sudoku", backbone=BackboneConfig("tiny-llama", rank=4))
    name = str(store(reader, tmp_path))
    out = str(tmp_path / "page")
    assert "needs a language model" in refused(capsys, out, "--checkpoint", name)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs" / "examples"))
    latin = importlib.import_module("latin_squares").LatinSquares()
    with pytest.raises(UserError, match=r"solves latin puzzles; .* focus serve shows it"):
        check_solver(untrained("latin", own=latin))
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("mine")
    assert "index.html" in refused(capsys, out)
    assert (tmp_path / "page" / "index.html").read_text() == "mine"


def test_a_runtime_that_is_not_the_pinned_one_is_refused(tmp_path, capsys, monkeypatch):
    checkpoint = str(store(untrained("sudoku"), tmp_path))
    words = [str(tmp_path / "page"), "--checkpoint", checkpoint, "--runtime"]
    assert "holds no ort.wasm.min.mjs" in refused(capsys, *words, str(tmp_path))
    for name in runtime.FILES:
        (tmp_path / name).write_text("altered")
    assert "its hash is another one" in refused(capsys, *words, str(tmp_path))
    assert "is not the package" in refused(
        capsys, *words, str(tmp_path / next(iter(runtime.FILES)))
    )
    # Neither npm nor a registry.
    monkeypatch.setenv("FOCUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://127.0.0.1:9")
    line = refused(capsys, *words[:-1])
    assert "cannot be had from the npm registry" in line
    assert "--runtime FILE.tgz" in line
    assert not (tmp_path / "page").exists()
