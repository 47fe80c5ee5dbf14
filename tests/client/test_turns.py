import math
from typing import Any

import anyio
import pytest

from seqoria_runtime.client._settings import DEFAULT_SYSTEM_PROMPT
from seqoria_runtime.models import (
    AssistantMessage,
    ChatChunk,
    LLMUsage,
    SystemMessage,
    ToolCallRequestList,
    ToolMessages,
    ToolOutcome,
    UserMessage,
)
from seqoria_runtime.models.errors import ProviderProtocolError, RateLimitError, UnexpectedToolCallError
from seqoria_runtime.testing import call, calls, emits, fails, says
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.histories import check_history
from tests.support.talk import Talk, collect

USAGE = LLMUsage(prompt_tokens=10, completion_tokens=2, total_tokens=12)

TWO_ROUNDS = (
    calls(call("work", tag="a", seconds=3), call("work", tag="b", seconds=1), text="let me see", usage=USAGE),
    says("all done", chunks=["all ", "done"], usage=USAGE),
)
ONE_CALL = calls(call("work", tag="a"))


# Events and history


@pytest.mark.clause("C10", "C12")
async def test_chat_yields_each_round_and_at_last_the_answer_and_appends_them() -> None:
    talk = Talk(*TWO_ROUNDS)
    [messages, answer] = await talk.chat("hello")
    assert isinstance(messages, ToolMessages)
    assert isinstance(answer, AssistantMessage)
    assert talk.roles == [
        *["user", "assistant", "tool_call", "tool_result", "tool_call", "tool_result"],
        "assistant",
    ]
    assert talk.history[0] == UserMessage(content="hello")
    assert talk.history[1].content == "let me see"
    assert all(kept is given for kept, given in zip(talk.history[2:6], messages, strict=True))
    assert talk.history[-1] is answer
    check_history(talk.history)


@pytest.mark.clause("C12")
async def test_calls_and_results_stand_in_the_models_order_whatever_finished_first() -> None:
    talk = Talk(*TWO_ROUNDS)
    [messages, _] = await talk.chat()
    assert talk.deeds.done == ["b", "a"]
    assert [message.arguments["tag"] for message in messages[::2]] == ["a", "b"]
    assert [message.result for message in messages[1::2]] == ["a done", "b done"]
    assert [message.tool_call_id for message in messages[1::2]] == [message.id for message in messages[::2]]


@pytest.mark.clause("C11")
async def test_stream_chat_yields_the_deltas_of_every_round_and_then_the_whole_text() -> None:
    events = await Talk(*TWO_ROUNDS).stream()
    assert [type(event) for event in events] == [
        *[ChatChunk, ToolMessages],
        *[ChatChunk, ChatChunk, AssistantMessage],
    ]
    deltas = [event.content for event in events if isinstance(event, ChatChunk)]
    assert deltas == ["let me see", "all ", "done"]
    assert events[-1].content == "all done"


@pytest.mark.clause("C11")
async def test_reasoning_is_streamed_apart_from_the_text_and_kept_in_the_answer() -> None:
    [thought, text, answer] = await Talk(says("yes", thinking="hmm")).stream()
    assert (thought.content, thought.thinking) == ("", "hmm")
    assert (text.content, text.thinking) == ("yes", None)
    assert (answer.content, answer.thinking) == ("yes", "hmm")


class Chunk(ChatChunk):
    """A provider's own kind of chunk."""


@pytest.mark.clause("C11", "C90")
async def test_a_providers_own_kind_of_chunk_is_passed_on() -> None:
    talk = Talk(emits(Chunk(content="hi"), AssistantMessage(content="hi")))
    assert [type(event) for event in await talk.stream()] == [Chunk, AssistantMessage]


