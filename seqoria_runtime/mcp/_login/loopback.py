"""One login through a browser, which returns to a listener on 127.0.0.1.

Each login opens a new listener and accepts only the answer with its state, so that two never mix.
"""

import webbrowser
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio import Event
from anyio.abc import Listener, SocketAttribute, SocketStream
from mcp.client.auth import AuthorizationCodeResult

from seqoria_runtime._base.redaction import bounded, redact
from seqoria_runtime._execution.calls.threads import run_in_thread
from seqoria_runtime.mcp._config.oauth_config import RedirectHandler

HOST = "127.0.0.1"
PATH = "/callback"

_MAX_REQUEST = 16_384
_READ_SECONDS = 5.0
_MAX_REASON = 200
_PAGE = (
    "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\nconnection: close\r\n\r\n"
    "<!doctype html><title>{title}</title><p>{title}</p>"
)


class LoginRefusedError(Exception):
    """The user or the authorization server refused the login, or nobody logged in in time."""


class LoopbackLogin:
    """One login. `redirect_uri` is where the browser has to return."""

    def __init__(
        self, listener: Listener[SocketStream], redirect_handler: RedirectHandler | None, seconds: float
    ) -> None:
        self._listener = listener
        self._redirect_handler = redirect_handler
        self._seconds = seconds
        self._state: str | None = None
        self._answered = Event()
        self._answer: dict[str, str] = {}
        port = listener.extra(SocketAttribute.local_port)
        self.redirect_uri = f"http://{HOST}:{port}{PATH}"

    @classmethod
    async def open(
        cls, redirect_handler: RedirectHandler | None, *, seconds: float, port: int = 0
    ) -> "LoopbackLogin":
        """Listen on this port, or on any other if it is in use."""
        try:
            listener = await anyio.create_tcp_listener(local_host=HOST, local_port=port)
        except OSError:
            listener = await anyio.create_tcp_listener(local_host=HOST)
        return cls(listener, redirect_handler, seconds)

    async def aclose(self) -> None:
        """Close the listener."""
        await self._listener.aclose()

    async def run(self, url: str) -> AuthorizationCodeResult:
        """Send the user to the authorization server and wait until the browser returns.

        Raises `LoginRefusedError`, at once if the login was refused.
        """
        self._state = parse_qs(urlsplit(url).query).get("state", [None])[0]
        with anyio.move_on_after(self._seconds):
            async with anyio.create_task_group() as group:
                group.start_soon(self._listener.serve, self._receive)
                await self._show(url)
                await self._answered.wait()
                group.cancel_scope.cancel("the browser has returned")
        answer = self._answer
        if not answer:
            raise LoginRefusedError(f"nobody logged in within {self._seconds:g} s")
        if "error" in answer:
            reason = answer.get("error_description") or answer["error"]
            raise LoginRefusedError(f"the login was refused: {bounded(redact(reason), _MAX_REASON)}")
        return AuthorizationCodeResult(
            code=answer.get("code", ""), state=answer.get("state"), iss=answer.get("iss")
        )

    async def _show(self, url: str) -> None:
        if self._redirect_handler is not None:
            await self._redirect_handler(url)
        else:
            await run_in_thread(lambda: webbrowser.open(url))

    async def _receive(self, stream: SocketStream) -> None:
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError, TimeoutError, ValueError):
                with anyio.fail_after(_READ_SECONDS):
                    target = await _request_target(stream)
                    await stream.send(self._take(target).encode())
        if self._answer:
            self._answered.set()

    def _take(self, target: str) -> str:
        """Keep the answer in a request, if it belongs to this login; return the page to show."""
        address = urlsplit(target)
        answer = {name: values[0] for name, values in parse_qs(address.query).items()}
        # Any page in the browser can send requests to 127.0.0.1; only the server knows the state.
        mine = address.path == PATH and answer.get("state") == self._state
        if not mine or not {"code", "error"} & answer.keys():
            return _PAGE.format(status="404 Not Found", title="Nobody is logging in here.")
        self._answer = self._answer or answer
        refused = "error" in answer
        title = "The login was refused." if refused else "You are logged in and may close this window."
        return _PAGE.format(status="200 OK", title=title)


async def _request_target(stream: SocketStream) -> str:
    """Return the path and query of an HTTP request; raise `ValueError` if it is not one."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += await stream.receive()
        if len(head) > _MAX_REQUEST:
            raise ValueError("too long")
    _, target, _ = head.split(b"\r\n", 1)[0].decode("ascii", errors="replace").split(" ")
    return target
