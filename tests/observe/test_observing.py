"""The events that observers get, and the ready-made observers."""

import logging
import sys
from typing import Any
from xml.etree import ElementTree

import anyio
import pytest

from seqoria_runtime import AsyncAIClient
from seqoria_runtime.client import CallEvent
from seqoria_runtime.models import ToolCallError
from seqoria_runtime.observe import OpenTelemetryObserver, Timeline
from seqoria_runtime.testing import ScriptedProvider, call, calls, says
from tests.support.batches import Lab, assert_idle, request

pytestmark = pytest.mark.clause("C122")


def lab() -> Lab:
    found = Lab()
    found.add("work", "boom")
    found.add("after", depends_on=["boom"])
    found.add("slow", timeout=2.0)
    return found


def kinds(events: list[CallEvent], tool: str) -> list[tuple[str, float]]:
    return [(event.kind, event.time) for event in events if event.request.name == tool]


async def test_every_call_is_told_of_from_its_queue_to_its_end() -> None:
    events: list[CallEvent] = []
    batch = [
        request("work"), request("boom", ok=False), request("after"), request("slow", seconds=9.0),
        request("nobody"),
    ]  # fmt: skip
    await lab().run(*batch, max_concurrency=2, observers=[events.append])
    assert kinds(events, "work") == [("queued", 0), ("started", 0), ("finished", 1)]
    assert kinds(events, "boom") == [("queued", 0), ("started", 0), ("finished", 1)]
    assert kinds(events, "after") == [("queued", 0), ("skipped", 1)]
    assert kinds(events, "slow") == [("queued", 0), ("started", 1), ("finished", 3)]
    assert kinds(events, "nobody") == [("queued", 0), ("finished", 0)]
    ended = [event.outcome.kind for event in events if isinstance(event.outcome, ToolCallError)]
    assert sorted(ended) == ["failed", "skipped", "timed_out", "unknown_tool"]
    assert {event.batch for event in events} == {events[0].batch}
    assert {event.position for event in events} == {0, 1, 2, 3, 4}


async def test_a_cancelled_batch_tells_of_all_its_calls() -> None:
    events: list[CallEvent] = []
    async with lab().client(max_concurrency=1, observers=[events.append]) as client:
        with anyio.move_on_after(0.5):
            await client.run_tool_calls([request("work"), request("slow")])
        assert kinds(events, "work") == [("queued", 0), ("started", 0), ("cancelled", 0.5)]
        assert kinds(events, "slow") == [("queued", 0), ("cancelled", 0.5)]


async def test_the_calls_of_turns_are_told_of_as_well() -> None:
    events: list[CallEvent] = []
    provider = ScriptedProvider([calls(call("work"), call("work")), says("done")])
    async with (
        AsyncAIClient([provider], local_toolbox=lab().tools, observers=[events.append]) as client,
        client.chat("q", history=[]) as turn,
    ):
        async for _ in turn:
            pass
    assert [event.kind for event in events] == ["queued"] * 2 + ["started"] * 2 + ["finished"] * 2