@pytest.mark.clause("C11")
async def test_deltas_arrive_as_they_come_and_outcomes_the_moment_a_call_settles() -> None:
    batch = [call("work", tag="a", seconds=3), call("work", tag="b", seconds=1)]
    talk = Talk(calls(*batch, text="ab", chunks=2, every=0.25), says("done"))
    seen: list[tuple[float, str]] = []
    async with talk.client, talk.client.stream_chat("q", history=talk.history, tool_events=True) as turn:
        async for event in turn:
            what = getattr(getattr(event, "outcome", None), "result", type(event).__name__)
            seen.append((anyio.current_time(), what))
    began = 0.75
    assert seen == [
        (0.0, "ChatChunk"),
        (0.25, "ChatChunk"),
        (began + 1, "b done"),
        (began + 3, "a done"),
        (began + 3, "ToolMessages"),
        (began + 3, "ChatChunk"),
        (began + 3, "AssistantMessage"),
    ]


@pytest.mark.clause("C11")
async def test_an_outcome_event_holds_the_very_messages_of_its_round() -> None:
    events = await Talk(*TWO_ROUNDS).stream(tool_events=True)
    outcomes = [event for event in events if isinstance(event, ToolOutcome)]
    [messages] = [event for event in events if isinstance(event, ToolMessages)]
    pairs = {id(request): outcome for request, outcome in zip(messages[::2], messages[1::2], strict=True)}
    assert len(outcomes) == 2
    assert all(pairs[id(event.request)] is event.outcome for event in outcomes)


@pytest.mark.clause("C12")
@pytest.mark.parametrize("form", ["chat", "stream"])
async def test_the_answers_usage_is_the_sum_over_the_turn_and_unknown_if_no_response_has_any(
    form: str,
) -> None:
    total = LLMUsage(prompt_tokens=20, completion_tokens=4, total_tokens=24)
    for script, usage in [
        (TWO_ROUNDS, total),
        ((calls(call("work", tag="a"), usage=USAGE), says("done")), USAGE),
        ((ONE_CALL, says("done")), None),
    ]:
        [*_, answer] = await getattr(Talk(*script), form)()
        assert answer.usage == usage


@pytest.mark.clause("C12")
async def test_the_answer_is_the_last_response_in_everything_but_the_usage() -> None:
    talk = Talk(calls(call("work", tag="a"), text="first", thinking="hm"), says("done", thinking="so"))
    [*_, answer] = await talk.chat(model="big")
    assert (answer.content, answer.thinking, answer.model) == ("done", "so", "big")
    assert answer.finish_reason == "stop"
    assert [request.model for request in talk.model.requests] == ["big", "big"]


async def test_the_smallest_turns_leave_as_many_messages_as_they_should() -> None:
    plain = Talk(says("hi"), system_prompt="be kind")
    await plain.chat()
    assert plain.roles == ["system", "user", "assistant"]
    one_call = Talk(ONE_CALL, says("done"), system_prompt="be kind")
    await one_call.chat()
    assert one_call.roles == ["system", "user", "tool_call", "tool_result", "assistant"]


# How many rounds


@pytest.mark.clause("C13")
@pytest.mark.parametrize("form", ["chat", "stream"])
async def test_a_model_that_never_stops_asking_is_stopped_at_the_limit(form: str) -> None:
    usage = LLMUsage(prompt_tokens=20, completion_tokens=4, total_tokens=24)
    script = [calls(call("work", tag=str(number)), usage=USAGE) for number in range(2)]
    talk = Talk(*script)
    [first, second, last] = await getattr(talk, form)(max_turns=2)
    assert [type(first), type(second)] == [ToolMessages, ToolMessages]
    assert last == AssistantMessage(content="[Turn limit reached]", finish_reason="turn_limit", usage=usage)
    assert talk.history[-1] is last
    assert talk.deeds.done == ["0", "1"]
    talk.model.assert_exhausted()
    check_history(talk.history)


