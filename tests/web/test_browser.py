"""The page in a real browser: enter, solve, scrub, compare with the command line, share."""

import importlib
import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from focus.cli import main
from focus.web.server import Limits
from tests.web.samples import store, untrained
from tests.web.serving import serving

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

PUZZLE = "1...34....21...3"
STEPS = 6
_PASTE = """
const data = new DataTransfer();
data.setData("text", arguments[0]);
document.activeElement.dispatchEvent(
  new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
"""


@pytest.fixture(scope="module")
def solvers():
    return [untrained("sudoku"), untrained("sudoku", seed=1), untrained("maze")]


@pytest.fixture(scope="module")
def folders(solvers, tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("checkpoints")
    return {named.name: str(store(named, folder)) for named in solvers}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    names = ("chromium", "chromium-browser", "google-chrome")
    binary = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("no Chromium with chromedriver here")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    options.add_argument("--headless=new")
    options.add_argument("--disable-dev-shm-usage")
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium refuses to run as root with it
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options, webdriver.ChromeService(driver)) as opened:
        yield opened


@pytest.fixture
def page(browser, served):
    return Page(browser, served.address)


@pytest.fixture(scope="module")
def served(solvers):
    with serving(solvers) as server:
        yield server


class Page:
    """What a visitor does and sees."""

    def __init__(self, browser, address: str):
        self.browser, self.address = browser, address
        self.size(1280)
        browser.get(address)
        self.complaints()  # those of pages before

    def find(self, selector: str):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def wait(self, condition):
        return WebDriverWait(self.browser, 30, 0.05).until(lambda _: condition())

    def size(self, width: int, height: int = 900) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def choose(self, kind: str) -> None:
        """A kind of puzzle; its first example has come when this returns."""
        self.wait(lambda: self.all("#editor [role=gridcell]"))
        Select(self.find("#kind")).select_by_value(kind)
        self.wait(lambda: self.entered().strip(" ."))

    def entered(self) -> str:
        """The puzzle in the editor, from what its cells say aloud."""
        signs = {"blank": ".", "open": " ", "wall": "#", "start": "S", "goal": "G"}
        labels = self.browser.execute_script(
            "return [...document.querySelectorAll('#editor [aria-label^=row]')]"
            ".map((cell) => cell.getAttribute('aria-label'))"
        )
        words = [label.rpartition(", ")[2] for label in labels]
        return "".join(signs.get(word, word.removeprefix("given ")) for word in words)

    def paste(self, text: str) -> None:
        self.find("#editor [tabindex='0']").click()
        self.browser.execute_script(_PASTE, text)

    def welcome(self) -> None:
        """Wait for the repair that the page begins with."""
        self.wait(lambda: self.all(".player"))

    def solve(self) -> None:
        """A new repair, at its first step."""
        steps = self.find("#steps")
        steps.clear()
        steps.send_keys(str(STEPS))
        self.browser.execute_script("document.querySelector('.player')?.classList.add('old')")
        self.find("#solve").click()
        self.wait(lambda: self.all(".player:not(.old)"))
        self.scrub(Keys.HOME)

    def scrub(self, *keys: str) -> None:
        self.find(".scrub").send_keys(*keys)

    def answer(self, number: int = 0) -> str:
        """The answer that a player shows, as text."""
        return self.browser.execute_script(
            """
            const grid = document.querySelectorAll(".player .grid")[arguments[0]];
            const isSudoku = grid.tagName === "TABLE";
            const cells = isSudoku ? grid.querySelectorAll("td") : grid.children;
            const unmarked = (kinds) =>
              isSudoku ? "." : kinds.contains("wall") ? "#" : kinds.contains("path") ? "o" : " ";
            return [...cells].map((cell) => cell.textContent || unmarked(cell.classList)).join("");
            """,
            number,
        )

    def in_sight(self, selector: str) -> bool:
        """Whether all of an element is on the screen, with nothing above it."""
        return self.browser.execute_script(
            """
            const element = document.querySelector(arguments[0]);
            const box = element.getBoundingClientRect();
            const inside = box.height && box.top >= 0 && box.bottom <= innerHeight;
            const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
            return Boolean(inside && element.contains(top));
            """,
            selector,
        )

    def fits(self, width: int) -> bool:
        """Whether nothing sticks out to the right of a screen of this width."""
        self.size(width)
        return self.browser.execute_script("return document.documentElement.scrollWidth") <= width

    def complaints(self) -> list:
        return [line for line in self.browser.get_log("browser") if line["level"] == "SEVERE"]


