"""Logins at a real authorization server: one per user, renewed, refused, and never mixed."""

from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest

from seqoria_runtime.mcp import MCPServerConfig, OAuthConfig
from tests.support.fork_server import Command
from tests.support.processes import listening
from tests.support.server_sets import RunningServers, running_servers
from tests.support.sockets import unused_port

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.clause("C102"),
    # The SDK leaves generators of its HTTP client to the garbage collector when it stops reading a stream.
    pytest.mark.filterwarnings("ignore:Async generator '(httpx2|httpcore2|seqoria):ResourceWarning"),
]


@pytest.fixture(scope="module")
def url(forked: Command) -> Iterator[str]:
    """A server behind a login whose access tokens live for an hour."""
    with secured(forked, 3600) as address:
        yield address


@pytest.fixture(scope="module")
def brief_url(forked: Command) -> Iterator[str]:
    """A server behind a login whose access tokens live for a second."""
    with secured(forked, 1) as address:
        yield address


@contextmanager
def secured(forked: Command, seconds: int) -> Generator[str]:
    port = unused_port()
    with listening(forked("oauth_server", str(port), str(seconds)), port):
        yield f"http://127.0.0.1:{port}/mcp"


EXPIRED = 1.1


class Storage:
    """Keeps plain dictionaries, as a file or a database would."""

    def __init__(self) -> None:
        self.tokens: dict[str, Any] | None = None
        self.client: dict[str, Any] | None = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens.model_dump(mode="json")

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info.model_dump(mode="json")


class Browser:
    """Complete a login as a consenting user does; `answer` may change the redirect."""

    def __init__(self, answer: Callable[[str], str] = lambda location: location) -> None:
        self.visits: list[str] = []
        self.pages: list[int] = []
        self._answer = answer

    async def __call__(self, url: str) -> None:
        self.visits.append(url)
        async with httpx2.AsyncClient() as client:
            response = await client.get(url)
            page = await client.get(self._answer(response.headers["location"]))
            self.pages.append(page.status_code)


async def tally(made: RunningServers) -> dict[str, int]:
    text = await made.call("tally")
    return {name: int(count) for name, _, count in (part.partition("=") for part in text.split())}


@asynccontextmanager
async def logged_in(url: str, **options: Any) -> AsyncGenerator[RunningServers, None]:
    async with running_servers(MCPServerConfig(url, oauth=OAuthConfig(**options), name="secure")) as made:
        yield made


async def test_a_login_by_the_loopback_happens_once_and_expired_tokens_are_renewed(
    brief_url: str,
) -> None:
    browser = Browser()
    async with logged_in(brief_url, redirect_handler=browser) as made:
        assert made.status().error is None
        before = await tally(made)
        assert len(browser.visits) == 1
        assert browser.pages == [200]
        await anyio.sleep(EXPIRED)
        after = await tally(made)
        assert after["refresh"] == before["refresh"] + 1
        assert after["authorize"] == before["authorize"]
    assert len(browser.visits) == 1


async def test_stored_tokens_that_have_expired_are_renewed_without_a_login(brief_url: str) -> None:
    browser, storage = Browser(), Storage()
    async with logged_in(brief_url, redirect_handler=browser, storage=storage) as made:
        await tally(made)
    assert len(browser.visits) == 1
    await anyio.sleep(EXPIRED)
    for forget in ("nothing", "expires_at"):
        assert storage.tokens is not None
        storage.tokens.pop(forget, None)
        async with logged_in(brief_url, redirect_handler=browser, storage=storage) as made:
            assert (await tally(made))["refresh"] > 0
        assert len(browser.visits) == 1


async def test_two_clients_with_one_storage_take_over_each_others_renewed_tokens(brief_url: str) -> None:
    browser, storage = Browser(), Storage()
    login = {"redirect_handler": browser, "storage": storage}
    async with logged_in(brief_url, **login) as one, logged_in(brief_url, **login) as two:
        await tally(one)
        for _ in range(2):
            await anyio.sleep(EXPIRED)
            before = await tally(one)
            assert await tally(two) == before
        await anyio.sleep(EXPIRED)
        async with anyio.create_task_group() as group:
            group.start_soon(tally, one)
            group.start_soon(tally, two)
        assert [made.status().state for made in (one, two)] == ["connected", "connected"]
    assert len(browser.visits) == 1


async def test_a_login_is_given_up_when_its_server_is_removed(url: str) -> None:
    asked: list[str] = []
    shown = anyio.Event()

    async def ignore(url: str) -> None:
        asked.append(url)
        shown.set()

    config = MCPServerConfig(url, oauth=OAuthConfig(redirect_handler=ignore), name="secure")
    async with running_servers() as made, anyio.create_task_group() as group:
        group.start_soon(made.servers.add, [config])
        await shown.wait()
        with anyio.fail_after(3):
            await made.servers.remove(["secure"])
        port = urlsplit(parse_qs(urlsplit(asked[0]).query)["redirect_uri"][0]).port
        with pytest.raises(OSError, match=r"."):
            await anyio.connect_tcp("127.0.0.1", port or 0)


