"""A real server on a free port, for the tests of the page."""

import contextlib
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

from focus.commands.serve import listen
from focus.web.connections import make_server
from focus.web.server import Site, make_app


class Served:
    """A running server and how to ask it."""

    def __init__(self, address: str, site: Site):
        self.address, self.site = address, site
        self.port = int(address.rstrip("/").rpartition(":")[2])

    def connect(self, sent: bytes = b"", peer: str = "127.0.0.1") -> socket.socket:
        """A connection from a loopback address, on which some bytes have been sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), 60, (peer, 0))
        connection.sendall(sent)
        return connection

    def ask(self, path: str, body=None, **headers) -> tuple[int, dict, dict]:
        """Status, JSON and headers of an answer; a body that is no bytes is sent as JSON."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        known = {"Content-Type": "application/json"} if body is not None else {}
        known |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.address + path, body, known)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read()), dict(answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read()), dict(error.headers)


@contextlib.contextmanager
def serving(solvers, **settings) -> Iterator[Served]:
    """The server in a thread of its own."""
    app = make_app(solvers, hosts=frozenset({"127.0.0.1", "::1"}), **settings)
    listening = listen("127.0.0.1", 0)
    server = make_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Served(f"http://127.0.0.1:{listening.getsockname()[1]}/", app.state.site)
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
