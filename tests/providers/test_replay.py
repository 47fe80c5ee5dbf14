"""How a history is sorted into responses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.models import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCallError,
    ToolCallRequest,
    ToolCallResult,
    UserMessage,
)
from seqoria_runtime.providers._requests.replay import (
    EMPTY_OUTCOME,
    NO_OUTCOME,
    AnsweredCall,
    PastResponse,
    entries,
)


def call(call_id: str, response: str | None = None) -> ToolCallRequest:
    return ToolCallRequest(id=call_id, name="f", response_id=response)


def result(call_id: str, text: str, response: str | None = None) -> ToolCallResult:
    return ToolCallResult(tool_call_id=call_id, result=text, response_id=response)


def said(text: str, response: str | None = None) -> AssistantMessage:
    return AssistantMessage(content=text, response_id=response)


def shape(*messages: ChatMessage) -> list[object]:
    """The entries in short: a role, or a response's text and the texts of its calls."""
    return [
        (entry.text, [one.text for one in entry.calls]) if isinstance(entry, PastResponse) else entry.role
        for entry in entries(messages)
    ]


def test_results_stand_in_the_order_of_the_calls_whatever_finished_first() -> None:
    history: list[ChatMessage] = [
        said("I'll look.", "r"),
        *(call(name, "r") for name in "abc"),
        result("c", "3", "r"),
        result("a", "1", "r"),
        ToolCallError(tool_call_id="b", error="boom", response_id="r"),
    ]
    assert shape(*history) == [("I'll look.", ["1", "boom", "3"])]


@pytest.mark.clause("C82")
def test_messages_of_one_response_id_are_one_response_and_of_two_are_two() -> None:
    history: list[ChatMessage] = [
        *(call("a", "r1"), result("a", "1", "r1"), call("b", "r1"), result("b", "2", "r1")),
        *(call("c", "r2"), result("c", "3", "r2")),
    ]
    assert shape(*history) == [("", ["1", "2"]), ("", ["3"])]


@pytest.mark.clause("C82")
def test_pairs_without_an_id_that_follow_each_other_are_one_response() -> None:
    pairs: list[ChatMessage] = [call("a"), result("a", "1"), call("b"), result("b", "2")]
    assert shape(UserMessage(), *pairs, said("ok"), call("c"), result("c", "3")) == [
        "user",
        ("", ["1", "2"]),
        ("ok", ["3"]),
    ]


def test_a_text_directly_before_calls_is_of_their_response() -> None:
    assert shape(said("one"), said("two"), call("a"), result("a", "1")) == [("one", []), ("two", ["1"])]


def test_a_text_of_another_response_than_the_calls_after_it_stays_apart() -> None:
    assert shape(said("one", "r1"), call("a", "r2"), result("a", "1", "r2")) == [("one", []), ("", ["1"])]
    assert shape(said("one", "r1"), call("a"), result("a", "1")) == [("one", []), ("", ["1"])]


def test_a_text_that_follows_the_calls_of_its_response_is_put_in_front() -> None:
    assert shape(call("a", "r"), said("look", "r"), result("a", "1", "r")) == [("look", ["1"])]
    assert shape(call("a"), result("a", "1"), said("done")) == [("", ["1"]), ("done", [])]


def test_a_user_message_ends_a_response() -> None:
    history: list[ChatMessage] = [
        call("a"),
        result("a", "1"),
        UserMessage(),
        call("a"),
        result("a", "2"),
        SystemMessage(),
    ]
    assert shape(*history) == [("", ["1"]), "user", ("", ["2"]), "system"]


@pytest.mark.case("B5")
def test_ids_that_repeat_within_a_response_are_made_unique_in_order() -> None:
    histories: list[list[ChatMessage]] = [
        [call("k0"), call("k0"), result("k0", "1"), result("k0", "2")],
        [call("k0"), result("k0", "1"), call("k0"), result("k0", "2")],
    ]
    for history in histories:
        [response] = entries(history)
        assert isinstance(response, PastResponse)
        assert [one.text for one in response.calls] == ["1", "2"]
        assert [one.id for one in response.calls] == ["k0", "k0_2"]


