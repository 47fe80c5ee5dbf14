import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from seqoria_runtime.models import (
    UNNAMED_TOOL,
    AssistantMessage,
    ChatChunk,
    LLMUsage,
    SystemMessage,
    ToolCallError,
    ToolCallRequest,
    ToolCallRequestList,
    ToolCallResult,
    ToolOutcome,
    UserMessage,
)

TEXT = st.text(max_size=20)
NAME = st.text(min_size=1, max_size=20)
MAYBE = st.none() | TEXT
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
COUNT = st.integers(0, 10**9)
USAGE = st.builds(
    LLMUsage,
    prompt_tokens=COUNT,
    completion_tokens=COUNT,
    total_tokens=COUNT,
    cached_tokens=st.none() | COUNT,
    reasoning_tokens=st.none() | COUNT,
)
ASSISTANT = st.builds(
    AssistantMessage,
    content=TEXT,
    thinking=MAYBE,
    model=MAYBE,
    usage=st.none() | USAGE,
    finish_reason=MAYBE,
    response_id=MAYBE,
    wire_format=MAYBE,
    blocks=st.none() | st.lists(OBJECT, max_size=3),
    interrupted=st.booleans(),
)
REQUEST = st.builds(
    ToolCallRequest,
    id=NAME,
    name=NAME,
    arguments=OBJECT,
    invalid_arguments=MAYBE,
    truncated=st.booleans(),
    response_id=MAYBE,
)
MESSAGE: st.SearchStrategy[BaseModel] = st.one_of(
    st.builds(SystemMessage, content=TEXT),
    st.builds(UserMessage, content=TEXT | st.none() | st.lists(OBJECT, max_size=3)),
    ASSISTANT,
    st.builds(ChatChunk, content=TEXT, thinking=MAYBE, model=MAYBE),
    REQUEST,
    st.builds(ToolCallResult, tool_call_id=NAME, name=MAYBE, result=TEXT, response_id=MAYBE),
    st.builds(ToolCallError, tool_call_id=NAME, name=MAYBE, error=NAME, response_id=MAYBE),
    st.builds(
        ToolCallRequestList,
        tool_calls=st.lists(REQUEST, max_size=2),
        usage=st.none() | USAGE,
        message=st.none() | ASSISTANT,
    ),
    USAGE,
)


@pytest.mark.clause("C15", "C82")
@given(MESSAGE)
def test_every_message_stored_as_json_and_loaded_is_the_same_message(message: BaseModel) -> None:
    stored = json.dumps(message.model_dump(mode="json"))
    assert type(message).model_validate(json.loads(stored)) == message


@pytest.mark.clause("C81")
@pytest.mark.parametrize("model", [SystemMessage, UserMessage, AssistantMessage, ChatChunk, LLMUsage])
def test_a_basic_message_needs_no_arguments(model: Callable[[], BaseModel]) -> None:
    empty = model()
    assert type(empty).model_validate(empty.model_dump()) == empty


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (UserMessage(), {"role": "user", "content": None}),
        (SystemMessage(), {"role": "system", "content": ""}),
        (AssistantMessage(), {"role": "assistant", "content": "", "thinking": None, "model": None}),
        (ChatChunk(), {"role": "assistant", "content": "", "thinking": None, "model": None, "usage": None}),
        (LLMUsage(), {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}),
        (
            ToolCallRequest(id="c1", name="add"),
            {"role": "tool_call", "type": "function_call", "id": "c1", "name": "add", "arguments": {}},
        ),
        (
            ToolCallResult(tool_call_id="c1", result=""),
            {"role": "tool_result", "type": "tool_use", "tool_call_id": "c1", "name": None, "result": ""},
        ),
        (
            ToolCallError(tool_call_id="c1", error="no"),
            {
                "role": "tool_error",
                "type": "tool_error",
                "tool_call_id": "c1",
                "name": None,
                "error": "no",
                "kind": "failed",
            },
        ),
        (ToolCallRequestList(), {"tool_calls": [], "usage": None, "message": None}),
    ],
)
def test_the_stored_form_has_these_fields_and_defaults(message: BaseModel, fields: dict[str, Any]) -> None:
    assert message.model_dump().items() >= fields.items()


