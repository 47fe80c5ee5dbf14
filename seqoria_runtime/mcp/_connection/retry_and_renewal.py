"""Makes requests to one server: decides when one is made again, and when the server's session is renewed.

A session is renewed when the server answers that it does not know it (`RequestFailed.about` is "session";
`_transport/http` and `_transport/sse` recognize that answer), at most once a request. The breaker counts
each request once.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeVar

import anyio
from anyio import current_effective_deadline, get_cancelled_exc_class
from mcp import ClientSession

from seqoria_runtime._base.retry_policy import RetryPolicy
from seqoria_runtime.mcp._transport.failures import RequestFailed
from seqoria_runtime.models.errors import CircuitOpenError

from .breaker import Breaker, Verdict
from .connection import SingleConnection

T = TypeVar("T")


class Requests:
    """Makes the requests to one server.

    `connected` returns an open connection or raises `RequestFailed`; `renew` replaces a connection whose
    session is gone.
    """

    def __init__(
        self,
        server: str,
        breaker: Breaker,
        policy: RetryPolicy,
        *,
        connected: Callable[[], Awaitable[SingleConnection]],
        renew: Callable[[SingleConnection], None],
    ) -> None:
        self._server = server
        self._breaker = breaker
        self._policy = policy
        self._connected = connected
        self._renew = renew

    async def make(self, ask: Callable[[ClientSession], Awaitable[T]], *, repeatable: bool = False) -> T:
        """Await `ask(session)`, again after a failure that allows it; the breaker counts one call.

        A request that the server may have acted on is made again only if it is `repeatable`. Raises
        `CircuitOpenError`, `RequestFailed`, and what `ask` raises. If the caller is cancelled, `ask` is
        cancelled and not made again; the breaker counts an expired deadline as a failure, and no other
        cancellation.
        """
        admission = self._breaker.admit(anyio.current_time())
        if admission is None:
            raise CircuitOpenError(f"Circuit open for server {self._server!r} - retry later.")
        # Taken before the request: inside a cancelled scope the effective deadline is -inf, and every
        # cancelled turn would count as a time-out of the server.
        deadline = current_effective_deadline()
        verdict: Verdict = "answered"
        try:
            return await self._with_retries(ask, repeatable=repeatable)
        except RequestFailed as failure:
            verdict = _verdict(failure)
            raise
        except get_cancelled_exc_class():
            verdict = "failed" if anyio.current_time() >= deadline else "abandoned"
            raise
        finally:
            self._breaker.settle(admission, verdict, anyio.current_time())

    async def _with_retries(self, ask: Callable[[ClientSession], Awaitable[T]], *, repeatable: bool) -> T:
        attempt, renewed = 1, False
        while True:
            connection = None
            try:
                connection = await self._connected()
                return await connection.request(ask)
            except RequestFailed as failure:
                if failure.about == "session" and not renewed and connection is not None:
                    # A server that does not know the session has done nothing. So this is not a second
                    # attempt: it needs no retry policy, no pause, and no `repeatable`.
                    renewed = True
                    self._renew(connection)
                    continue
                wait = self._wait_after(attempt, failure, repeatable=repeatable)
                if wait is None:
                    raise
            attempt += 1
            await self._policy.sleep(wait)

    def _wait_after(self, attempt: int, failure: RequestFailed, *, repeatable: bool) -> float | None:
        if failure.ran and not repeatable:
            return None
        if failure.about != "transport" and failure.status != HTTPStatus.TOO_MANY_REQUESTS:
            return None
        return self._policy.wait_after(attempt, failure.retry_after)


def _verdict(failure: RequestFailed) -> Verdict:
    if failure.about == "transport":
        return "failed"
    # A request that was never sent (no login, no headers) says nothing about the server's health: counted
    # as a failure it would open the breaker, counted as an answer it would close it.
    return "abandoned" if failure.about in {"login", "caller"} else "answered"