def told(capsys, puzzle: str, folder: str, steps: int = STEPS) -> str:
    """The answer of `focus solve --json`."""
    words = ["solve", puzzle, "--checkpoint", folder, "--steps", str(steps), "--json"]
    assert main(words) == 0
    return json.loads(capsys.readouterr().out)["answer"]


def test_a_typed_sudoku_is_solved_as_on_the_command_line(page, folders, capsys):
    page.choose("sudoku-4")
    page.find("#clear").click()
    first = page.find("#editor [tabindex='0']")
    first.click()
    for symbol in PUZZLE:
        page.browser.switch_to.active_element.send_keys(symbol if symbol != "." else Keys.DELETE)
        here = page.browser.switch_to.active_element
        at_the_edge = "column 4" in here.get_attribute("aria-label")
        here.send_keys(*([Keys.HOME, Keys.ARROW_DOWN] if at_the_edge else [Keys.ARROW_RIGHT]))
    assert page.entered() == PUZZLE
    page.solve()
    assert page.answer() == PUZZLE
    page.scrub(Keys.END)
    assert page.answer() == told(capsys, PUZZLE, folders["tiny-sudoku-0"])
    assert f"not solved in {STEPS} steps" in page.find(".said").text
    page.scrub(Keys.HOME, *[Keys.ARROW_RIGHT] * 5, Keys.ARROW_LEFT)
    assert page.answer() == told(capsys, PUZZLE, folders["tiny-sudoku-0"], 4)
    assert page.find(".said").text.startswith("step 4, ")
    cell = page.find(".player td:nth-child(2)")
    assert cell.get_attribute("aria-label").startswith(f"row 1 column 2, {cell.text}, ")
    assert page.all(".player td.changed")
    assert page.all(".plot .frontier")
    assert page.complaints() == []


def test_a_paste_fills_the_grid_and_a_bad_one_says_why(page):
    page.choose("sudoku-4")
    page.paste("1...\n34..\n..21\n0003\n")
    page.wait(lambda: page.entered() == PUZZLE)
    page.paste("1...34")
    page.wait(lambda: page.find("#message").text)
    assert "the sudoku has 6 characters, 16 are needed" in page.find("#message").text
    assert page.entered() == PUZZLE
    page.paste("11.." + "." * 12)
    page.wait(lambda: "1 stands twice in row 1" in page.find("#message").text)


def test_a_drawn_maze_is_solved_as_on_the_command_line(page, folders, capsys, tmp_path):
    page.choose("maze-6")
    page.find("#clear").click()
    cells = page.all("#editor [role=gridcell]")
    page.find("input[value=S]").click()
    cells[0].click()
    page.find("input[value=G]").click()
    cells[35].click()
    page.find("input[value='#']").click()
    drag = webdriver.ActionChains(page.browser).move_to_element(cells[6]).click_and_hold()
    drag.move_to_element(cells[7]).move_to_element(cells[8]).release().perform()
    cells[20].send_keys("#", Keys.ARROW_RIGHT, Keys.SPACE)
    maze = "S" + " " * 5 + "###" + " " * 11 + "##" + " " * 13 + "G"
    maze = maze[:20] + "##" + maze[22:]
    assert page.entered() == maze
    page.solve()
    page.scrub(Keys.END)
    file = tmp_path / "maze.txt"
    file.write_text("\n".join(maze[start : start + 6] for start in range(0, 36, 6)))
    assert page.answer() == told(capsys, str(file), folders["tiny-maze-0"])
    assert f"Maze at step {STEPS}" in page.find(".player .maze").get_attribute("aria-label")
    assert page.complaints() == []


def test_undo_takes_back_strokes_one_by_one(page):
    page.choose("maze-6")
    page.find("#clear").click()
    cells = page.all("#editor [role=gridcell]")
    drag = webdriver.ActionChains(page.browser).move_to_element(cells[6]).click_and_hold()
    drag.move_to_element(cells[7]).move_to_element(cells[8]).release().perform()
    cells[20].send_keys("S")
    assert page.entered().strip() == "###" + " " * 11 + "S"
    page.find("#undo").click()
    assert page.entered().strip() == "###"
    page.find("#undo").click()
    assert page.entered().strip() == ""


