"""The server of the page: solves puzzles for browsers, one at a time, within limits.

    GET  /                  the page; its files beside it
    GET  /standalone.html   the page as one file, without a repair: the page saves with it
    GET  /api/checkpoints   what is loaded, and the limits
    GET  /api/example       ?kind=sudoku-9&level=hard&seed=7
    POST /api/parse         {"kind", "text"} -> {"puzzle"}
    POST /api/solve         {"checkpoints": [one or two], "puzzle", "steps"} -> a repair

Everything that is refused comes as {"error": "one line"} with a status of 4xx or 5xx; 503 means
that the queue is full and has Retry-After.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from focus.data.examples import LEVELS, example
from focus.errors import UserError
from focus.tasks.base import Codes, Task
from focus.web.job_queue import BusyError, JobQueue, OutOfTimeError
from focus.web.kinds import by_kind, describe, most_steps
from focus.web.page import ASSETS, asset, project_links, standalone
from focus.web.repair import NamedSolver, show_repairs

Result = TypeVar("Result")
RETRY_SECONDS = "2"  # as Retry-After says them
_BODY_SECONDS = 10.0
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Limits:
    """What a visitor may ask for."""

    body: int = 16_384  # bytes of a request
    steps: int = 512  # steps K of a small puzzle; of a maze as many as take about as long
    seconds: float = 30.0  # of one solve
    places: int = 16  # solves that run or wait
    header_seconds: float = 10.0  # until the headers of a request are there
    peer_connections: int = 64  # of one address; a browser opens six
    connections: int = 200  # of all; those with a request beyond it are told to wait


class Guard:
    """Answers to its own names only (another site cannot reach it by renaming), adds headers."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None):
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        name = _host_name(Headers(scope=scope).get("host", ""))
        if self.hosts is not None and name not in self.hosts:
            refusal = JSONResponse({"error": f"this server does not go by {name!r}"}, 400)
            return await refusal(scope, receive, send_with_headers)
        await self.app(scope, receive, send_with_headers)


def _host_name(header: str) -> str:
    """The name in a Host header, without the port; IPv6 addresses stand in brackets."""
    match = re.fullmatch(r"(?:\[([^\]]*)\]|([^:\[\]]*))(?::\d+)?", header)
    return (match[1] or match[2] or "").lower() if match else ""


def make_app(
    solvers: Sequence[NamedSolver], against: str | None = None, limits: Limits | None = None,
    hosts: frozenset[str] | None = None,
) -> Starlette:  # fmt: skip
    """The server of the named solvers; `hosts` are the names it answers to (None: any)."""
    site = Site(solvers, against, limits or Limits())

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        site.job_queue.close()
        site.generator.close()

    app = Starlette(
        routes=[
            Route("/", site.file),
            Route("/api/checkpoints", site.checkpoints),
            Route("/api/example", site.example),
            Route("/api/parse", site.parse, methods=["POST"]),
            Route("/api/solve", site.solve, methods=["POST"]),
            Route("/{name}", site.file),
        ],
        middleware=[Middleware(Guard, hosts=hosts)],
        exception_handlers={
            UserError: _refuse(400),
            HTTPException: _refuse_http,
            BusyError: _refuse(503, "all places are taken; try again in a moment", RETRY_SECONDS),
            OutOfTimeError: _refuse(504, f"not done in {site.limits.seconds:g} seconds; fewer "
                                    "steps take less time"),
            Exception: _refuse(500, "the server failed; its console says why"),
        },
        lifespan=lifespan,
    )  # fmt: skip
    app.state.site = site
    return app


def _refuse(
    status: int, text: str | None = None, retry: str | None = None
) -> Callable[[Request, Exception], Response]:
    def handler(request: Request, error: Exception) -> Response:
        message = " ".join((text or str(error)).split())
        headers = {"Retry-After": retry} if retry else None
        return JSONResponse({"error": message}, status, headers)

    return handler


def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


