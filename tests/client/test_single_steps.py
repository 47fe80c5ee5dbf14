from typing import Any

import anyio
import pytest

from seqoria_runtime.models import (
    AssistantMessage,
    ChatChunk,
    ToolCallRequestList,
    UserMessage,
)
from seqoria_runtime.models.errors import (
    ClientStateError,
    ProviderProtocolError,
    RateLimitError,
    UnexpectedToolCallError,
)
from seqoria_runtime.testing import call, calls, emits, fails, says, stalls
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.histories import check_history
from tests.support.talk import Talk, collect

pytestmark = pytest.mark.clause("C80")

FORMS = ["generate", "stream"]


async def step(talk: Talk, form: str, **options: Any) -> Any:
    """The response of one step, on a client that is open for it alone."""
    async with talk.client:
        if form == "generate":
            return await talk.client.llm_generate_once(talk.history, **options)
        async with talk.client.llm_stream_once(talk.history, **options) as stream:
            return (await collect(stream))[-1]


async def test_a_streamed_step_yields_deltas_and_then_the_response() -> None:
    talk = Talk(calls(call("work", tag="a"), text="let me see", chunks=2))
    async with talk.client:
        events = await collect(talk.client.llm_stream_once(talk.history, append_user_message="q"))
    assert [type(event) for event in events] == [ChatChunk, ChatChunk, ToolCallRequestList]
    assert [event.content for event in events[:2]] == ["let m", "e see"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("content", ["q", [{"type": "text", "text": "q"}]])
async def test_a_step_appends_the_user_message_and_nothing_else(form: str, content: Any) -> None:
    talk = Talk(calls(call("work", tag="a")))
    response = await step(talk, form, append_user_message=content)
    assert isinstance(response, ToolCallRequestList)
    assert talk.history == [UserMessage(content=content)]
    assert talk.deeds.begun == []


@pytest.mark.parametrize("form", FORMS)
async def test_a_step_without_a_user_message_appends_nothing(form: str) -> None:
    talk = Talk(says("hi"))
    talk.history.append(UserMessage(content="q"))
    response = await step(talk, form)
    assert response.content == "hi"
    assert talk.history == [UserMessage(content="q")]
    assert talk.model.requests[0].messages == (UserMessage(content="q"),)


@pytest.mark.parametrize("form", FORMS)
async def test_a_manual_loop_that_appends_what_it_got_loses_nothing(form: str) -> None:
    script = [calls(call("work", tag="a"), text="so", thinking="hm"), says("done")]
    talk, twin = Talk(*script), Talk(*script)
    batch = await step(talk, form, append_user_message="q")
    async with talk.client:
        outcomes = await talk.client.run_tool_calls(batch)
    talk.history.append(batch.message)
    for request, outcome in zip(batch.tool_calls, outcomes, strict=True):
        talk.history += [request, outcome]
    talk.history.append(await step(talk, form))
    await twin.chat()
    check_history(talk.history)
    assert [request.messages for request in talk.model.requests] == [
        request.messages for request in twin.model.requests
    ]


@pytest.mark.clause("C17")
@pytest.mark.parametrize("form", FORMS)
async def test_a_step_puts_the_system_prompt_in_front_too(form: str) -> None:
    talk = Talk(says("hi"), says("ho"), system_prompt="be kind")
    for _ in range(2):
        await step(talk, form, append_user_message="q")
    assert talk.roles == ["system", "user", "user"]


@pytest.mark.parametrize("form", FORMS)
async def test_a_step_tells_of_the_tools_and_forces_a_choice_only_where_it_is_asked_to(form: str) -> None:
    talk = Talk(*[says("hi")] * 4)
    await step(talk, form)
    await step(talk, form, tool_choice="work", model="big")
    await step(talk, form, use_tools=False, tool_choice="required")
    untooled = Talk(says("hi"), tools=LocalToolbox())
    await step(untooled, form, tool_choice="required")
    asked = [*talk.model.requests, *untooled.model.requests]
    assert [len(request.tools) for request in asked] == [5, 5, 0, 0]
    assert [request.tool_choice for request in asked] == ["auto", "work", None, None]
    assert [request.model for request in asked] == [None, "big", None, None]


@pytest.mark.clause("C18")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (fails(RateLimitError("slow down")), RateLimitError),
        (says("abc", chunks=3).fails(RateLimitError("slow down")), RateLimitError),
        (emits(ToolCallRequestList()), ProviderProtocolError),
        (says("half").cuts_off(), ProviderProtocolError),
    ],
)
async def test_a_step_that_fails_takes_its_user_message_back(
    form: str, reply: Any, error: type[Exception]
) -> None:
    talk = Talk(reply)
    talk.history += [UserMessage(content="q"), AssistantMessage(content="a")]
    with pytest.raises(error):
        await step(talk, form, append_user_message="q")
    assert talk.roles == ["user", "assistant"]