def test_a_finger_scrolls_and_only_its_tap_draws(page):
    page.choose("maze-6")
    page.find("#clear").click()
    page.browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    place = "const box = document.querySelectorAll('#editor [role=gridcell]')[14]"
    place += ".getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]"

    def gesture(name: str, **settings) -> None:
        x, y = page.browser.execute_script(place)
        settings |= {"x": x, "y": y, "gestureSourceType": "touch"}
        page.browser.execute_cdp_cmd(f"Input.synthesize{name}Gesture", settings)

    try:
        gesture("Scroll", yDistance=-100)
        assert page.entered().strip() == ""
        gesture("Tap")
        page.wait(lambda: page.entered().strip() == "#")
    finally:
        page.browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_a_refused_solve_keeps_the_focus(page):
    page.choose("sudoku-4")
    page.find("#clear").click()
    page.browser.execute_script("document.getElementById('steps').value = 9999")
    solve = page.find("#solve")
    solve.send_keys(Keys.ENTER)
    page.wait(lambda: "steps is a number from 1" in page.find("#message").text)
    assert page.browser.switch_to.active_element == solve


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (375, 740)])
def test_solve_and_what_is_wrong_are_in_sight_without_scrolling(page, width, height):
    page.welcome()
    page.size(width, height)
    assert page.in_sight("#solve")
    page.browser.execute_script("document.getElementById('steps').value = 9999")
    page.find("#solve").click()
    page.wait(lambda: page.find("#message").text)
    assert page.in_sight("#solve")
    assert page.in_sight("#message")


def test_the_page_begins_with_a_repair_that_plays(page):
    """The browser waits for nobody: the first puzzle is solved, and its steps run."""
    page.welcome()
    assert page.answer().count(".") in (0, page.entered().count("."))
    page.wait(lambda: not page.find(".count").text.startswith("0 /"))
    assert page.browser.switch_to.active_element.tag_name == "body"
    assert page.complaints() == []


def test_a_repair_goes_when_its_puzzle_changes(page):
    page.choose("sudoku-4")
    page.solve()
    page.find("#editor [tabindex='0']").send_keys(Keys.DELETE)
    assert not page.all(".player")
    assert not page.find("#save").is_displayed()
    for change in ("#generate", "#undo", "#clear"):
        page.solve()
        page.find(change).click()
        page.wait(lambda: not page.all(".player"))
        if change != "#clear":
            page.wait(lambda: page.find("#status").text == page.find("#message").text == "")
    page.choose("maze-6")
    page.solve()
    page.choose("sudoku-4")
    assert not page.all(".player")


def test_the_true_path_of_a_maze_is_shown_on_request_only(page):
    page.choose("maze-6")
    page.solve()
    for key in (Keys.HOME, Keys.END):
        page.scrub(key)
        assert not page.all(".player .missed")
    assert "true path" in page.find(".player .maze").get_attribute("aria-label")
    page.scrub(Keys.HOME)
    assert "true path" not in page.find(".player .maze").get_attribute("aria-label")
    page.find(".reveal").click()
    assert page.all(".player .missed")
    page.choose("sudoku-4")
    page.solve()
    page.find(".reveal").click()
    told = page.all(".player td[data-true]")
    assert len(told) == page.entered().count(".")


def test_the_words_of_the_plot_are_explained(page):
    page.welcome()
    page.find(".glossary summary").click()
    terms = [term.text for term in page.all(".glossary dt")]
    assert terms == ["Step, K", "Confidence", "Energy", "Defect D", "γ", "t*"]
    assert all(meaning.text for meaning in page.all(".glossary dd"))
    assert len(page.all(".plot text title")) == 4


def test_play_and_pause_by_button_and_space(page):
    page.choose("sudoku-4")
    page.solve()
    play = page.find(".controls .primary")
    play.click()
    assert play.text == "Pause"
    page.wait(lambda: page.find(".count").text != f"0 / {STEPS}")
    page.scrub(Keys.SPACE)
    assert play.text == "Play"
    page.scrub(Keys.SPACE)
    page.wait(lambda: page.find(".count").text == f"{STEPS} / {STEPS}")
    assert play.text == "Play"