class Site:
    """The endpoints and what they share."""

    def __init__(self, solvers: Sequence[NamedSolver], against: str | None, limits: Limits):
        self.solvers = {named.name: named for named in solvers}
        self.against, self.limits = against, limits
        self.job_queue = JobQueue(limits.places, limits.seconds)
        self.generator = JobQueue(limits.places, limits.seconds)
        self.kinds = by_kind(solvers)

    def _task(self, kind: object) -> Task:
        if not isinstance(kind, str) or kind not in self.kinds:
            raise UserError(f"kind is one of {', '.join(self.kinds)}, not {kind!r:.40}")
        return self.kinds[kind][0].solver.task

    # ------------------------------------------------------------------- what is there
    async def file(self, request: Request) -> Response:
        """The page and its files."""
        name = request.path_params.get("name", "index.html")
        if name == "standalone.html":
            return Response(standalone(), media_type="text/html")
        if name not in ASSETS:
            raise HTTPException(404, "no such page")
        return Response(asset(name), media_type=ASSETS[name])

    async def checkpoints(self, request: Request) -> Response:
        """What is loaded."""
        kinds = describe(self.kinds, self.limits.steps)
        limits = {"seconds": self.limits.seconds}
        about = {
            "kinds": kinds, "levels": LEVELS, "against": self.against, "limits": limits,
            "links": project_links(),
        }  # fmt: skip
        return JSONResponse(about)

    async def example(self, request: Request) -> Response:
        """A generated puzzle."""
        query = request.query_params
        task, level = self._task(query.get("kind")), query.get("level", LEVELS[0])
        seed = query.get("seed", "0")
        if not (seed.isascii() and seed.isdigit() and len(seed) <= 9):
            raise UserError(f"seed is a number of up to 9 digits, not {seed[:40]!r}")
        job = self.generator.submit(lambda check: example(task, level, int(seed)))
        question = await _finished(request, job)
        return JSONResponse({"puzzle": task.question_text(question)})

    # ------------------------------------------------------------------- what is asked
    async def parse(self, request: Request) -> Response:
        """A typed or pasted puzzle as the page keeps it, or what is wrong with it."""
        body = await self._body(request)
        task, text = self._task(body.get("kind")), _text(body, "text")
        question = await run_in_threadpool(task.parse, text)
        return JSONResponse({"puzzle": task.question_text(question)})

    async def solve(self, request: Request) -> Response:
        """The repair of a puzzle by one or two checkpoints."""
        body = await self._body(request)
        chosen = self._chosen(body.get("checkpoints"))
        most = min(most_steps(named, self.limits.steps) for named in chosen)
        steps = body.get("steps", min(chosen[0].config.eval_steps, most))
        if type(steps) is not int or not 1 <= steps <= most:
            raise UserError(f"steps is a number from 1 to {most}, not {steps!r:.40}")
        question: Codes = chosen[0].solver.task.parse(_text(body, "puzzle"))

        def job(check: Callable[[], None]) -> bytes:
            shown = show_repairs(chosen, question, steps, check)
            return json.dumps(shown, separators=(",", ":")).encode()

        answer = await _finished(request, self.job_queue.submit(job))
        return Response(answer, media_type="application/json")

    def _chosen(self, names: object) -> list[NamedSolver]:
        loaded_names = ", ".join(self.solvers)
        if not isinstance(names, list) or not 1 <= len(names) <= 2:
            raise UserError(f"checkpoints is a list of one or two of {loaded_names}")
        for name in names:
            if not isinstance(name, str) or name not in self.solvers:
                raise UserError(f"no checkpoint {name!r:.60}; loaded: {loaded_names}")
        return [self.solvers[name] for name in names]

    async def _body(self, request: Request) -> dict[str, Any]:
        """The JSON object of a request, read no further than the limit."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # also keeps out forms of other sites
            raise HTTPException(415, "send application/json")
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > self.limits.body:
                        raise HTTPException(
                            413, f"the request is larger than {self.limits.body} bytes"
                        )
        except TimeoutError as error:
            raise HTTPException(408, "the request did not arrive in time") from error
        except ClientDisconnect as error:
            raise HTTPException(400, "the request broke off") from error
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise UserError("the request is not JSON") from error
        if not isinstance(value, dict):
            raise UserError("the request is not a JSON object")
        return value


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise UserError(f"{name} must be text")
    return value


async def _finished(request: Request, job: Any) -> Any:
    """The result of a queued job; a visitor who leaves gives up the place in the queue."""
    waiting = asyncio.wrap_future(job)
    while not waiting.done():
        await asyncio.wait({waiting}, timeout=0.5)
        if not waiting.done() and await request.is_disconnected():
            waiting.cancel()
    if waiting.cancelled():
        raise OutOfTimeError
    return waiting.result()
