"""Servers over Streamable HTTP and over SSE: statuses, broken sockets, lost sessions, headers."""

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from seqoria_runtime._base.tools import ToolFailure
from seqoria_runtime.mcp import MCPServerConfig
from tests.support.mcp_fakes import HTTPFake, Json, text_result
from tests.support.server_sets import running_servers
from tests.support.sockets import Asked, serve_http, unused_port

pytestmark = pytest.mark.real_time

WAYS = ["modern", "legacy", "sse"]
HALF = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{"


def fake(way: str) -> HTTPFake:
    server = HTTPFake(modern=way == "modern")
    server.tool("echo")
    return server


def config(server: HTTPFake, way: str, **options: Any) -> MCPServerConfig:
    if way == "sse":
        return MCPServerConfig(server.sse_url, "sse", name="fake", **options)
    return MCPServerConfig(server.url, name="fake", **options)


def on_call(act: Callable[[Asked], Any]) -> Callable[[Asked, Json], Any]:
    async def on_post(asked: Asked, message: Json) -> bool:
        if message.get("method") != "tools/call" or message["params"]["name"] != "fail":
            return False
        await act(asked)
        return True

    return on_post


@pytest.mark.case("K4")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (403, b'{"error": "not yours"}', 'HTTP 403 Forbidden: {"error": "not yours"}'),
        (401, b"", "HTTP 401 Unauthorized"),
        (500, b"<html>" + b"very sorry " * 1000, "HTTP 500 Internal Server Error: <html>very sorry"),
        (429, b"slow down", "HTTP 429 Too Many Requests: slow down"),
    ],
)
async def test_a_refusal_of_one_request_fails_that_call_with_status_and_server(
    way: str, status: int, body: bytes, said: str
) -> None:
    server = fake(way)
    server.tool("fail")

    async def refuse(asked: Asked) -> None:
        await asked.respond(status, body, content_type="text/html", retry_after="7")

    server.on_post = on_call(refuse)
    async with server.serving(), HTTPFake("healthy").serving() as healthy:
        healthy.tool("fine")
        async with running_servers(config(server, way), config(healthy, "legacy")) as made:
            with anyio.fail_after(5):
                failure = await made.failure("fail")
            assert failure.kind == "failed"
            assert f"server 'fake' answered {said}" in str(failure)
            assert len(str(failure)) < 500
            assert ("may have taken effect" in str(failure)) == (status == 500)
            assert await made.call("echo") == "echo"
            assert await made.call("fine") == "fine"
            assert [one.state for one in made.servers.status()] == ["connected", "connected"]
            assert server.connections == 1


@pytest.mark.case("K4")
@pytest.mark.parametrize("way", ["modern", "legacy"])
async def test_an_answer_of_the_wrong_kind_fails_that_call(way: str) -> None:
    server = fake(way)
    server.tool("fail")

    async def misspeak(asked: Asked) -> None:
        await asked.respond(200, b"<html>hello</html>", content_type="text/html")

    server.on_post = on_call(misspeak)
    async with server.serving(), running_servers(config(server, way)) as made:
        with anyio.fail_after(5):
            failure = await made.failure("fail")
        assert "server 'fake' answered" in str(failure)
        assert "text/html" in str(failure)
        assert await made.call("echo") == "echo"


RESULT = b'{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "ok"}]}}'


@pytest.mark.case("K4")
@pytest.mark.parametrize("way", ["modern", "legacy"])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (RESULT, "ok"),
        (RESULT.replace(b"ok", rb"\ud83d!"), "?!"),
        (RESULT.replace(b"ok", b"\xff!"), "\ufffd!"),
        (RESULT.replace(b"ID", b"987654"), "ok"),
        (b'[{"jsonrpc": "2.0", "method": "x"}, ' + RESULT + b"]", "ok"),
        (b'{"jsonrpc": "2.0", "method": "x"}', "not an answer to the request"),
        (b'{"jsonrpc": "2.0", "id": ID, "result": null}', "neither a result nor an error"),
        (b'{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "who?"}}', "who?"),
        (b"", "not an answer to the request"),
    ],
)
async def test_what_a_body_of_json_says_is_the_answer_to_its_request(
    way: str, body: bytes, said: str
) -> None:
    server = fake(way)
    server.tool("fail")

    async def answer(asked: Asked) -> None:
        request = json.dumps(json.loads(asked.body)["id"]).encode()
        await asked.respond(200, body.replace(b"ID", request), content_type="application/json")

    server.on_post = on_call(answer)
    async with server.serving(), running_servers(config(server, way)) as made:
        with anyio.fail_after(5):
            try:
                heard = await made.call("fail")
            except ToolFailure as failure:
                heard = str(failure)
        assert said in heard
        assert await made.call("echo") == "echo"
        assert server.connections == 1