@pytest.mark.clause("C10")
async def test_a_turn_has_five_rounds_by_default_and_an_answer_in_the_last_is_an_answer() -> None:
    script = [calls(call("work", tag=str(number))) for number in range(5)]
    [*_, last] = await Talk(*script).chat()
    assert last.content == "[Turn limit reached]"
    [*_, last] = await Talk(*script[:4], says("done")).chat()
    assert last.content == "done"


@pytest.mark.clause("C14")
@pytest.mark.parametrize("wrong", [0, -1, True, False, 1.0, "3", None, math.inf])
@pytest.mark.parametrize("form", ["chat", "stream_chat"])
async def test_a_limit_has_to_be_a_positive_integer_at_the_call(form: str, wrong: Any) -> None:
    talk = Talk(says("hi"), system_prompt="be kind")
    async with talk.client:
        with pytest.raises(ValueError, match="'max_turns' must be a positive integer"):
            getattr(talk.client, form)("q", history=talk.history, max_turns=wrong)
    assert talk.history == []
    assert talk.model.requests == ()


# What the model is asked


@pytest.mark.clause("C10")
@pytest.mark.parametrize(
    ("choice", "asked"),
    [
        ("auto", ["auto", "auto", "auto"]),
        ("required", ["required", "auto", "auto"]),
        ("work", ["work", "auto", "auto"]),
        ("none", ["none", "none", "none"]),
    ],
)
async def test_a_forced_tool_choice_holds_for_the_first_round_only(choice: str, asked: list[str]) -> None:
    talk = Talk(ONE_CALL, calls(call("work", tag="b")), says("done"))
    await talk.chat(tool_choice=choice)
    assert [request.tool_choice for request in talk.model.requests] == asked


@pytest.mark.clause("C10")
async def test_a_choice_of_a_tool_that_is_not_there_is_refused_and_leaves_nothing() -> None:
    talk = Talk(says("hi"))
    with pytest.raises(ValueError, match=r"'tool_choice' must be .* not 'wrok'"):
        await talk.chat(tool_choice="wrok")
    assert talk.history == []
    assert talk.model.requests == ()


async def test_without_tools_nothing_is_said_of_tools() -> None:
    talk = Talk(says("hi"), tools=LocalToolbox())
    [answer] = await talk.chat(tool_choice="required")
    assert answer.content == "hi"
    [request] = talk.model.requests
    assert (request.tools, request.tool_choice) == ((), None)


@pytest.mark.parametrize("form", ["chat", "stream"])
async def test_a_call_that_nobody_offered_is_the_models_error(form: str) -> None:
    talk = Talk(calls(call("work", tag="a"), text="well"), tools=LocalToolbox(), system_prompt="be kind")
    with pytest.raises(UnexpectedToolCallError, match="Unexpected tool call without tools") as caught:
        await getattr(talk, form)()
    assert isinstance(caught.value, ValueError)
    assert talk.roles == ["system"]


@pytest.mark.parametrize("form", ["chat", "stream"])
async def test_a_batch_of_no_calls_is_the_models_error(form: str) -> None:
    talk = Talk(emits(ToolCallRequestList()))
    with pytest.raises(ProviderProtocolError, match="no tool calls"):
        await getattr(talk, form)()
    assert talk.history == []


@pytest.mark.parametrize("form", ["chat", "stream"])
async def test_a_stream_without_a_response_is_one_error_and_not_asked_again(form: str) -> None:
    talk = Talk(says("half", chunks=2).cuts_off(after=1))
    with pytest.raises(ProviderProtocolError, match="ended without a response"):
        await getattr(talk, form)()
    assert talk.history == []
    assert len(talk.model.requests) == 1


async def test_content_blocks_stand_in_for_the_query() -> None:
    blocks = [{"type": "text", "text": "look"}, {"type": "image", "url": "https://example.com/a.png"}]
    talk = Talk(says("nice"))
    await talk.chat("ignored", user_message_content=blocks)
    assert talk.history[0] == UserMessage(content=blocks)
    assert talk.model.requests[0].messages == (UserMessage(content=blocks),)


