"""`focus serve`: the page on which a puzzle is entered and its repair watched."""

import ipaddress
import socket
import sys
from typing import TYPE_CHECKING

from focus.errors import UserError

if TYPE_CHECKING:
    from focus.model.base import Model
    from focus.training.config import RunConfig

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def serve(
    checkpoint: tuple[str, ...] = (), against: str | None = None, host: str = "127.0.0.1",
    port: int = 8000,
) -> None:  # fmt: skip
    """Enter a puzzle in the browser, watch its repair, compare two checkpoints.

    Loads the checkpoints, which takes seconds, then prints the address to open.

    Args:
        checkpoint: checkpoint folders, folders of runs, released names or hub ids, also of
            different tasks and sizes; default the released ones that can be loaded, else
            runs-out/mini-sudoku.
        against: one more checkpoint, to compare with from the start.
        host: address to listen on; 0.0.0.0 lets other machines in.
        port: port to listen on; 0 takes any free one.
    """
    if not 0 <= port <= 65535:
        raise UserError(f"--port takes a number from 0 to 65535, not {port}")
    _say("loading PyTorch")
    # Imported here, and not with this file: who waits has been told what for.
    from focus.model.checkpoint import offered
    from focus.web.connections import make_server
    from focus.web.repair import name_solvers
    from focus.web.server import make_app

    # Sudoku before mazes: the first kind is what the page opens with.
    released = offered()
    ordered = sorted(released, key=lambda name: released[name] != "sudoku")
    names = checkpoint or tuple(ordered) or ("runs-out/mini-sudoku",)
    words = [*names, *([against] if against else [])]
    solvers = name_solvers(_load(words, optional=() if checkpoint else tuple(ordered)))
    compared = solvers[-1] if against else None
    if compared and compared.kind not in {named.kind for named in solvers[:-1]}:
        raise UserError(f"{against} solves {compared.kind}, and no other checkpoint does")
    hosts = _LOCAL | {host} if _is_loopback(host) else None
    app = make_app(solvers, compared.name if compared else None, hosts=hosts)
    listening = listen(host, port)
    address, number = listening.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    print(f"http://{shown}:{number}/ is the page; open it in a browser (Ctrl-C stops)", flush=True)
    if hosts is None:
        print("other machines can reach this page; there is no password", flush=True)
    make_server(app).run(sockets=[listening])


def _load(words: list[str], optional: tuple[str, ...]) -> "list[tuple[str, Model, RunConfig]]":
    """The checkpoints, a line before each; an optional one that cannot be loaded is left out."""
    from focus.commands.evaluate import load_checkpoint

    loaded: list[tuple[str, Model, RunConfig]] = []
    failure: UserError | None = None
    for number, word in enumerate(words, 1):
        _say(f"loading {word} ({number} of {len(words)})")
        try:
            loaded.append((word, *load_checkpoint(word, None)))
        except UserError as error:
            if word not in optional:
                raise
            failure = error
            print(f"focus serve: {word} is left out: {error}", file=sys.stderr, flush=True)
    if not loaded and failure is not None:
        raise failure
    return loaded


def _say(text: str) -> None:
    """Progress, for somebody who waits at a terminal."""
    if sys.stderr.isatty():
        print(f"focus serve: {text}", file=sys.stderr, flush=True)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, so that a port in use is found before the address is told."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UserError(f"cannot listen on {host}: {error.strerror or error}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise UserError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another "
            "with --port, or --port 0 for any free one"
        ) from error
    return listening