@pytest.mark.case("K4")
# The SDK leaves generators of its HTTP client to the garbage collector when it stops reading a stream.
@pytest.mark.filterwarnings("ignore:Async generator '(httpx2|httpcore2|seqoria):ResourceWarning")
@pytest.mark.parametrize("way", ["modern", "legacy"])
async def test_half_a_character_in_an_event_does_not_cost_the_answer(way: str) -> None:
    server = fake(way)
    server.tool("fail")

    async def answer(asked: Asked) -> None:
        request = json.dumps(json.loads(asked.body)["id"]).encode()
        event = b"data: " + RESULT.replace(b"ID", request).replace(b"ok", rb"\ud83d!") + b"\n\n"
        await asked.start_stream("text/event-stream")
        for cut in range(0, len(event), 7):
            await asked.send(event[cut : cut + 7])

    server.on_post = on_call(answer)
    async with server.serving(), running_servers(config(server, way)) as made:
        assert await made.call("fail") == "\ufffd!"


@pytest.mark.case("K4")
# The HTTP client leaves its generators to the garbage collector then, which warns on trio.
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore:Async gen:ResourceWarning"
)
async def test_a_body_that_cannot_be_decoded_fails_its_call_alone() -> None:
    server = fake("modern")
    server.tool("fail")

    async def answer(asked: Asked) -> None:
        await asked.respond(200, b"no gzip", content_type="application/json", content_encoding="gzip")

    server.on_post = on_call(answer)
    async with server.serving(), running_servers(config(server, "modern")) as made:
        failure = await made.failure("fail")
        assert "server 'fake' sent what cannot be read (DecodingError" in str(failure)
        assert "it may have taken effect" in str(failure)
        assert await made.call("echo") == "echo"


@pytest.mark.case("K4")
@pytest.mark.clause("C105")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("part", [b"", HALF], ids=["nothing", "half"])
async def test_a_broken_socket_fails_one_call_and_its_server_is_connected_again(
    way: str, part: bytes
) -> None:
    server = fake(way)
    server.tool("fail")
    server.tool("hold")
    release, entered = anyio.Event(), anyio.Event()

    async def hold(arguments: Json) -> Json:
        entered.set()
        await release.wait()
        return text_result("held to the end")

    async def reset(asked: Asked) -> None:
        if part:
            await asked.send(part)
        await asked.abort()

    server.handlers["hold"] = hold
    server.on_post = on_call(reset)
    async with server.serving(), running_servers(config(server, way)) as made:
        held: list[str] = []

        async def call_hold() -> None:
            held.append(await made.call("hold"))

        async with anyio.create_task_group() as group:
            group.start_soon(call_hold)
            await entered.wait()
            with anyio.fail_after(5):
                failure = await made.failure("fail")
            assert "server 'fake' was lost before it had answered" in str(failure)
            assert "it may have taken effect" in str(failure)
            assert await made.call("echo") == "echo"
            release.set()
        assert held == ["held to the end"]
        assert server.calls() == ["hold", "echo"]
        assert server.connections == 2


@pytest.mark.clause("C105")
@pytest.mark.parametrize("way", ["modern", "legacy"])
async def test_an_event_stream_that_breaks_off_fails_its_call(way: str) -> None:
    server = fake(way)
    server.tool("fail")

    async def break_off(asked: Asked) -> None:
        await asked.start_stream("text/event-stream")
        await asked.send(b": hello\n\n")

    server.on_post = on_call(break_off)
    async with server.serving(), running_servers(config(server, way)) as made:
        failure = await made.failure("fail")
        assert "was lost before it had answered" in str(failure)
        assert "may have taken effect" in str(failure)
        assert await made.call("echo") == "echo"