@pytest.mark.parametrize("wrong", ["text", [], ["text"], {"type": "text"}, 3])
async def test_content_has_to_be_a_list_of_blocks(wrong: Any) -> None:
    talk = Talk(says("hi"))
    async with talk.client:
        with pytest.raises(TypeError, match="'user_message_content' must be a non-empty list of content"):
            talk.client.chat("q", history=talk.history, user_message_content=wrong)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"query": None}, "'query' must be a string"),
        ({"model": ""}, "'model' must be a model's name"),
        ({"model": 3}, "'model' must be a model's name"),
        ({"tool_choice": None}, "'tool_choice' must be"),
        ({"tool_choice": ""}, "'tool_choice' must be"),
        ({"keep_partial": 1}, "'keep_partial' must be True or False"),
        ({"context": ["user_id"]}, "'context' must be a mapping"),
        ({"history": ()}, "history must be an application-owned list"),
    ],
)
async def test_a_wrong_option_is_refused_by_name_at_the_call(options: dict[str, Any], text: str) -> None:
    talk = Talk(says("hi"))
    async with talk.client:
        with pytest.raises(TypeError, match=text):
            talk.client.chat(**{"query": "q", "history": talk.history, **options})
    assert talk.history == []


# The application's list


@pytest.mark.clause("C15")
async def test_a_stored_history_works_on_the_next_turn_exactly_as_the_models_did() -> None:
    first = calls(call("work", tag="a"), call("fail", tag="b"), text="so", thinking="hm")
    script = (first, says("done", thinking="well"), says("again"))
    live, stored = Talk(*script, system_prompt="be kind"), Talk(*script, system_prompt="be kind")
    for talk in (live, stored):
        await talk.chat("one")
    stored.history[:] = [
        item if isinstance(item, dict) else item.model_dump(mode="json") for item in stored.history
    ]
    for talk in (live, stored):
        await talk.chat("two")
    assert stored.model.requests[-1] == live.model.requests[-1]
    assert check_history(stored.history) == check_history(live.history)


@pytest.mark.clause("C15")
async def test_the_dictionaries_of_a_history_are_read_once_a_turn() -> None:
    talk = Talk(ONE_CALL, ONE_CALL, says("done"))
    talk.history += [{"role": role, "content": str(n)} for n in range(20) for role in ("user", "assistant")]
    await talk.chat()
    first, *later = [request.messages for request in talk.model.requests]
    for messages in later:
        assert all(read is before for read, before in zip(messages, first, strict=False))


@pytest.mark.clause("C21")
async def test_the_model_is_asked_about_the_list_as_the_application_left_it_at_the_barrier() -> None:
    talk = Talk(ONE_CALL, says("done"))
    talk.history += [{"role": "user", "content": "long"}, {"role": "assistant", "content": "longer"}]
    async with talk.client, talk.client.chat("q", history=talk.history) as turn:
        await anext(turn)
        talk.history[0]["content"] = "short"
        del talk.history[1]
        talk.history.append({"role": "user", "content": "hurry"})
        await anext(turn)
    messages = talk.model.requests[-1].messages
    assert [message.role for message in messages] == ["user", "user", "tool_call", "tool_result", "user"]
    assert (messages[0], messages[-1]) == (UserMessage(content="short"), UserMessage(content="hurry"))


@pytest.mark.clause("C16")
async def test_the_next_turn_knows_what_is_in_the_list_and_nothing_else() -> None:
    talk = Talk(ONE_CALL, says("done"), says("who are you?"))
    await talk.chat("remember this")
    talk.history[:] = [UserMessage(content="another"), AssistantMessage(content="talk")]
    await talk.chat("q")
    assert talk.model.requests[-1].messages == (
        UserMessage(content="another"),
        AssistantMessage(content="talk"),
        UserMessage(content="q"),
    )