@pytest.mark.case("B5")
def test_an_id_that_was_made_own_is_not_one_that_another_call_has() -> None:
    [response] = entries([call("k"), call("k_2"), call("k"), call("k")])
    assert isinstance(response, PastResponse)
    assert [one.id for one in response.calls] == ["k", "k_2", "k_3", "k_4"]


@pytest.mark.case("B5")
def test_ids_that_repeat_across_responses_stay_and_pair_with_their_own() -> None:
    history: list[ChatMessage] = [
        call("k0", "r1"),
        result("k0", "1", "r1"),
        UserMessage(),
        call("k0", "r2"),
        result("k0", "2", "r2"),
    ]
    assert shape(*history) == [("", ["1"]), "user", ("", ["2"])]
    assert [
        one.id for entry in entries(history) if isinstance(entry, PastResponse) for one in entry.calls
    ] == [
        "k0",
        "k0",
    ]


def test_a_late_outcome_goes_to_the_response_that_it_names() -> None:
    history: list[ChatMessage] = [
        call("k", "r1"),
        UserMessage(),
        call("k", "r2"),
        result("k", "1", "r1"),
        result("k", "2", "r2"),
    ]
    assert shape(*history) == [("", ["1"]), "user", ("", ["2"])]


def test_an_outcome_that_names_no_response_goes_to_the_latest_call_of_its_id() -> None:
    history: list[ChatMessage] = [call("k"), UserMessage(), call("k"), result("k", "2")]
    assert shape(*history) == [("", [NO_OUTCOME]), "user", ("", ["2"])]


def test_an_outcome_without_its_call_is_left_out_and_a_call_without_outcome_is_answered() -> None:
    assert shape(result("x", "lost"), call("a"), result("b", "lost")) == [("", [NO_OUTCOME])]


@pytest.mark.case("I5")
@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_a_blank_result_has_a_text_all_the_same(text: str) -> None:
    assert shape(call("a"), result("a", text)) == [("", [EMPTY_OUTCOME])]
    assert shape(said(text)) == [("", [])]


def test_every_outcome_but_a_result_is_a_failure() -> None:
    request = call("a")
    assert AnsweredCall("a", request, None).failed
    assert AnsweredCall("a", request, ToolCallError(tool_call_id="a", error="e")).failed
    assert not AnsweredCall("a", request, result("a", "")).failed


IDS = st.sampled_from(["a", "b", "a_2"])
RESPONSES = st.sampled_from([None, "r1", "r2"])
MESSAGES = st.lists(
    st.one_of(
        st.builds(call, IDS, RESPONSES),
        st.builds(result, IDS, st.sampled_from(["", "x"]), RESPONSES),
        st.builds(said, st.sampled_from(["", "hi"]), RESPONSES),
        st.just(UserMessage(content="u")),
    ),
    max_size=14,
)


@pytest.mark.clause("C91")
@given(MESSAGES)
def test_every_call_is_kept_once_with_an_id_of_its_own_and_an_answer(history: list[ChatMessage]) -> None:
    responses = [entry for entry in entries(history) if isinstance(entry, PastResponse)]
    kept = [one.request for response in responses for one in response.calls]
    assert kept == [message for message in history if isinstance(message, ToolCallRequest)]
    for response in responses:
        assert len({one.id for one in response.calls}) == len(response.calls)
        assert all(one.text.strip() for one in response.calls)
        for one in response.calls:
            assert one.outcome is None or one.outcome.tool_call_id == one.request.id
    used = [id(one.outcome) for response in responses for one in response.calls if one.outcome is not None]
    assert len(used) == len(set(used))


@given(MESSAGES)
def test_texts_and_user_messages_keep_their_order(history: list[ChatMessage]) -> None:
    sorted_: list[ChatMessage] = []
    for entry in entries(history):
        if not isinstance(entry, PastResponse):
            sorted_.append(entry)
        elif entry.message is not None:
            sorted_.append(entry.message)
    assert sorted_ == [m for m in history if isinstance(m, (UserMessage, AssistantMessage))]
