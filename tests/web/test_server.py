"""The server answers, refuses with one line, and tells whom it cannot serve to wait."""

import json
import re
import resource
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from focus.cli import main
from focus.model.trm import TRMConfig
from focus.web.page import ASSETS, project_links
from focus.web.server import Limits, _host_name
from tests.web.samples import store, untrained
from tests.web.serving import serving

PUZZLE = "1...34....21...3"


@pytest.fixture(scope="module")
def solvers():
    return [untrained("sudoku"), untrained("sudoku", seed=1), untrained("maze")]


@pytest.fixture(scope="module")
def served(solvers):
    with serving(solvers) as server:
        yield server


def order(**changes) -> dict:
    return {"checkpoints": ["tiny-sudoku-0"], "puzzle": PUZZLE, "steps": 5, **changes}


def test_the_page_tells_what_is_loaded_and_where_it_may_load_from(served):
    status, about, headers = served.ask("api/checkpoints")
    assert status == 200
    assert [kind["kind"] for kind in about["kinds"]] == ["sudoku-4", "maze-6"]
    names = [one["name"] for one in about["kinds"][0]["checkpoints"]]
    assert names == ["tiny-sudoku-0", "tiny-sudoku-1"]
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "index.html" in ASSETS


def test_fewer_steps_of_a_trm_may_be_asked_for():
    """Its steps are dear; beside another checkpoint its limit holds for both."""
    trm = TRMConfig(width=16, heads=2, outer=1, inner=1)
    solvers = [untrained("sudoku", seed=1), untrained("sudoku", trm=trm, answer="trm")]
    with serving(solvers) as server:
        _, about, _ = server.ask("api/checkpoints")
        most = {one["name"]: one["most"] for one in about["kinds"][0]["checkpoints"]}
        assert most == {"tiny-sudoku-1": 512, "tiny-sudoku-0": 320}
        for names, limit in ((["tiny-sudoku-1"], 512), (["tiny-sudoku-1", "tiny-sudoku-0"], 320)):
            status, answer, _ = server.ask("api/solve", order(checkpoints=names, steps=limit + 1))
            assert (status, f"1 to {limit}" in answer["error"]) == (400, True)
        assert server.ask("api/solve", order(checkpoints=["tiny-sudoku-0"]))[0] == 200


def test_who_asks_for_no_number_of_steps_gets_what_may_be_asked_for(solvers):
    with serving(solvers, limits=Limits(steps=3)) as server:
        asked = {name: value for name, value in order().items() if name != "steps"}
        status, shown, _ = server.ask("api/solve", asked)
    frames = shown["repairs"][0]["frames"]
    assert (status, frames[-1]["step"]) == (200, 3)


