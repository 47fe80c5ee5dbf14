"""Any script of a model, read by any consumer: the rules of a history hold, on both backends alike."""

import warnings
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.client._live_turns import _live
from seqoria_runtime.models import AssistantMessage, ToolMessages
from seqoria_runtime.models.errors import ClientClosedError, ProviderProtocolError, RateLimitError
from seqoria_runtime.testing import Reply, ScriptedProvider, call, calls, run_on_both, says
from tests.support.histories import check_history
from tests.support.tools import Deeds, recording_toolbox
from tests.support.truth import check_truth

TICK = 1 / 64
OFF_BEAT = 1 / 1024
"""What a consumer does never falls into the very moment of what a model or a tool does."""

Ending = Literal["none", "scope", "aclose", "drop", "client"]


@dataclass(frozen=True)
class Plan:
    """A turn and what its consumer does with it."""

    replies: tuple[Reply, ...]
    ending: Ending
    when: float
    pause: float
    limit: int
    form: str
    options: dict[str, Any] = field(default_factory=dict)


SECONDS = st.integers(0, 128).map(lambda ticks: ticks * TICK)


@st.composite
def batches(draw: st.DrawFn, number: int) -> Reply:
    names = draw(
        st.lists(st.sampled_from(["work", "after", "fail", "lingers", "nobody"]), min_size=1, max_size=4)
    )
    requested = [
        call(name, tag=f"{number}.{place}", seconds=draw(SECONDS)) for place, name in enumerate(names)
    ]
    text = draw(st.sampled_from(["", "let me see"]))
    return calls(*requested, text=text, chunks=2 if text else None, delay=draw(SECONDS), every=draw(SECONDS))


@st.composite
def scripts(draw: st.DrawFn) -> tuple[Reply, ...]:
    rounds = [draw(batches(number)) for number in range(draw(st.integers(0, 3)))]
    last = says("all done", chunks=draw(st.integers(1, 4)), delay=draw(SECONDS), every=draw(SECONDS))
    how = draw(st.sampled_from(["answers", "fails", "stalls", "cut"]))
    after = draw(st.integers(0, len(last.events)))
    if how == "fails":
        last = last.fails(RateLimitError("slow down"), after=after)
    if how == "stalls":
        last = last.stalls(after=after)
    if how == "cut":
        last = last.cuts_off(after=after)
    return (*rounds, last)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    form = draw(st.sampled_from(["chat", "stream_chat"]))
    options: dict[str, Any] = {"keep_partial": draw(st.booleans()), "max_turns": draw(st.integers(1, 4))}
    if form == "stream_chat":
        options["tool_events"] = draw(st.booleans())
    return Plan(
        replies=draw(scripts()),
        ending=draw(st.sampled_from(["none", "scope", "aclose", "drop", "client"])),
        when=draw(st.integers(0, 400)) * TICK + OFF_BEAT,
        pause=draw(SECONDS),
        limit=draw(st.integers(1, 3)),
        form=form,
        options=options,
    )


class Playing:
    """One run of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.deeds = Deeds()
        self.history: list[Any] = [{"role": "system", "content": "be kind"}]
        self.seen: list[Any] = []
        self.model = ScriptedProvider(plan.replies)
        self.client = AsyncAIClient(
            [self.model], local_toolbox=recording_toolbox(self.deeds), max_concurrency=plan.limit
        )

    async def play(self) -> None:
        patience = 10_000.0 if self.plan.ending == "none" else self.plan.when
        async with self.client:
            stream = getattr(self.client, self.plan.form)("q", history=self.history, **self.plan.options)
            with anyio.move_on_after(patience):
                if self.plan.ending == "scope":
                    async with stream:
                        await self.read(stream)
                else:
                    await self.read(stream)
            if self.plan.ending in {"none", "aclose"}:
                await stream.aclose()
            if self.plan.ending == "drop":
                await anyio.sleep(0)
                del stream
                await anyio.sleep(0.5)
        if self.plan.ending == "client":
            with suppress(ClientClosedError):
                await self.read(stream)

    async def read(self, stream: Any) -> None:
        with suppress(RateLimitError, ProviderProtocolError):
            async for event in stream:
                self.note(event)
                await anyio.sleep(self.plan.pause)

    def note(self, event: Any) -> None:
        self.seen.append(event)
        if isinstance(event, ToolMessages):
            assert self.history[-len(event) :] == event
        if isinstance(event, AssistantMessage):
            assert self.history[-1] is event

    def check(self) -> None:
        assert not _live
        assert self.model.open_streams == 0
        assert self.client.stats().free_slots == self.plan.limit
        check_truth(self.history, self.deeds)
        for message in self.history:
            if isinstance(message, AssistantMessage) and message.interrupted:
                assert self.plan.options["keep_partial"]

    async def go_on(self) -> None:
        client = AsyncAIClient([ScriptedProvider([says("again")])])
        async with client, client.chat("again", history=self.history) as turn:
            [answer] = [event async for event in turn]
        assert isinstance(answer, AssistantMessage)
        check_history(self.history)


async def play(plan: Plan) -> tuple[list[Any], list[Any]]:
    playing = Playing(plan)
    await playing.play()
    playing.check()
    left = [item if isinstance(item, dict) else item.model_dump() for item in playing.history]
    await playing.go_on()
    return left, [type(event).__name__ for event in playing.seen]


@pytest.mark.clause("C6", "C12", "C18", "C19", "C31")
@given(plans())
def test_any_turn_leaves_a_history_to_go_on_with_and_the_same_one_on_both_backends(plan: Plan) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "this turn was dropped", ResourceWarning)
        on_asyncio, on_trio = run_on_both(play, plan)
    assert on_asyncio == on_trio


@pytest.mark.clause("C12", "C33")
@given(plans())
def test_how_a_consumer_reads_makes_no_difference_to_the_history(plan: Plan) -> None:
    async def main() -> None:
        calm = replace(plan, ending="none", pause=0.0)
        eager, _ = await play(replace(calm, form="chat", options=_for_chat(plan.options)))
        for pause in (0.0, plan.pause):
            slow, _ = await play(replace(calm, pause=pause))
            if not plan.options["keep_partial"]:
                assert slow == eager
            else:
                assert len(slow) == len(eager)

    run_on_both(main)


def _for_chat(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "tool_events"}