@pytest.mark.clause("C105")
@pytest.mark.parametrize("way", WAYS)
async def test_a_server_that_vanishes_fails_its_calls_and_is_found_again_when_it_is_back(way: str) -> None:
    server = fake(way)
    port = unused_port()
    async with running_servers() as made:
        async with server.serving(port):
            await made.servers.add([config(server, way, timeout=5.0)])
            assert await made.call("echo") == "echo"
        with anyio.fail_after(10):
            failures = [await made.failure("echo") for _ in range(2)]
        assert failures[-1].kind == "unavailable"
        assert "server 'fake' could not be reached" in str(failures[-1])
        assert made.status().state in {"down", "connecting"}
        assert made.names() == ["echo"]
        server.sessions.clear()
        server.dies = anyio.Event()
        server.peers.clear()
        async with server.serving(port):
            assert await made.call("echo") == "echo"
            assert made.status().state == "connected"


@pytest.mark.clause("C105")
@pytest.mark.case("K1")
@pytest.mark.parametrize("way", WAYS)
async def test_a_server_that_vanishes_in_mid_call_fails_its_open_calls_at_once_by_name(way: str) -> None:
    server, healthy = fake(way), fake("modern")
    server.name = "doomed"
    entered = 0

    async def hold(arguments: Json) -> Json:
        nonlocal entered
        entered += 1
        await anyio.sleep_forever()
        raise AssertionError

    server.tool("hold", hold)
    healthy.tool("fine")
    said: list[str] = []
    async with healthy.serving(), running_servers(MCPServerConfig(healthy.url, name="healthy")) as made:

        async def call() -> None:
            said.append(str(await made.failure("hold")))

        async with anyio.create_task_group() as group:
            async with server.serving():
                await made.servers.add([config(server, way)])
                for _ in range(3):
                    group.start_soon(call)
                while entered < 3:
                    await anyio.sleep(0.005)
            with anyio.fail_after(2):
                while len(said) < 3:
                    await anyio.sleep(0.005)
        assert len(set(said)) == 1
        assert "Tool 'hold' failed: server 'fake' " in said[0]
        assert said[0].endswith("it may have taken effect")
        assert server.calls() == ["hold"] * 3
        assert await made.call("fine") == "fine"
        assert made.status().state == "connected"


@pytest.mark.clause("C108")
@pytest.mark.parametrize("way", ["modern", "legacy", "sse"])
@pytest.mark.parametrize("silence", ["accepts", "begins"])
async def test_a_silent_server_is_given_up_after_its_timeout(way: str, silence: str) -> None:
    async def say_nothing(asked: Asked) -> None:
        if silence == "begins":
            await asked.start_stream("text/event-stream")
        await anyio.sleep_forever()

    protocol = "2026-07-28" if way == "modern" else way if way == "legacy" else "auto"
    async with serve_http(say_nothing) as origin:
        silent = MCPServerConfig(
            f"{origin}/x", "sse" if way == "sse" else "http", timeout=0.3, protocol=protocol, name="silent"
        )
        with anyio.fail_after(5):
            async with running_servers(silent) as made:
                assert made.status().error == "did not answer within 0.3 s"


@pytest.mark.clause("C105")
@pytest.mark.case("K5")
async def test_a_session_that_an_sse_server_has_lost_is_renewed_once() -> None:
    server = fake("sse")
    refused: list[str] = []

    async def forget(asked: Asked, message: Json) -> bool:
        if message.get("method") == "tools/call" and not refused:
            refused.append(asked.path)
            await asked.respond(404, b"no such session")
            return True
        return False

    server.on_post = forget
    async with server.serving(), running_servers(config(server, "sse")) as made:
        assert await made.call("echo") == "echo"
        assert refused == ["/messages/0"]
        assert server.calls() == ["echo"]
        assert server.connections == 2