async def test_a_refused_login_fails_at_once_and_is_not_asked_for_again_by_itself(url: str) -> None:
    def refuse(location: str) -> str:
        parts = urlsplit(location)
        state = parse_qs(parts.query)["state"][0]
        return f"{parts.scheme}://{parts.netloc}{parts.path}?error=access_denied&state={state}"

    browser = Browser(refuse)
    with anyio.fail_after(20):
        async with logged_in(url, redirect_handler=browser) as made:
            assert made.status().state == "down"
            error = made.status().error
            assert error == "could not be logged in to: the login was refused: access_denied"
            await anyio.sleep(1.5)
            await made.servers.refresh(may_ask=False)
            assert len(browser.visits) == 1
            await made.servers.refresh()
            assert len(browser.visits) == 2


async def test_an_answer_to_another_login_is_not_taken_for_this_one(url: str) -> None:
    statuses: list[int] = []

    class Meddled(Browser):
        async def __call__(self, url: str) -> None:
            back = parse_qs(urlsplit(url).query)["redirect_uri"][0]
            async with httpx2.AsyncClient() as client:
                for wrong in ("?code=stolen&state=another", "?code=stolen", "/x?code=1", ""):
                    response = await client.get(back + wrong)
                    statuses.append(response.status_code)
            await super().__call__(url)

    async with logged_in(url, redirect_handler=Meddled()) as made:
        assert made.status().error is None
    assert statuses == [404] * 4


async def test_two_logins_at_the_same_time_do_not_mix(url: str) -> None:
    browsers = [Browser(), Browser()]
    configs = [
        MCPServerConfig(url, oauth=OAuthConfig(redirect_handler=browser, client_name=f"client {number}"))
        for number, browser in enumerate(browsers)
    ]
    async with running_servers(*configs) as made:
        assert [status.state for status in made.servers.status()] == ["connected", "connected"]
    ports = {parse_qs(urlsplit(browser.visits[0]).query)["redirect_uri"][0] for browser in browsers}
    assert len(ports) == 2


async def test_a_login_takes_its_time_and_the_handshake_does_not_end_it(url: str) -> None:
    class Slow(Browser):
        async def __call__(self, url: str) -> None:
            await anyio.sleep(3)
            await super().__call__(url)

    config = MCPServerConfig(url, oauth=OAuthConfig(redirect_handler=Slow()), timeout=2.5)
    async with running_servers(config) as made:
        assert made.status().error is None


async def test_a_login_that_nobody_completes_ends_after_the_configured_time(url: str) -> None:
    async def ignore(url: str) -> None:
        """Close the window."""

    async with logged_in(url, redirect_handler=ignore, login_timeout=0.5) as made:
        assert made.status().error == "could not be logged in to: nobody logged in within 0.5 s"


async def test_a_service_passes_its_handlers(url: str) -> None:
    back: list[str] = []

    async def show(url: str) -> None:
        async with httpx2.AsyncClient() as client:
            back.append((await client.get(url)).headers["location"])

    async def code_and_state() -> tuple[str, str | None]:
        query = parse_qs(urlsplit(back[-1]).query)
        return query["code"][0], query["state"][0]

    async with logged_in(
        url,
        redirect_uri="https://service.example/callback",
        redirect_handler=show,
        callback_handler=code_and_state,
    ) as made:
        assert made.status().error is None
        assert back[0].startswith("https://service.example/callback?")
    async with logged_in(url, redirect_handler=show, callback_handler=code_and_state) as made:
        assert made.status().error is None


async def test_calls_at_the_same_time_do_not_wait_for_each_other_behind_the_login(url: str) -> None:
    async with logged_in(url, redirect_handler=Browser()) as made:
        await tally(made)
        with anyio.fail_after(3):
            async with anyio.create_task_group() as group:
                for _ in range(8):
                    group.start_soon(call, made, 0.6)


async def call(made: RunningServers, seconds: float) -> None:
    assert await made.call("nap", seconds=seconds) == "rested"


async def test_many_calls_with_expired_tokens_renew_them_once(brief_url: str) -> None:
    async with logged_in(brief_url, redirect_handler=Browser()) as made:
        before = await tally(made)
        await anyio.sleep(EXPIRED)
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(call, made, 0.01)
        after = await tally(made)
        assert after["refresh"] == before["refresh"] + 1
        assert after["authorize"] == before["authorize"]


async def test_a_login_that_is_not_configured_is_reported(url: str) -> None:
    async with running_servers(MCPServerConfig(url, name="secure")) as made:
        error = made.status().error
        assert error is not None
        assert error.startswith("answered HTTP 401 Unauthorized")


async def test_no_listener_is_left_after_a_login(url: str) -> None:
    browser = Browser()
    async with logged_in(url, redirect_handler=browser):
        port = urlsplit(parse_qs(urlsplit(browser.visits[0]).query)["redirect_uri"][0]).port
        with pytest.raises(OSError, match=r"."):
            await anyio.connect_tcp("127.0.0.1", port or 0)


async def test_an_auth_of_the_applications_own_signs_the_requests() -> None:
    from tests.support.mcp_fakes import HTTPFake

    class Signature(httpx2.Auth):
        def auth_flow(self, request: httpx2.Request) -> Any:
            request.headers["x-signature"] = "mine"
            yield request

    server = HTTPFake()
    server.tool("t")
    async with server.serving(), running_servers(MCPServerConfig(server.url, oauth=Signature())) as made:
        assert await made.call("t") == "t"
        assert {headers.get("x-signature") for _, headers in server.headers_of} == {"mine"}
