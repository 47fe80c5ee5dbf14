"""Describes requests that got no usable answer, in data and in words."""

from http import HTTPStatus
from typing import Literal, TypeAlias

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR

from seqoria_runtime._base.redaction import bounded, redact

MAX_CAUSE_CHARS = 400
_MAX_BODY_CHARS = 300
_MAY_HAVE_RUN = "it may have taken effect"


FailureSubject: TypeAlias = Literal["transport", "refusal", "session", "login", "caller"]
"""What failed: the path to the server (counts against its health), the server by refusing, the session,
which the server no longer knows, the login (a user may have to log in again), or this side, before asking.
"""


class RequestFailed(MCPError):
    """A request without an answer of the protocol.

    An `MCPError`, because the SDK's tasks handle nothing else. `cause` is a predicate: it is appended to
    `server 'x' `. `ran` is whether the server may have acted on the request. `status` is the HTTP status,
    `retry_after` the wait that the server asked for, in seconds.
    """

    def __init__(
        self,
        cause: str,
        *,
        ran: bool,
        about: FailureSubject = "transport",
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        cause = bounded(redact(cause), MAX_CAUSE_CHARS)
        super().__init__(CONNECTION_CLOSED if status is None else INTERNAL_ERROR, cause)
        self.cause = cause
        self.ran = ran
        self.about = about
        self.status = status
        self.retry_after = retry_after

    def unsent(self) -> "RequestFailed":
        """Return this failure for a request that was never sent because of it."""
        return RequestFailed(
            self.cause, ran=False, about=self.about, status=self.status, retry_after=self.retry_after
        )

    def sentence(self, server: str) -> str:
        """Return the failure as a sentence about the server with this name."""
        effect = f"; {_MAY_HAVE_RUN}" if self.ran else ""
        return f"server {server!r} {self.cause}{effect}"


def http_failure(
    status: int, body: str, *, retry_after: float | None = None, session_gone: bool = False
) -> RequestFailed:
    """Return the failure for an unsuccessful HTTP status, with the start of the body."""
    try:
        phrase = f" {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = ""
    text = " ".join(body.split())
    shown = f": {bounded(text, _MAX_BODY_CHARS)}" if text else ""
    broken = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    about: FailureSubject = "session" if session_gone else "transport" if broken else "refusal"
    return RequestFailed(
        f"answered HTTP {status}{phrase}{shown}",
        # A gateway that lost its server (502, 504) may have forwarded the request first.
        ran=broken and status != HTTPStatus.SERVICE_UNAVAILABLE,
        about=about,
        status=status,
        retry_after=retry_after,
    )


def first_cause(exc: BaseException) -> BaseException:
    """Return the first exception in a group of any depth, or the exception itself."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc


def describe(exc: BaseException) -> str:
    """Return an exception's type and message."""
    text = str(exc).strip()
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def connect_failure(exc: BaseException) -> RequestFailed:
    """Return the failure for an exception that ended an attempt to connect."""
    cause = first_cause(exc)
    if isinstance(cause, RequestFailed):
        return cause
    if isinstance(cause, MCPError):
        return RequestFailed(f"refused the handshake: {cause}", ran=False, about="refusal")
    return RequestFailed(f"could not be connected: {describe(cause)}", ran=False)
