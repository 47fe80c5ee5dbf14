"""Owns what the room knows of a request that got no usable answer, and how that is said.

Knows no transport: each transport says by a `RequestFailed` what happened to it.
"""

from http import HTTPStatus
from typing import Literal, TypeAlias

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR

from seqoria_runtime._base.redaction import bounded, redact

MAX_CAUSE_CHARS = 400
_MAX_BODY_CHARS = 300
_MAY_HAVE_RUN = "it may have taken effect"


FailureOf: TypeAlias = Literal["transport", "refusal", "session", "login", "caller"]
"""Whose a failure is: the way to the server, which speaks against its health; the server's, which refused;
the session's, which the server knows no longer; the login's, for which a person may be asked again; or
this side's, which did not ask.
"""


class RequestFailed(MCPError):
    """A request that was not answered by the server's own protocol.

    An `MCPError`, since the SDK's tasks take nothing else. `cause` goes on the sentence that begins
    with the server's name. `ran` tells whether the server may have acted on the request. `status` is
    that of HTTP, `retry_after` the wait asked for, in seconds.
    """

    def __init__(
        self,
        cause: str,
        *,
        ran: bool,
        about: FailureOf = "transport",
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

    def before_it_was_sent(self) -> "RequestFailed":
        """The same failure for a request that was never sent because of it."""
        return RequestFailed(
            self.cause, ran=False, about=self.about, status=self.status, retry_after=self.retry_after
        )

    def said_of(self, server: str) -> str:
        """The failure as a sentence about the server of this name."""
        effect = f"; {_MAY_HAVE_RUN}" if self.ran else ""
        return f"server {server!r} {self.cause}{effect}"


def http_failure(
    status: int, body: str, *, retry_after: float | None = None, session_gone: bool = False
) -> RequestFailed:
    """The failure that an HTTP status other than success is; the body is cut short."""
    try:
        phrase = f" {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = ""
    text = " ".join(body.split())
    said = f": {bounded(text, _MAX_BODY_CHARS)}" if text else ""
    broken = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    about: FailureOf = "session" if session_gone else "transport" if broken else "refusal"
    return RequestFailed(
        f"answered HTTP {status}{phrase}{said}",
        # A gateway that lost its server may have passed the request on before.
        ran=broken and status != HTTPStatus.SERVICE_UNAVAILABLE,
        about=about,
        status=status,
        retry_after=retry_after,
    )


def first_cause(exc: BaseException) -> BaseException:
    """The first exception in a group of any depth, which is its reason."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc


def describe(exc: BaseException) -> str:
    """An exception in words: its message, with its type where that says too little."""
    text = str(exc).strip()
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def connect_failure(exc: BaseException) -> RequestFailed:
    """What the exception that ended an attempt to connect says about the server."""
    cause = first_cause(exc)
    if isinstance(cause, RequestFailed):
        return cause
    if isinstance(cause, MCPError):
        return RequestFailed(f"refused the handshake: {cause}", ran=False, about="refusal")
    return RequestFailed(f"could not be connected: {describe(cause)}", ran=False)
