"""The animated picture of a repair holds every step, and nothing that a page would refuse."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from focus.data.examples import example
from focus.web import svg
from focus.web.repair import show_repairs
from focus.web.svg import animated_svg
from tests.web.samples import untrained

SVG = "{http://www.w3.org/2000/svg}"
STORED = Path(__file__).parents[2] / "docs" / "figures" / "repair.svg"


@pytest.fixture(scope="module", params=["sudoku", "maze"])
def shown(request):
    named = untrained(request.param)
    return show_repairs([named], example(named.solver.task, "medium", 3), 6)


def cells_at(picture: str, shown: dict, frame: int, frames: int) -> str:
    """The characters in the cells while a frame is shown."""
    answer = list(shown["puzzle"])
    size = (svg._WIDTH - 2 * svg._EDGE) / shown["side"]
    bottom = svg._TOP + shown["rows"] * size
    for element in ElementTree.fromstring(picture):
        kinds = element.get("class", "").split()
        interval = re.match(r"f(\d+)-(\d+)", kinds[-1]) if kinds else None
        first, end = map(int, interval.groups()) if interval else (0, frames)
        is_path = element.tag == f"{SVG}rect" and {"right", "wrong"} & set(kinds)
        is_text = element.tag == f"{SVG}text" and svg._TOP < float(element.get("y")) < bottom
        if first <= frame < end and (is_path or is_text):
            row = int((float(element.get("y")) - svg._TOP) / size)
            column = int((float(element.get("x")) - svg._EDGE) / size)
            answer[row * shown["side"] + column] = element.text or "o"
    return "".join(answer)


def test_each_frame_holds_the_answer_of_its_step(shown):
    picture, frames = animated_svg(shown), shown["repairs"][0]["frames"]
    for number, frame in enumerate(frames):
        assert cells_at(picture, shown, number, len(frames)) == frame["answer"]


def test_it_ends_where_the_repair_is_solved_and_long_ones_are_thinned(shown, monkeypatch):
    repair = {**shown["repairs"][0], "solved_at": 2}
    picture = animated_svg({**shown, "repairs": [repair]})
    assert "solved at step 2" in picture
    assert "step 3" not in picture
    monkeypatch.setattr(svg, "MOST_FRAMES", 3)
    assert re.findall(r"\bstep (\d)", animated_svg(shown)) == ["3", "6"]


def test_a_thinned_repair_ends_solved_where_the_step_itself_has_no_frame(shown):
    repair = {**shown["repairs"][0], "solved_at": 3}
    repair["frames"] = repair["frames"][::2]  # of the steps 0, 2, 4 and 6
    picture = animated_svg({**shown, "repairs": [repair]})
    assert re.findall(r"\bstep (\d)", picture) == ["2", "3"]
    assert cells_at(picture, shown, 2, 3) == repair["frames"][2]["answer"]


def test_a_repair_without_a_true_answer_has_no_energy(shown):
    repair = {**shown["repairs"][0], "energy": None}
    repair["frames"] = [{**frame, "accuracy": None} for frame in repair["frames"]]
    bare = animated_svg({**shown, "solution": None, "repairs": [repair]})
    assert 'class="wrong' not in bare
    assert "energy" not in bare
    assert "<circle" not in bare
    ElementTree.fromstring(bare)


def test_names_are_escaped(shown):
    repair = {**shown["repairs"][0], "checkpoint": "<script>&"}
    picture = animated_svg({**shown, "repairs": [repair]})
    assert ElementTree.fromstring(picture).find(f"{SVG}title").text.startswith("<script>&")


def test_the_stored_picture_needs_nothing_but_itself():
    text = STORED.read_text(encoding="utf-8")
    assert len(text.encode()) < 300_000
    assert {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(text).iter()} <= {
        "svg", "title", "style", "rect", "path", "text", "circle",
    }  # fmt: skip
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme:dark" in text
    assert "solved at step" in text
