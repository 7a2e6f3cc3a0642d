"""A real server on a free port, for the tests of the page."""

import contextlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import uvicorn

from focus.commands.serve import listen
from focus.web.server import Site, make_app


class Served:
    """A running server and how to ask it."""

    def __init__(self, address: str, site: Site):
        self.address, self.site = address, site

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
    app = make_app(solvers, hosts=frozenset({"127.0.0.1"}), **settings)
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Served(f"http://127.0.0.1:{listening.getsockname()[1]}/", app.state.site)
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