@pytest.mark.parametrize("kind", ["error", "no exception", "cancellation"])
async def test_an_observer_that_fails_is_logged_and_does_no_harm(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    error: BaseException = ValueError("no") if kind == "error" else BaseException("no")
    if kind == "cancellation":
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await anyio.sleep(1)
            except anyio.get_cancelled_exc_class() as cancelled:
                error = cancelled

    def fail(event: CallEvent) -> None:
        raise error

    seen: list[CallEvent] = []
    with caplog.at_level(logging.WARNING, "seqoria_runtime"):
        await lab().run(request("work"), observers=[fail, seen.append])
    assert [record.getMessage() for record in caplog.records] == ["An observer of tool calls failed"] * 3
    assert len(seen) == 3


async def test_an_observer_that_ends_the_program_leaves_no_place_taken() -> None:
    box = lab()

    @box.tools.tool(max_concurrency=1)
    async def scarce() -> None:
        await anyio.sleep(1)

    def interrupt(event: CallEvent) -> None:
        if event.kind == "started":
            raise KeyboardInterrupt

    async with box.client(observers=[interrupt]) as client:
        with pytest.raises(BaseException) as raised:  # noqa: PT011 - asyncio has it bare, trio in groups
            await client.run_tool_calls([request("scarce")] * 2)
        assert "KeyboardInterrupt" in repr(raised.value)
        assert_idle(client)
        [cap] = client.stats().caps
        assert cap.free == cap.limit == 1


async def observe_asynchronously(event: CallEvent) -> None:
    pass


class AsynchronousObserver:
    async def __call__(self, event: CallEvent) -> None:
        pass


@pytest.mark.parametrize("maxlen", [0, -1, True, 2.5])
def test_a_timeline_keeps_a_positive_number_of_calls(maxlen: Any) -> None:
    with pytest.raises(ValueError, match="'maxlen'"):
        Timeline(maxlen)


@pytest.mark.clause("C2")
@pytest.mark.parametrize("observers", [3, [3], [observe_asynchronously], [AsynchronousObserver()]])
def test_what_cannot_observe_is_refused_by_name(observers: Any) -> None:
    with pytest.raises(TypeError, match="'observers' takes"):
        AsyncAIClient([ScriptedProvider([])], observers=observers)


async def test_a_timeline_keeps_times_and_draws_them() -> None:
    timeline = Timeline()
    batch = [request("work"), request("boom", ok=False), request("after"), request("slow", seconds=9.0)]
    await lab().run(*batch, max_concurrency=1, observers=[timeline])
    spans = {span.tool: span for span in timeline.spans}
    assert (spans["slow"].queued, spans["slow"].started, spans["slow"].ended) == (0, 2, 4)
    assert {tool: span.state for tool, span in spans.items()} == {
        "work": "result", "boom": "failed", "after": "skipped", "slow": "failed",
    }  # fmt: skip
    root = ElementTree.fromstring(timeline.svg())
    titles = [node.text for node in root.iter() if node.tag.endswith("title")]
    assert "slow: waited 2 s, ran 2 s, failed" in titles
    timeline.clear()
    assert timeline.spans == ()
    ElementTree.fromstring(timeline.svg())


async def test_a_timeline_shows_what_still_waits_and_runs_and_forgets_the_oldest() -> None:
    timeline = Timeline(maxlen=2)
    async with (
        lab().client(max_concurrency=1, observers=[timeline]) as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(client.run_tool_calls, [request("boom"), request("work"), request("slow")])
        await anyio.sleep(1.5)
        found = {span.tool: span.state for span in timeline.spans}
        assert found == {"work": "running", "slow": "waiting"}
        ElementTree.fromstring(timeline.svg())


class Spans:
    """A tracer and a meter that keep what they get."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, dict[str, Any], str]] = []
        self.recorded: list[tuple[float, dict[str, str]]] = []

    def start_span(self, name: str, *, kind: Any, attributes: dict[str, Any]) -> "Span":
        return Span(self, name, dict(attributes))

    def create_histogram(self, name: str, *, unit: str, description: str) -> "Spans":
        assert (name, unit) == ("gen_ai.client.operation.duration", "s")
        return self

    def record(self, value: float, attributes: dict[str, str]) -> None:
        self.recorded.append((value, attributes))


class Span:
    def __init__(self, owner: Spans, name: str, attributes: dict[str, Any]) -> None:
        self.owner, self.name, self.attributes, self.status = owner, name, attributes, "UNSET"

    def set_attribute(self, name: str, value: str) -> None:
        self.attributes[name] = value

    def set_status(self, status: Any) -> None:
        self.status = status.status_code.name

    def end(self) -> None:
        self.owner.ended.append((self.name, self.attributes, self.status))


async def test_calls_become_spans_and_durations_by_the_conventions() -> None:
    pytest.importorskip("opentelemetry")
    spans = Spans()
    observer = OpenTelemetryObserver(tracer=spans, meter=spans)
    good, bad = request("work", tag="secret"), request("boom", ok=False, tag="secret")
    await lab().run(good, bad, request("nobody"), observers=[observer])
    base = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function"}
    assert sorted(spans.ended) == [
        (
            "execute_tool boom",
            {**base, "gen_ai.tool.name": "boom", "gen_ai.tool.call.id": bad.id, "error.type": "failed"},
            "ERROR",
        ),
        (
            "execute_tool work",
            {**base, "gen_ai.tool.name": "work", "gen_ai.tool.call.id": good.id},
            "UNSET",
        ),
    ]
    assert [value for value, _ in spans.recorded] == [1.0, 1.0]
    assert "secret" not in repr(spans.ended)


def test_the_global_providers_are_the_default() -> None:
    pytest.importorskip("opentelemetry")
    observer = OpenTelemetryObserver()
    assert callable(observer)


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match="pip install opentelemetry-api"):
        OpenTelemetryObserver()