def test_a_solve_ends_in_the_answer_of_the_command_line(served, solvers, tmp_path, capsys):
    status, shown, _ = served.ask("api/solve", order())
    assert status == 200
    folder = store(solvers[0], tmp_path)
    assert main(["solve", PUZZLE, "--checkpoint", str(folder), "--steps", "5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (shown["repairs"][0]["answer"], shown["repairs"][0]["valid"]) == (
        told["answer"], told["valid"],
    )  # fmt: skip


def test_two_checkpoints_are_shown_together(served):
    both = ["tiny-sudoku-0", "tiny-sudoku-1"]
    _, shown, _ = served.ask("api/solve", order(checkpoints=both))
    assert [repair["checkpoint"] for repair in shown["repairs"]] == both


def test_examples_are_generated_and_pasted_text_is_parsed(served):
    for kind in ("sudoku-4", "maze-6"):
        status, puzzle, _ = served.ask(f"api/example?kind={kind}&level=hard&seed=5")
        assert status == 200
        asked = {"kind": kind, "text": puzzle["puzzle"]}
        assert served.ask("api/parse", asked)[1] == puzzle
    drawn = {"kind": "sudoku-4", "text": "1 . | . .\n3 4 | . .\n----+----\n. . | 2 1\n. . | . 3\n"}
    assert served.ask("api/parse", drawn)[1] == {"puzzle": PUZZLE}


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("api/solve", order(puzzle="12"), 400, "the sudoku has 2 characters, 16 are needed"),
        ("api/solve", order(puzzle="11" + "." * 14), 400, "1 stands twice in row 1"),
        ("api/solve", order(puzzle=7), 400, "puzzle must be text"),
        ("api/solve", order(steps=0), 400, "steps is a number from 1 to 512"),
        ("api/solve", order(steps=513), 400, "steps is a number from 1 to 512"),
        ("api/solve", order(steps="5"), 400, "steps is a number"),
        ("api/solve", order(steps=True), 400, "steps is a number"),
        ("api/solve", order(checkpoints=[]), 400, "a list of one or two"),
        ("api/solve", order(checkpoints=["x"]), 400, "no checkpoint 'x'"),
        ("api/solve", order(checkpoints=[["x"]]), 400, "no checkpoint ['x']"),
        ("api/solve", order(checkpoints=["tiny-sudoku-0", "tiny-maze-0"]), 400, "different"),
        ("api/solve", b"{", 400, "not JSON"),
        ("api/solve", b"[" * 9000, 400, "not JSON"),
        ("api/solve", b"\xff\xfe", 400, "not JSON"),
        ("api/solve", b"[]", 400, "not a JSON object"),
        ("api/solve", b" " * 20_000, 413, "larger than 16384 bytes"),
        ("api/solve", None, 405, "Method Not Allowed"),
        ("api/parse", {"kind": "chess", "text": ""}, 400, "kind is one of sudoku-4, maze-6"),
        ("api/parse", {"kind": "maze-6", "text": ""}, 400, "the maze is empty"),
        ("api/example?kind=sudoku-4&seed=-1", None, 400, "seed is a number"),
        ("api/example?kind=sudoku-4&level=silly", None, 400, "the levels are"),
        ("nothing.js", None, 404, "no such page"),
        ("..%2fserver.py", None, 404, "Not Found"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_one_line(served, path, body, status, message):
    got, answer, _ = served.ask(path, body)
    assert got == status
    assert message in answer["error"]
    assert "\n" not in answer["error"]


def test_other_names_and_forms_of_other_sites_are_refused(served):
    assert served.ask("api/checkpoints", Host="evil.example")[0] == 400
    assert served.ask("api/checkpoints", Host="[::1]:80")[0] == 200
    assert served.ask("api/checkpoints", Host="[::1]evil.com")[0] == 400
    status, answer, _ = served.ask("api/solve", order(), Content_Type="text/plain")
    assert (status, answer["error"]) == (415, "send application/json")


def test_fifty_at_once_are_answered_or_told_to_wait(solvers):
    """With the worker held, exactly the free places are taken; nobody is lost."""
    with serving(solvers, limits=Limits(places=16)) as served:
        held, refused, release = threading.Event(), threading.Semaphore(0), threading.Event()

        def hold(check):
            held.set()
            release.wait(60)

        served.site.job_queue.submit(hold)
        assert held.wait(30)

        def visit(number: int) -> tuple[int, dict]:
            status, answer, headers = served.ask("api/solve", order(steps=4))
            if status == 503:
                assert headers["retry-after"] == "2"
                assert "try again" in answer["error"]
                refused.release()
            return status, answer

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with ThreadPoolExecutor(50) as visitors:
            visits = [visitors.submit(visit, number) for number in range(50)]
            for _ in range(35):
                assert refused.acquire(timeout=60)
            release.set()
            answers = [one.result() for one in visits]
        statuses = [status for status, _ in answers]
        assert (statuses.count(200), statuses.count(503)) == (15, 35)
        right = [answer for status, answer in answers if status == 200]
        assert all(answer == right[0] for answer in right)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
        assert served.ask("api/solve", order())[0] == 200, "the places are free again"


def until(served, condition) -> None:
    """Ask the server for something else until it has come to a state."""
    for _ in range(20_000):
        if condition():
            return
        served.ask("api/checkpoints")
    pytest.fail("the server never came to that state")


def test_who_leaves_the_queue_makes_room(solvers):
    with serving(solvers, limits=Limits(places=2)) as served:
        held, release = threading.Event(), threading.Event()

        def hold(check):
            held.set()
            release.wait(60)

        served.site.job_queue.submit(hold)
        assert held.wait(30)
        body = json.dumps(order()).encode()
        head = (
            "POST /api/solve HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        with served.connect(head.encode() + body):
            until(served, lambda: served.site.job_queue.free == 0)
            assert served.ask("api/solve", order())[0] == 503
        until(served, lambda: served.site.job_queue.free == 1)
        release.set()
        assert served.ask("api/solve", order())[0] == 200


def test_a_solve_that_takes_too_long_is_ended(solvers):
    with serving(solvers, limits=Limits(seconds=0.0)) as served:
        status, answer, _ = served.ask("api/solve", order())
        assert status == 504
        assert "fewer steps take less time" in answer["error"]


def test_serve_tells_the_address_it_listens_on(solvers, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: sockets[0].close())
    both = [str(store(solver, tmp_path)) for solver in solvers[:2]]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    words = ["serve", "--checkpoint", both[0], "--against", both[1], "--port", "0"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert re.match(r"http://127\.0\.0\.1:\d+/ is the page", said.out)
    assert said.err.splitlines() == [
        "focus serve: loading PyTorch",
        f"focus serve: loading {both[0]} (1 of 2)",
        f"focus serve: loading {both[1]} (2 of 2)",
    ]


def test_serve_speaks_before_it_loads_anything():
    """Whoever has started it reads what it is waiting for at once."""
    program = (
        "import sys; from focus.commands import serve\n"
        "def say(text):\n    print(text, 'torch' in sys.modules); sys.exit(0)\n"
        "serve._say = say; serve.serve()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "loading PyTorch False\n", done.stderr


def test_a_released_solver_without_its_language_model_is_left_out(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: sockets[0].close())
    monkeypatch.setenv("FOCUS_CACHE", str(tmp_path))  # nothing is installed
    names = {"sudoku-smollm2": "sudoku", "sudoku-none": "sudoku"}
    monkeypatch.setattr("focus.model.checkpoint.offered", lambda: names)
    assert main(["serve", "--port", "0"]) == 0
    said = capsys.readouterr()
    assert "sudoku-smollm2 is left out: smollm2-135m is not installed yet" in said.err
    assert said.out.startswith("http")
    names.pop("sudoku-none")
    assert main(["serve", "--port", "0"]) == 2
    assert "not installed yet" in capsys.readouterr().err.splitlines()[-1]
    assert main(["serve", "--checkpoint", "sudoku-none", "sudoku-smollm2", "--port", "0"]) == 2


def test_the_page_links_to_what_the_package_tells_of_itself(served, monkeypatch):
    assert served.ask("api/checkpoints")[1]["links"] == project_links()

    class Told:
        def get_all(self, name):
            assert name == "Project-URL"
            return ["Code, https://example.org/focus", "Odd, javascript:alert(1)", "Torn"]

    monkeypatch.setattr("focus.web.page.metadata", lambda name: Told())
    assert project_links() == {"Code": "https://example.org/focus"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["serve", "--checkpoint", "nowhere"], "no such checkpoint: nowhere"),
        (["serve", "--checkpoint", "{sudoku}", "--port", "{taken}"], "--port 0 for any free one"),
        (["serve", "--checkpoint", "{sudoku}", "--port", "70000"], "from 0 to 65535"),
        (["serve", "--checkpoint", "{sudoku}", "--host", "no such host"], "cannot listen on"),
        (["serve", "--checkpoint", "{sudoku}", "--against", "{maze}"], "no other checkpoint does"),
        (["solve", PUZZLE, "--checkpoint", "{sudoku}", "--html", "{file}/x.html"], "cannot write"),
        (["solve", PUZZLE, "--checkpoint", "{sudoku}", "--against", "{sudoku}"], "with --html"),
    ],
)  # fmt: skip
def test_bad_flags_give_one_line_and_code_2(solvers, words, message, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        names = {
            "sudoku": store(solvers[0], tmp_path),
            "maze": store(solvers[2], tmp_path),
            "taken": taken.getsockname()[1],
            "file": file,
        }
        assert main([word.format(**names) for word in words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("127.0.0.1:8000", "127.0.0.1"), ("LocalHost", "localhost"), ("[::1]:80", "::1"),
        ("[::1]evil.com", ""), ("localhost:80:evil.com", ""), ("localhost:x", ""), ("[::1", ""),
    ],
)  # fmt: skip
def test_a_host_header_is_a_name_and_a_port_and_nothing_else(header, name):
    assert _host_name(header) == name