@pytest.mark.parametrize("form", FORMS)
async def test_a_call_that_nobody_offered_is_the_models_error(form: str) -> None:
    talk = Talk(calls(call("work", tag="a")))
    with pytest.raises(UnexpectedToolCallError):
        await step(talk, form, use_tools=False, append_user_message="q")
    assert talk.history == []


@pytest.mark.clause("C18")
@pytest.mark.parametrize("form", FORMS)
async def test_a_cancelled_step_takes_its_user_message_back_and_closes_the_models_stream(form: str) -> None:
    talk = Talk(says("abc", chunks=3).stalls(after=2))
    with anyio.move_on_after(1) as scope:
        await step(talk, form, append_user_message="q")
    assert scope.cancelled_caught
    assert talk.history == []
    assert talk.model.open_streams == 0


@pytest.mark.clause("C18", "C36")
async def test_a_streamed_step_settles_as_it_is_read_or_closed() -> None:
    talk = Talk(says("hi"), says("hi"), stalls())
    async with talk.client:
        stream = talk.client.llm_stream_once(talk.history, append_user_message="q")
        await anyio.sleep(1)
        assert talk.history == []
        assert len(await collect(stream)) == 2
        assert talk.roles == ["user"]
        talk.history.clear()
        unread = talk.client.llm_stream_once(talk.history, append_user_message="q")
        await anext(unread)
        await anyio.sleep(1)
        await unread.aclose()
        assert talk.history == []
        stalled = talk.client.llm_stream_once(talk.history, append_user_message="q")
        with anyio.move_on_after(1):
            await anext(stalled)
        assert talk.roles == ["user"]
        await stalled.aclose()
        assert talk.history == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"append_user_message": 3}, "'append_user_message' must be text or a non-empty list"),
        ({"append_user_message": []}, "'append_user_message' must be text or a non-empty list"),
        ({"use_tools": 1}, "'use_tools' must be True or False"),
        ({"tool_choice": None}, "'tool_choice' must be"),
        ({"model": 3}, "'model' must be a model's name"),
    ],
)
async def test_a_wrong_option_is_refused_by_name(form: str, options: dict[str, Any], text: str) -> None:
    talk = Talk(says("hi"))
    with pytest.raises(TypeError, match=text):
        await step(talk, form, **options)
    assert talk.history == []


@pytest.mark.parametrize("form", FORMS)
async def test_a_bad_history_is_refused_and_left_as_it_is(form: str) -> None:
    talk = Talk(says("hi"), system_prompt="be kind")
    talk.history = [{"role": "wizard"}]
    with pytest.raises(ValueError, match=r"history\[0\]"):
        await step(talk, form, append_user_message="q")
    assert talk.history == [{"role": "wizard"}]


@pytest.mark.clause("C3")
async def test_a_step_in_flight_ends_before_its_client_is_left() -> None:
    talk = Talk(stalls())
    ends: list[str] = []

    async def generate() -> None:
        try:
            await talk.client.llm_generate_once(talk.history, append_user_message="q")
        except ClientStateError as error:
            ends.append(str(error))

    async with anyio.create_task_group() as group:
        async with talk.client:
            group.start_soon(generate)
            await anyio.sleep(1)
        assert talk.history == []
        assert talk.model.open_streams == 0
    assert ends == ["the client was closed while this was running"]