async def test_a_provider_may_keep_the_messages_that_it_was_given() -> None:
    talk = Talk(ONE_CALL, says("done"))
    kept: list[Any] = []
    original = talk.model.stream

    def stream(request: Any) -> Any:
        kept.append((request.messages, list(request.messages)))
        return original(request)

    talk.model.stream = stream  # type: ignore[method-assign]
    await talk.chat()
    assert [len(messages) for messages, _ in kept] == [1, 3]
    assert all(list(messages) == then and messages is not talk.history for messages, then in kept)


# The system prompt


@pytest.mark.clause("C17")
@pytest.mark.parametrize(
    ("prompt", "first"),
    [(None, DEFAULT_SYSTEM_PROMPT), ("  be kind ", "be kind"), ("", None), (" \n", None)],
)
async def test_a_history_without_a_system_message_gets_the_clients(
    prompt: str | None, first: str | None
) -> None:
    talk = Talk(says("hi"), says("ho"), system_prompt=prompt)
    for _ in range(2):
        await talk.chat()
    expected = [] if first is None else [{"role": "system", "content": first}]
    assert talk.history[: len(expected)] == expected
    assert talk.roles.count("system") == len(expected)
    shown = talk.model.requests[-1].messages[0]
    assert shown == (UserMessage(content="q") if first is None else SystemMessage(content=first))


@pytest.mark.clause("C17")
@pytest.mark.parametrize("own", [{"role": "system", "content": "mine"}, SystemMessage(content="mine")])
async def test_a_history_keeps_its_first_system_message_under_any_client(own: Any) -> None:
    history: list[Any] = [own]
    for prompt in ("one", "two"):
        talk = Talk(says("hi"), system_prompt=prompt)
        talk.history = history
        await talk.chat()
    assert history[0] is own
    assert [getattr(item, "role", "system") for item in history].count("system") == 1


# Failures of the model


@pytest.mark.clause("C18", "C20")
@pytest.mark.parametrize("form", ["chat", "stream"])
@pytest.mark.parametrize("error", [RateLimitError("slow down"), KeyError("bug"), BaseException("odd")])
async def test_a_failure_in_the_first_round_comes_out_as_itself_and_leaves_nothing_but_the_prompt(
    form: str, error: BaseException
) -> None:
    talk = Talk(fails(error, delay=1), system_prompt="be kind")
    with pytest.raises(type(error)) as caught:
        await getattr(talk, form)()
    assert caught.value is error
    assert talk.roles == ["system"]


@pytest.mark.clause("C18", "C20")
@pytest.mark.parametrize("form", ["chat", "stream"])
async def test_a_failure_in_a_later_round_leaves_the_rounds_before_it(form: str) -> None:
    talk = Talk(ONE_CALL, fails(RateLimitError("slow down")), says("done"))
    with pytest.raises(RateLimitError):
        await getattr(talk, form)()
    assert talk.roles == ["user", "tool_call", "tool_result"]
    check_history(talk.history)
    [answer] = await talk.chat("go on")
    assert answer.content == "done"
    check_history(talk.history)


@pytest.mark.clause("C20")
async def test_deltas_that_came_before_a_failure_are_seen_before_it() -> None:
    talk = Talk(says("abc", chunks=3).fails(RateLimitError("slow down"), after=2))
    seen: list[Any] = []
    async with talk.client:
        with pytest.raises(RateLimitError):
            await collect(talk.client.stream_chat("q", history=talk.history), seen)
    assert [event.content for event in seen] == ["a", "b"]
    assert talk.history == []


@pytest.mark.clause("C20")
async def test_after_its_failure_a_turn_is_over() -> None:
    talk = Talk(fails(RateLimitError("slow down")))
    async with talk.client:
        turn = talk.client.chat("q", history=talk.history)
        with pytest.raises(RateLimitError):
            await anext(turn)
        with pytest.raises(StopAsyncIteration):
            await anext(turn)
        await turn.aclose()