@pytest.mark.clause("C105")
@pytest.mark.case("K5")
@pytest.mark.parametrize("status", [404, 400])
async def test_a_lost_session_is_renewed_once_and_each_call_is_made_again_once(status: int) -> None:
    server = fake("legacy")
    server.unknown_session = status
    held = anyio.Event()
    late: list[Asked] = []

    async def on_post(asked: Asked, message: Json) -> bool:
        is_late = message.get("method") == "tools/call" and message["params"]["arguments"].get("late")
        if is_late and asked.headers["mcp-session-id"] == "s1":
            late.append(asked)
            await held.wait()
        return False

    server.on_post = on_post
    async with server.serving(), running_servers(config(server, "legacy")) as made:
        assert server.sessions == {"s1"}
        server.sessions.clear()
        answers: list[str] = []

        async def call(**arguments: Any) -> None:
            answers.append(await made.call("echo", **arguments))

        async with anyio.create_task_group() as group:
            group.start_soon(lambda: call(late=True))
            while not late:
                await anyio.sleep(0.005)
            async with anyio.create_task_group() as three:
                for _ in range(3):
                    three.start_soon(call)
            assert answers == ["echo"] * 3
            assert server.connections == 2
            held.set()
        assert answers == ["echo"] * 4
        assert server.connections == 2
        assert server.calls() == ["echo"] * 4
        assert server.session_of_call.count("s1") == 4
        initializations = [headers for method, headers in server.headers_of if method == "initialize"]
        assert ["mcp-session-id" in headers for headers in initializations] == [False, False]
        assert server.methods().count("tools/list") == 2


@pytest.mark.case("K5")
async def test_a_session_that_is_lost_at_once_again_is_an_error_and_no_loop() -> None:
    server = fake("legacy")

    async def on_post(asked: Asked, message: Json) -> bool:
        if message.get("method") == "tools/call":
            server.asked.append(message)
            await asked.respond(404, b"who are you?")
            return True
        return False

    server.on_post = on_post
    async with server.serving(), running_servers(config(server, "legacy")) as made:
        failure = await made.failure("echo")
        assert "server 'fake' answered HTTP 404 Not Found: who are you?" in str(failure)
        assert server.calls() == ["echo", "echo"]


@pytest.mark.case("K5")
@pytest.mark.parametrize("way", ["http", "sse"])
async def test_a_wrong_url_is_a_plain_error_at_once(way: str) -> None:
    async def no_such_thing(asked: Asked) -> None:
        await asked.respond(404, b"nothing here")

    async with serve_http(no_such_thing) as origin:
        with anyio.fail_after(5):
            async with running_servers(MCPServerConfig(f"{origin}/wrong", way, name="wrong")) as made:
                assert made.status().state == "down"
                assert made.status().error == "answered HTTP 404 Not Found: nothing here"


@pytest.mark.clause("C100")
@pytest.mark.parametrize("way", WAYS)
async def test_fixed_headers_go_with_every_request(way: str) -> None:
    server = fake(way)
    async with server.serving(), running_servers(config(server, way, headers={"X-Tenant": "t1"})) as made:
        assert await made.call("echo") == "echo"
        await made.servers.close()
        assert {headers.get("x-tenant") for _, headers in server.headers_of} == {"t1"}


@pytest.mark.clause("C105")
@pytest.mark.parametrize("way", WAYS)
async def test_a_cancelled_call_is_ended_at_the_server_and_the_next_one_works(way: str) -> None:
    server = fake(way)
    entered, interrupted = anyio.Event(), anyio.Event()

    async def hold(arguments: Json) -> Json:
        entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            interrupted.set()
        raise AssertionError

    server.tool("hold", hold)
    async with server.serving(), running_servers(config(server, way)) as made:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(made.call, "hold")
                await entered.wait()
                scope.cancel()
        with anyio.fail_after(5):
            await interrupted.wait()
            assert await made.call("echo") == "echo"
        assert ("notifications/cancelled" in server.methods()) == (way != "modern")


