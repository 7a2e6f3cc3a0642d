"""Whether code that comes with a language model may run: only if the user says so, never a file."""

from contextvars import ContextVar

FLAG = "--trust-remote-code"
remote_code: ContextVar[bool] = ContextVar("remote_code", default=False)
