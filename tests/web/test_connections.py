"""Who sends nothing, or next to nothing, keeps nobody out."""

import contextlib
import select
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from focus.web.server import Limits
from tests.web.samples import untrained
from tests.web.serving import serving

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="127.0.0.2 is an address of this machine on Linux only"
)
REQUEST = b"GET /api/checkpoints HTTP/1.1\r\nHost: 127.0.0.1\r\n"
ANSWERED, WAIT = b"HTTP/1.1 200 ", b"HTTP/1.1 503 "


@pytest.fixture(scope="module")
def solvers():
    return [untrained("sudoku")]


def rest(connection: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    with connection:
        with contextlib.suppress(ConnectionResetError):
            return b"".join(iter(lambda: connection.recv(2**16), b""))
        return b""


def asked(served, peer: str) -> bytes:
    """The answer to an ordinary request."""
    return rest(served.connect(REQUEST + b"Connection: close\r\n\r\n", peer))


def test_two_hundred_slow_connections_of_one_peer_lock_nobody_out(solvers):
    with (
        serving(solvers, limits=Limits(header_seconds=2)) as served,
        contextlib.ExitStack() as connections,
    ):
        slow = [served.connect(REQUEST if number % 2 else b"") for number in range(205)]
        for connection in slow:
            connections.enter_context(connection)
        assert asked(served, "127.0.0.2").startswith(ANSWERED)
        for connection in slow:
            assert not rest(connection).startswith(ANSWERED)
        assert asked(served, "127.0.0.1").startswith(ANSWERED)


def test_a_peer_has_so_many_connections_and_room_again_when_one_is_closed(solvers):
    with serving(solvers, limits=Limits(header_seconds=60, peer_connections=2)) as served:
        with served.connect(), served.connect():
            refusal = rest(served.connect())
            assert refusal.startswith(WAIT)
            assert b"Retry-After: 2" in refusal
            assert b"too many connections from your address" in refusal
            assert asked(served, "127.0.0.2").startswith(ANSWERED)
        tries = (asked(served, "127.0.0.1") for _ in range(1000))
        assert any(answer.startswith(ANSWERED) for answer in tries)


@pytest.mark.parametrize(
    "first", [b"", REQUEST + b"\r\n", REQUEST + b"Content-Length: 9999\r\n\r\n"]
)
def test_headers_and_bodies_that_trickle_in_do_not_hold_a_connection(solvers, first):
    """Neither as the first request of a connection nor after one that was answered."""
    with serving(solvers, limits=Limits(header_seconds=0.3)) as served:
        connection = served.connect(first)
        if first:
            assert connection.recv(2**16).startswith(ANSWERED)
        poll = select.poll()
        poll.register(connection, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        with connection:
            for _ in range(1000):
                if poll.poll(20):
                    return
                with contextlib.suppress(ConnectionError):
                    connection.send(b"x")
        pytest.fail("the connection was never closed")


def test_an_answer_that_takes_longer_than_headers_may_is_still_given(solvers, monkeypatch):
    puzzle = {"checkpoints": ["tiny-sudoku-0"], "puzzle": "1...34....21...3", "steps": 5}
    begun, release = threading.Event(), threading.Event()

    def solve(*_):
        begun.set()
        assert release.wait(60)
        return {"repairs": []}

    monkeypatch.setattr("focus.web.server.show_repairs", solve)
    with (
        serving(solvers, limits=Limits(header_seconds=0.3)) as served,
        ThreadPoolExecutor(1) as visitor,
    ):
        visit = visitor.submit(served.ask, "api/solve", puzzle)
        assert begun.wait(60)
        assert rest(served.connect()) == b"", "the time of a later connection is over"
        release.set()
        assert visit.result()[:2] == (200, {"repairs": []})