def test_two_checkpoints_share_a_slider_and_fit_narrow_screens(page, folders, capsys):
    page.choose("sudoku-4")
    page.paste(PUZZLE)
    page.wait(lambda: page.entered() == PUZZLE)
    Select(page.find("#second")).select_by_value("tiny-sudoku-1")
    page.solve()
    page.scrub(Keys.END)
    assert page.answer(0) == told(capsys, PUZZLE, folders["tiny-sudoku-0"])
    assert page.answer(1) == told(capsys, PUZZLE, folders["tiny-sudoku-1"])
    assert page.fits(360)
    page.choose("maze-6")
    assert page.fits(320)


def test_a_full_queue_makes_the_page_wait(browser, solvers):
    release = threading.Event()
    with serving(solvers, limits=Limits(places=1)) as served:
        page = Page(browser, served.address)
        page.choose("sudoku-4")
        page.welcome()
        page.find("#clear").click()
        page.wait(lambda: served.site.job_queue.free)
        served.site.job_queue.submit(lambda check: release.wait(60))
        page.find("#solve").click()
        page.wait(lambda: "Busy, waiting" in page.find("#status").text)
        release.set()
        page.wait(lambda: page.all(".player"))
        assert page.find("#message").text == ""


def test_a_task_of_another_package_is_entered_and_watched(browser, monkeypatch):
    """Latin squares as cells; queens as the board that the task prints."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs" / "examples"))
    latin = importlib.import_module("latin_squares").LatinSquares()
    queens = importlib.import_module("queens").Queens()
    solvers = [untrained("latin", own=latin), untrained("queens", own=queens)]
    with serving(solvers) as served:
        page = Page(browser, served.address)
        names = [option.text for option in Select(page.find("#kind")).options]
        assert names == ["Latin 5×5", "Queens 8"]
        page.choose("latin-5")
        page.find("#clear").click()
        page.find("#editor [tabindex='0']").send_keys("9", "5")
        assert page.entered() == "5" + "." * 24
        page.paste("1...." + "." * 20)
        page.solve()
        page.scrub(Keys.END)
        assert page.answer() == solvers[0].solver.solve("1" + "." * 24, STEPS)
        page.choose("queens-8")
        page.solve()
        page.scrub(Keys.END)
        board = page.find(".player pre.text")
        assert board.text.count("Q") == 8
        assert len(board.text.splitlines()) == 8
        assert len(page.all(".player .text span")) == 8
        assert page.complaints() == []


def network(browser) -> list[str]:
    """Addresses that were asked for since the last call, but files of this machine."""
    events = [json.loads(line["message"])["message"] for line in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if "WillBeSent" in e["method"]
             and "request" in e["params"]]  # fmt: skip
    return [url for url in asked if not url.startswith(("file:", "data:"))]


def test_a_stored_repair_plays_without_server_and_network(browser, folders, capsys, tmp_path):
    file = tmp_path / "repair.html"
    one, other = folders["tiny-sudoku-0"], folders["tiny-sudoku-1"]
    words = ["solve", PUZZLE, "--checkpoint", one, "--steps", str(STEPS), "--json"]
    assert main([*words, "--html", str(file), "--against", other]) == 0
    answer = json.loads(capsys.readouterr().out)["answer"]
    browser.get("about:blank")
    network(browser)
    page = Page(browser, file.as_uri())
    page.scrub(Keys.END)
    assert page.answer(0) == answer
    assert page.answer(1) == told(capsys, PUZZLE, other)
    assert page.fits(360)
    assert network(browser) == []
    assert page.complaints() == []


def test_the_page_saves_a_file_that_plays_by_itself(page, tmp_path):
    page.choose("sudoku-4")
    page.solve()
    page.scrub(Keys.END)
    answer = page.answer()
    page.browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.find("#save").click()
    saved = Path(tmp_path, "sudoku-4-repair.html")
    page.wait(saved.exists)
    network(page.browser)
    stored = Page(page.browser, saved.as_uri())
    stored.scrub(Keys.END)
    assert stored.answer() == answer
    assert network(page.browser) == []
