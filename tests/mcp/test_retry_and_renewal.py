"""When a request is made again and when the breaker opens, with a scripted connection in virtual time."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from mcp import MCPError

from seqoria_runtime._base.retry_policy import RetryPolicy
from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.mcp._connection.breaker import Breaker
from seqoria_runtime.mcp._connection.retry_and_renewal import Requests
from seqoria_runtime.mcp._transport.failures import RequestFailed
from seqoria_runtime.models.errors import CircuitOpenError
from tests.support.mcp_fakes import FakeServer, Json, text_result
from tests.support.server_sets import running_servers

NOT_SENT = RequestFailed("could not be reached", ran=False)
MAY_HAVE_RUN = RequestFailed("was lost", ran=True)
REFUSED = RequestFailed("answered HTTP 403", ran=False, about="refusal", status=403)
BUSY = RequestFailed("answered HTTP 429", ran=False, about="refusal", status=429, retry_after=7.0)
ANSWERED = MCPError(-32602, "no")


class Scripted:
    """A connection and its server: each request meets the next of these exceptions, and then succeeds."""

    def __init__(self, *failures: Exception, **policy: Any) -> None:
        self.failures = list(failures)
        self.attempts: list[float] = []
        self.breaker = Breaker(threshold=3, reset_after=60.0)
        self.requests = Requests(
            "srv",
            self.breaker,
            RetryPolicy(random=lambda: 1.0, **policy),
            connected=self.connected,
            renew=lambda connection: None,
        )

    async def connected(self) -> Any:
        return self

    async def request(self, ask: Callable[[Any], Awaitable[str]]) -> str:
        self.attempts.append(anyio.current_time())
        if self.failures:
            raise self.failures.pop(0)
        return await ask(None)

    async def make(self, *, repeatable: bool = False, seconds: float = 0.0) -> str:
        async def ask(session: Any) -> str:
            await anyio.sleep(seconds)
            return "done"

        return await self.requests.make(ask, repeatable=repeatable)

    async def fail(self, times: int, failure: Exception) -> None:
        for _ in range(times):
            self.failures.append(failure)
            with pytest.raises(type(failure)):
                await self.make()


@pytest.mark.clause("C106")
@pytest.mark.parametrize("failure", [NOT_SENT, MAY_HAVE_RUN, BUSY, REFUSED, ANSWERED])
async def test_by_default_nothing_is_tried_twice(failure: Exception) -> None:
    scripted = Scripted(failure)
    with pytest.raises(type(failure)) as raised:
        await scripted.make(repeatable=True)
    assert raised.value is failure
    assert len(scripted.attempts) == 1


@pytest.mark.clause("C105")
@pytest.mark.clause("C106")
@pytest.mark.parametrize(
    ("failure", "repeatable", "attempts"),
    [
        (NOT_SENT, False, 3),
        (MAY_HAVE_RUN, False, 1),
        (MAY_HAVE_RUN, True, 3),
        (BUSY, False, 3),
        (REFUSED, True, 1),
        (ANSWERED, True, 1),
    ],
)
async def test_what_may_have_run_is_tried_again_only_where_the_server_says_that_it_does_no_harm(
    failure: Exception, repeatable: bool, attempts: int
) -> None:
    scripted = Scripted(*[failure] * 3, max_attempts=3)
    with pytest.raises(type(failure)):
        await scripted.make(repeatable=repeatable)
    assert len(scripted.attempts) == attempts


@pytest.mark.clause("C106")
async def test_between_attempts_lies_the_back_off_or_what_the_server_asked_for() -> None:
    scripted = Scripted(NOT_SENT, NOT_SENT, BUSY, max_attempts=4, backoff_base=2.0)
    begun = anyio.current_time()
    assert await scripted.make() == "done"
    assert [moment - begun for moment in scripted.attempts] == [0, 2, 6, 13]


@pytest.mark.clause("C106")
async def test_a_wait_between_attempts_can_be_cancelled() -> None:
    scripted = Scripted(NOT_SENT, max_attempts=2, backoff_base=20.0)
    with anyio.move_on_after(1):
        await scripted.make()
    assert len(scripted.attempts) == 1


@pytest.mark.clause("C106")
async def test_the_breaker_opens_after_calls_not_attempts_and_one_probe_decides() -> None:
    scripted = Scripted(max_attempts=2, backoff_base=0.0)
    for _ in range(2):
        scripted.failures += [NOT_SENT, NOT_SENT]
        with pytest.raises(RequestFailed):
            await scripted.make()
    assert await scripted.make() == "done"
    for _ in range(3):
        scripted.failures += [NOT_SENT, NOT_SENT]
        with pytest.raises(RequestFailed):
            await scripted.make()
    opened, attempts = anyio.current_time(), len(scripted.attempts)
    with pytest.raises(CircuitOpenError, match="Circuit open for server 'srv' - retry later"):
        await scripted.make()
    assert len(scripted.attempts) == attempts
    await anyio.sleep(60)
    assert anyio.current_time() == opened + 60
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: scripted.make(seconds=5))
        await anyio.sleep(1)
        with pytest.raises(CircuitOpenError):
            await scripted.make()
    assert await scripted.make() == "done"


@pytest.mark.clause("C106")
@pytest.mark.parametrize(
    ("failure", "opens"), [(NOT_SENT, True), (MAY_HAVE_RUN, True), (REFUSED, False), (ANSWERED, False)]
)
async def test_transport_failures_open_the_breaker_and_answers_do_not(
    failure: Exception, opens: bool
) -> None:
    scripted = Scripted()
    await scripted.fail(3, failure)
    assert (scripted.breaker.state(anyio.current_time()) == "open") == opens


@pytest.mark.clause("C106")
@pytest.mark.parametrize("failure", [REFUSED, ANSWERED])
async def test_an_answered_error_ends_the_row_of_failures(failure: Exception) -> None:
    scripted = Scripted()
    await scripted.fail(2, NOT_SENT)
    await scripted.fail(1, failure)
    await scripted.fail(2, NOT_SENT)
    assert scripted.breaker.state(anyio.current_time()) == "closed"


@pytest.mark.clause("C106")
async def test_timeouts_count_and_other_cancellations_do_not() -> None:
    scripted = Scripted()
    for _ in range(5):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: scripted.make(seconds=100))
                await anyio.sleep(1)
                scope.cancel()
    assert scripted.breaker.state(anyio.current_time()) == "closed"
    for _ in range(3):
        with anyio.move_on_after(1):
            await scripted.make(seconds=100)
    assert scripted.breaker.state(anyio.current_time()) == "open"


@pytest.mark.clause("C106")
async def test_a_header_function_that_fails_says_nothing_of_the_server() -> None:
    scripted = Scripted()
    await scripted.fail(5, RequestFailed("was not asked", ran=False, about="caller"))
    assert scripted.breaker.state(anyio.current_time()) == "closed"


@pytest.mark.clause("C106")
async def test_the_breaker_of_one_server_leaves_the_others_alone() -> None:
    bad, good = FakeServer("bad"), FakeServer("good")

    async def hang(arguments: Json) -> Json:
        await anyio.sleep_forever()
        raise AssertionError

    bad.tool("hang", hang)
    good.tool("fine")
    configs = [MCPServerConfig(server=bad), MCPServerConfig(server=good)]
    async with running_servers(*configs, breaker_threshold=2, breaker_reset_after=10.0) as made:
        for _ in range(2):
            with anyio.move_on_after(1):
                await made.call("hang")
        failure = await made.failure("hang")
        assert failure.kind == "circuit_open"
        assert str(failure) == "Tool 'hang' failed: Circuit open for server 'bad' - retry later."
        assert [status.breaker for status in made.servers.status()] == ["open", "closed"]
        assert await made.call("fine") == "fine"
        assert bad.interrupted == ["hang", "hang"]


@pytest.mark.clause("C101")
async def test_an_error_result_is_a_failure_that_is_never_tried_again() -> None:
    server = FakeServer()

    async def refuse(arguments: Json) -> Json:
        return {**text_result("db down"), "isError": True, "structuredContent": {"code": "E7"}}

    server.tool("t", refuse, annotations={"idempotentHint": True})
    policy = RetryPolicy(max_attempts=5, backoff_base=0.0)
    async with running_servers(MCPServerConfig(server=server), policy=policy, breaker_threshold=1) as made:
        for _ in range(3):
            failure = await made.failure("t")
            assert failure.kind == "failed"
            assert str(failure) == 'Tool \'t\' failed: db down\n{"code": "E7"}'
        assert server.calls() == ["t"] * 3


@pytest.mark.clause("C105")
async def test_a_repeatable_call_of_a_server_that_died_is_made_again_where_retries_are_allowed() -> None:
    server = FakeServer()
    deaths = 0

    async def die_once(arguments: Json) -> Json:
        nonlocal deaths
        deaths += 1
        if deaths == 1:
            server.die()
            await anyio.sleep_forever()
        return text_result("alive")

    server.tool("read", die_once, annotations={"readOnlyHint": True})
    server.tool("write", die_once)
    policy = RetryPolicy(max_attempts=2, backoff_base=0.0)
    async with running_servers(MCPServerConfig(server=server), policy=policy) as made:
        assert await made.call("read") == "alive"
        deaths = 0
        assert "may have taken effect" in str(await made.failure("write"))
        assert server.calls() == ["read", "read", "write"]