@pytest.mark.clause("C105")
@pytest.mark.parametrize("way", ["legacy", "sse"])
async def test_a_cancelled_caller_does_not_wait_until_the_server_has_heard_of_it(way: str) -> None:
    server = fake(way)
    entered, told = anyio.Event(), anyio.Event()

    async def hold(arguments: Json) -> Json:
        entered.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def keep_the_notice(asked: Asked, message: Json) -> bool:
        if message.get("method") != "notifications/cancelled":
            return False
        told.set()
        await anyio.sleep_forever()
        return True

    server.tool("hold", hold)
    server.on_post = keep_the_notice
    async with server.serving(), running_servers(config(server, way)) as made:
        with anyio.fail_after(1.5):
            async with anyio.create_task_group() as group:
                group.start_soon(made.call, "hold")
                await entered.wait()
                group.cancel_scope.cancel()
        with anyio.fail_after(10):
            await told.wait()
            assert await made.call("echo") == "echo"
        assert made.status().state == "connected"
        assert server.connections == 1


async def test_a_session_is_ended_at_the_server_when_the_connection_is_closed() -> None:
    server = fake("legacy")
    async with server.serving():
        async with running_servers(config(server, "legacy")):
            assert server.sessions == {"s1"}
        assert server.ended_sessions == ["s1"]


async def test_a_redirect_within_the_server_is_followed_and_one_to_another_is_not() -> None:
    there = fake("legacy")
    async with there.serving():

        async def moved(asked: Asked) -> None:
            await asked.respond(307, location=there.url)

        async with (
            serve_http(moved) as origin,
            running_servers(MCPServerConfig(f"{origin}/mcp", name="moved")) as made,
        ):
            error = made.status().error
            assert error is not None
            assert "not followed" in error
    here = fake("legacy")
    whole = here.handle

    async def slash(asked: Asked) -> None:
        if asked.path == "/mcp":
            await asked.respond(307, location="/mcp/")
        else:
            await whole(asked)

    async with serve_http(slash) as origin, running_servers(MCPServerConfig(origin)) as made:
        assert made.status().error is None
        assert await made.call("echo") == "echo"


async def test_an_address_at_another_server_is_refused() -> None:
    async def lure(asked: Asked) -> None:
        await asked.start_stream("text/event-stream")
        await asked.send(b"event: endpoint\ndata: http://127.0.0.1:1/steal\n\n")
        await anyio.sleep_forever()

    async with serve_http(lure) as origin, running_servers(MCPServerConfig(f"{origin}/sse", "sse")) as made:
        assert made.status().error == "sent an address at another server"


@pytest.mark.parametrize("way", WAYS)
async def test_an_answer_of_several_megabytes_comes_through(way: str) -> None:
    server = fake(way)

    async def much(arguments: Json) -> Json:
        return text_result("x" * 3_000_000)

    server.tool("much", much)
    async with server.serving(), running_servers(config(server, way, max_result_chars=None)) as made:
        assert len(await made.call("much")) == 3_000_000


@pytest.mark.clause("C103")
@pytest.mark.case("K3")
@pytest.mark.parametrize("way", WAYS)
async def test_connections_are_closed_in_any_order_and_calls_in_flight_fail_at_once(way: str) -> None:
    first, second = fake(way), fake(way)
    entered = anyio.Event()

    async def hold(arguments: Json) -> Json:
        entered.set()
        await anyio.sleep_forever()
        raise AssertionError

    first.tool("hold", hold)
    second.tool("other")
    async with first.serving(), second.serving():
        one, two = config(first, way), config(second, way, headers={"X": "2"})
        async with running_servers(one, two) as made:
            said: list[str] = []

            async def call() -> None:
                said.append(str(await made.failure("hold")))

            with anyio.fail_after(5):
                async with anyio.create_task_group() as group:
                    group.start_soon(call)
                    await entered.wait()
                    group.start_soon(made.servers.remove, [one])
            assert said == ["Tool 'hold' failed: server 'fake' was removed; it may have taken effect"]
            assert await made.call("other") == "other"


@pytest.mark.parametrize("way", WAYS)
async def test_no_socket_stays_open_after_a_server_has_been_used_and_closed(way: str) -> None:
    server = fake(way)
    async with server.serving(), running_servers() as made:
        await made.servers.add([config(server, way)])
        await made.call("echo")
        await made.servers.remove(["fake"])
        with anyio.fail_after(5):
            while server.open_connections:
                await anyio.sleep(0.01)
