"""Connections within limits: nobody holds a place in the server by sending nothing.

A request's headers must arrive within `Limits.header_seconds`, and one address has at most
`Limits.peer_connections` connections. What a request may then ask for is up to `server.py`.
"""

import asyncio

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from focus.web.server import RETRY_SECONDS, Limits

_REFUSAL = (
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    f"Retry-After: {RETRY_SECONDS}\r\nConnection: close\r\n\r\n"
    '{"error": "too many connections from your address; close some and try again"}'
).encode()


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 that closes connections without a request, and those of a peer that has too many."""

    limits: Limits
    peer: str | None = None
    header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Refuse the connection if its peer has too many, else wait for the first headers."""
        super().connection_made(transport)
        self.peer = self.client[0] if self.client else None
        peers = [other.peer for other in self.connections if isinstance(other, BoundedProtocol)]
        if peers.count(self.peer) > self.limits.peer_connections:
            transport.write(_REFUSAL)
            transport.close()
        else:
            self._time_headers()

    def data_received(self, data: bytes) -> None:
        """Take what has come; it may be all of the headers."""
        super().data_received(data)
        self._time_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_timer()
        super().connection_lost(exc)

    def _time_headers(self) -> None:
        """Let the timer run while there is no request; what trickles in does not restart it."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self.header_timer is None:
            seconds = self.limits.header_seconds
            self.header_timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        if self.header_timer is not None:
            self.header_timer.cancel()
            self.header_timer = None


def make_server(app: Starlette) -> uvicorn.Server:
    """The server of an app of `make_app`, within the limits of that app."""
    limits: Limits = app.state.site.limits
    config = uvicorn.Config(
        app,
        http=type("Protocol", (BoundedProtocol,), {"limits": limits}),
        ws="none",  # a connection that became a web socket would be out of these limits
        log_level="warning",
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=3,
    )
    return uvicorn.Server(config)