@pytest.mark.clause("C82")
@pytest.mark.parametrize(
    ("model", "fields", "blamed"),
    [
        (ToolCallRequest, {"name": "add"}, "id"),
        (ToolCallRequest, {"id": "", "name": "add"}, "id"),
        (ToolCallRequest, {"id": "c1"}, "name"),
        (ToolCallRequest, {"id": "c1", "name": ""}, "name"),
        (ToolCallRequest, {"id": "c1", "name": "add", "arguments": None}, "arguments"),
        (ToolCallRequest, {"id": "c1", "name": "add", "arguments": [1]}, "arguments"),
        (ToolCallRequest, {"id": "c1", "name": "add", "arguments": "{}"}, "arguments"),
        (ToolCallResult, {"result": "3"}, "tool_call_id"),
        (ToolCallResult, {"tool_call_id": "", "result": "3"}, "tool_call_id"),
        (ToolCallResult, {"tool_call_id": "c1"}, "result"),
        (ToolCallResult, {"tool_call_id": "c1", "result": None}, "result"),
        (ToolCallError, {"error": "no"}, "tool_call_id"),
        (ToolCallError, {"tool_call_id": "", "error": "no"}, "tool_call_id"),
        (ToolCallError, {"tool_call_id": "c1"}, "error"),
        (ToolCallError, {"tool_call_id": "c1", "error": ""}, "error"),
        (ToolCallError, {"tool_call_id": "c1", "error": "no", "kind": "odd"}, "kind"),
        (UserMessage, {"content": 3}, "content"),
        (UserMessage, {"content": ["text"]}, "content"),
        (UserMessage, {"role": "assistant"}, "role"),
    ],
)
def test_a_message_that_lacks_what_it_needs_is_refused_by_name(
    model: type[BaseModel], fields: dict[str, Any], blamed: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(fields)
    assert {error["loc"][0] for error in caught.value.errors()} == {blamed}


@pytest.mark.clause("C82")
def test_requests_do_not_share_their_default_arguments() -> None:
    first, second = ToolCallRequest(id="c1", name="add"), ToolCallRequest(id="c2", name="add")
    first.arguments["a"] = 1
    assert second.arguments == {}


def test_an_error_has_no_result_and_a_result_no_error() -> None:
    assert not hasattr(ToolCallError(tool_call_id="c1", error="no"), "result")
    assert not hasattr(ToolCallResult(tool_call_id="c1", result="3"), "error")


@pytest.mark.parametrize(
    "model", [SystemMessage, UserMessage, AssistantMessage, ChatChunk, LLMUsage, ToolCallRequestList]
)
def test_fields_that_a_message_does_not_know_are_ignored(model: type[BaseModel]) -> None:
    assert not hasattr(model.model_validate({"surprise": 1}), "surprise")


@pytest.mark.clause("C82")
def test_a_placeholder_stands_for_an_empty_tool_name() -> None:
    assert ToolCallRequest(id="c1", name=UNNAMED_TOOL).name


def test_usage_adds_up_and_leaves_unknown_counts_unknown() -> None:
    first = LLMUsage(prompt_tokens=1, completion_tokens=2, total_tokens=3, cached_tokens=1)
    second = LLMUsage(prompt_tokens=10, completion_tokens=20, total_tokens=30, reasoning_tokens=5)
    assert first + second == LLMUsage(
        prompt_tokens=11, completion_tokens=22, total_tokens=33, cached_tokens=1, reasoning_tokens=5
    )
    assert first + first == LLMUsage(
        prompt_tokens=2, completion_tokens=4, total_tokens=6, cached_tokens=2, reasoning_tokens=None
    )


@given(USAGE, USAGE, USAGE)
def test_usage_adds_up_in_any_order(first: LLMUsage, second: LLMUsage, third: LLMUsage) -> None:
    assert first + second == second + first
    assert (first + second) + third == first + (second + third)


@pytest.mark.clause("C11")
def test_an_outcome_event_is_a_frozen_pair() -> None:
    request = ToolCallRequest(id="c1", name="add")
    event = ToolOutcome(request, ToolCallResult(tool_call_id="c1", result="3"))
    assert (event.request, event.outcome.tool_call_id) == (request, "c1")
    with pytest.raises(AttributeError):
        event.request = request  # type: ignore[misc]
