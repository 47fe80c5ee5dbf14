import sys
from collections import UserDict
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.client._arguments import history_list
from seqoria_runtime.client._history import reading
from seqoria_runtime.client._history.reading import HistoryReader, has_system_message, to_messages
from seqoria_runtime.client._history.record import HistoryRecord, paired
from seqoria_runtime.models import (
    AssistantMessage,
    ChatChunk,
    ChatMessage,
    SystemMessage,
    ToolCallError,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallResult,
    ToolMessages,
    UserMessage,
)
from tests.support import histories

QUESTION = UserMessage(content="q")
PROMPT = "be kind"


def request(number: int = 1, response: str = "r1") -> ToolCallRequest:
    return ToolCallRequest(id=f"c{number}", name="add", response_id=response)


def result(number: int = 1, response: str = "r1") -> ToolCallResult:
    return ToolCallResult(tool_call_id=f"c{number}", name="add", result="3", response_id=response)


class FakeBatch:
    """A batch as far as a record looks at it."""

    def __init__(self, outcomes: Sequence[ToolCallOutcome], *, begun: bool = True) -> None:
        self.begun = begun
        self._outcomes = outcomes

    def outcomes_so_far(self) -> list[ToolCallOutcome]:
        return list(self._outcomes)


# What a history may be


@pytest.mark.clause("C15")
def test_a_history_is_a_list_of_the_applications_own_and_is_given_back_as_it_is() -> None:
    history: list[Any] = []
    assert history_list(history) is history


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (None, ValueError, "history required"),
        ((), TypeError, "history must be an application-owned list"),
        ("hello", TypeError, "history must be an application-owned list"),
        ({}, TypeError, "history must be an application-owned list"),
        (iter([]), TypeError, "history must be an application-owned list"),
    ],
)
def test_anything_but_a_list_is_refused_as_history(wrong: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        history_list(wrong)


MESSAGES: list[ChatMessage] = [
    SystemMessage(content="s"),
    UserMessage(content=[{"type": "text", "text": "hi"}]),
    AssistantMessage(
        content="well",
        thinking="hm",
        response_id="r1",
        wire_format="acme",
        blocks=[{"type": "thinking", "signature": "xyz=="}, {"type": "tool_call", "index": 0}],
        finish_reason="tool_calls",
    ),
    ToolCallRequest(id="c1", name="add", arguments={"a": [1, None]}, response_id="r1"),
    ToolCallResult(tool_call_id="c1", name="add", result="3", response_id="r1"),
    ToolCallRequest(id="c2", name="add", invalid_arguments="{", truncated=True, response_id="r1"),
    ToolCallError(tool_call_id="c2", name="add", error="no", kind="invalid_arguments", response_id="r1"),
    AssistantMessage(content="3", interrupted=True),
]


@pytest.mark.clause("C15")
def test_models_are_passed_on_as_the_objects_that_they_are() -> None:
    assert all(given is read for given, read in zip(MESSAGES, to_messages(MESSAGES), strict=True))


@pytest.mark.clause("C15")
@given(st.lists(st.tuples(st.sampled_from(MESSAGES), st.booleans()), max_size=6))
def test_stored_messages_and_models_can_be_mixed_in_any_way(mixed: list[tuple[ChatMessage, bool]]) -> None:
    history = [message.model_dump(mode="json") if stored else message for message, stored in mixed]
    assert to_messages(history) == [message for message, _ in mixed]


def test_reading_a_history_changes_nothing_in_it() -> None:
    stored = [message.model_dump(mode="json") for message in MESSAGES]
    copy = [message.model_dump(mode="json") for message in MESSAGES]
    to_messages(stored)
    assert stored == copy


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"role": "developer", "content": "s"}, [SystemMessage(content="s")]),
        ({"role": "system", "content": [{"type": "text", "text": "a"}]}, [SystemMessage(content="a")]),
        ({"role": "assistant", "content": None}, [AssistantMessage()]),
        (
            {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            [AssistantMessage(content="ab")],
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": "3"},
            [ToolCallResult(tool_call_id="c1", result="3")],
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "3"}]},
            [ToolCallResult(tool_call_id="c1", result="3")],
        ),
        ({"role": "tool", "tool_call_id": "c1"}, [ToolCallResult(tool_call_id="c1", result="")]),
        ({"role": "user", "content": "q", "name": "ann"}, [UserMessage(content="q")]),
    ],
)
def test_dictionaries_of_other_libraries_are_understood(
    item: dict[str, Any], expected: list[ChatMessage]
) -> None:
    assert to_messages([item]) == expected


CALL = {"role": "tool_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": {}}
CALL_BY_CALL_ID = {"role": "tool_call", "call_id": "call_1", "name": "add"}
CALL_IN_A_MESSAGE = {
    "role": "assistant",
    "tool_calls": [{"id": "fc_1", "call_id": "call_1", "function": {"name": "add", "arguments": "{}"}}],
}


@pytest.mark.clause("C15")
@pytest.mark.parametrize("call", [CALL, CALL_BY_CALL_ID, CALL_IN_A_MESSAGE])
@pytest.mark.parametrize(
    "outcome",
    [
        {"role": "tool_result", "tool_call_id": "call_1", "result": "3"},
        {"role": "tool_error", "call_id": "call_1", "error": "no"},
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
        ToolCallResult(tool_call_id="call_1", result="3"),
    ],
)
def test_a_stored_outcome_may_name_its_call_by_either_id(call: Any, outcome: Any) -> None:
    by_own_id = ToolCallResult(tool_call_id=call.get("id", "call_1"), result="3")
    if call is CALL_IN_A_MESSAGE:
        by_own_id.tool_call_id = "fc_1"
    for answer in (outcome, by_own_id):
        reader = HistoryReader([call, answer])
        for _ in range(2):
            request, read = reader.messages()
            assert isinstance(request, ToolCallRequest)
            assert isinstance(read, (ToolCallResult, ToolCallError))
            assert read.tool_call_id == request.id


def test_an_id_that_another_call_really_has_is_that_calls() -> None:
    other = {"role": "tool_call", "id": "call_1", "name": "add"}
    outcome = {"role": "tool_result", "tool_call_id": "call_1", "result": "3"}
    [*_, read] = to_messages([CALL, other, outcome])
    assert isinstance(read, ToolCallResult)
    assert read.tool_call_id == "call_1"


@pytest.mark.clause("C15")
@pytest.mark.parametrize(
    ("history", "lost"),
    [
        ([request(1), result(1)], []),
        ([request(1), request(2), result(2), result(1)], []),
        ([CALL, {"role": "tool", "tool_call_id": "call_1", "content": "3"}], []),
        ([result(1), request(1)], ["c1"]),
        ([request(1), result(1), result(1)], ["c1"]),
        ([{"role": "tool", "tool_call_id": "gone", "content": "3"}], ["gone"]),
    ],
)
def test_an_outcome_without_its_call_is_logged_before_the_turn(
    history: list[Any], lost: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    HistoryRecord(history, QUESTION).start()
    assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == lost
    assert all("no such call before it" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("arguments", ['{"a": 1}', {"a": 1}])
def test_calls_inside_an_assistant_dictionary_become_requests(arguments: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": arguments}}
    wanted = ToolCallRequest(id="c1", name="add", arguments={"a": 1})
    assert to_messages([{"role": "assistant", "content": None, "tool_calls": [call]}]) == [wanted]
    beside = to_messages([{"role": "assistant", "content": "so", "tool_calls": [call, call]}])
    assert beside == [AssistantMessage(content="so"), wanted, wanted]


@pytest.mark.parametrize("nothing", [None, "", {}])
def test_a_stored_call_without_arguments_has_none(nothing: Any) -> None:
    call = {"id": "c1", "function": {"name": "now", "arguments": nothing}}
    assert to_messages([{"role": "assistant", "tool_calls": [call]}]) == [
        ToolCallRequest(id="c1", name="now")
    ]


@pytest.mark.clause("C82")
@pytest.mark.parametrize("raw", ['{"a":', "[1]", '"text"', "x" * 5000])
def test_a_stored_call_with_broken_arguments_is_kept_with_its_bounded_raw_text(raw: str) -> None:
    call = {"id": "c1", "function": {"name": "add", "arguments": raw}}
    [read] = to_messages([{"role": "assistant", "tool_calls": [call]}])
    assert isinstance(read, ToolCallRequest)
    assert read.arguments == {}
    assert read.invalid_arguments
    assert raw.startswith(read.invalid_arguments.removesuffix(" [cut]"))
    assert len(read.invalid_arguments) <= 2000


@pytest.mark.parametrize(
    ("item", "error"),
    [
        ("hello", TypeError),
        (None, TypeError),
        (ChatChunk(content="c"), TypeError),
        (ToolMessages(), TypeError),
        ({}, ValueError),
        ({"role": None}, ValueError),
        ({"role": ["user"]}, ValueError),
        ({"role": "wizard"}, ValueError),
        ({"role": "user", "content": 3}, ValueError),
        ({"role": "tool_call", "id": "c1"}, ValueError),
        ({"role": "tool", "content": "3"}, ValueError),
        ({"role": "assistant", "tool_calls": [{"id": "c1"}]}, ValueError),
        ({"role": "assistant", "tool_calls": [{"id": "c1", "function": "add"}]}, ValueError),
        ({"role": "assistant", "tool_calls": ["c1"]}, ValueError),
        ({"role": "assistant", "tool_calls": 3}, ValueError),
        ({"role": "assistant", "tool_calls": [{"id": "", "function": {"name": "add"}}]}, ValueError),
    ],
)
def test_anything_but_a_message_is_refused_with_its_position(item: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"history\[1\]"):
        to_messages([QUESTION, item])


# Each dictionary is read once


def times_read(work: Callable[[], object]) -> int:
    """How many items of a history are read while `work` runs."""
    read = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal read
        read += event == "call" and frame.f_code is reading._message_list.__code__

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return read


def stored(messages: Sequence[ChatMessage]) -> list[Any]:
    return [message.model_dump(mode="json") for message in messages]


def test_a_turn_reads_each_dictionary_of_its_history_once() -> None:
    history = stored(MESSAGES)
    record = HistoryRecord(history, QUESTION, system_prompt=PROMPT)

    def turn() -> None:
        record.start()
        for number in range(5):
            assert record.messages[1 : -number or None][-1] == QUESTION
            history.append(AssistantMessage(content=str(number)))

    assert times_read(turn) == len(MESSAGES)


def change(history: list[Any], how: str) -> int:
    """Change a history as an application may at the barrier; return how many items have to be read anew."""
    match how:
        case "nothing":
            return 0
        case "append a message":
            history.append(UserMessage(content="and now?"))
            return 0
        case "append a dictionary":
            history.append({"role": "user", "content": "and now?"})
            return 1
        case "insert in front":
            history.insert(0, {"role": "system", "content": "be brief"})
            return 1
        case "remove":
            del history[:2]
            return 0
        case "reorder":
            history.reverse()
            return 0
        case "equal dictionaries":
            history[:] = [dict(item) for item in history]
            return len(history)
        case "another dictionary":
            history[1] = {"role": "user", "content": "hello"}
            return 1
        case "a field":
            history[2]["content"] = "changed"
            return 1
        case "deep in a block":
            history[1]["content"][0]["text"] = "changed"
            return 1
        case "deep in arguments":
            history[3]["arguments"]["a"].append(4)
            return 1
        case "a field more":
            history[6]["response_id"] = "r2"
            return 1
    raise AssertionError(how)


@pytest.mark.clause("C21")
@pytest.mark.parametrize(
    "how",
    [
        "nothing",
        "append a message",
        "append a dictionary",
        "insert in front",
        "remove",
        "reorder",
        "equal dictionaries",
        "another dictionary",
        "a field",
        "deep in a block",
        "deep in arguments",
        "a field more",
    ],
)
def test_what_an_application_changed_in_its_list_is_seen_and_only_that_is_read_anew(how: str) -> None:
    history = stored(MESSAGES)
    reader = HistoryReader(history)
    reader.messages()
    anew = change(history, how)
    assert times_read(reader.messages) == anew
    assert reader.messages() == to_messages(history)


class Sticky(dict[str, Any]):
    """A dictionary that equals everything, so that comparing it shows no change."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None


@pytest.mark.parametrize("item", [Sticky(role="user", content="q"), UserDict(role="user", content="q")])
def test_a_mapping_that_may_change_unseen_is_read_each_time(item: Any) -> None:
    reader = HistoryReader([item])
    reader.messages()
    item["content"] = "changed"
    assert reader.messages() == [UserMessage(content="changed")]


def test_a_dictionary_that_holds_itself_is_read_each_time() -> None:
    item: dict[str, Any] = {"role": "user", "content": "q"}
    item["itself"] = item
    reader = HistoryReader([item])
    assert [times_read(reader.messages) for _ in range(3)] == [1, 1, 1]
    item["content"] = "changed"
    assert reader.messages() == [UserMessage(content="changed")]


def test_a_bad_dictionary_is_refused_each_time_with_its_place_of_that_time() -> None:
    history: list[Any] = [{"role": "user", "content": 3}]
    reader = HistoryReader(history)
    with pytest.raises(ValueError, match=r"history\[0\]"):
        reader.messages()
    history.insert(0, {"role": "user", "content": "q"})
    with pytest.raises(ValueError, match=r"history\[1\]"):
        reader.messages()
    history[1]["content"] = "mended"
    assert reader.messages() == [UserMessage(content="q"), UserMessage(content="mended")]


# The system prompt


@pytest.mark.clause("C17")
@pytest.mark.parametrize(
    "first",
    [
        SystemMessage(content="mine"),
        {"role": "system", "content": "mine"},
        {"role": "developer", "content": "mine"},
    ],
)
def test_a_history_keeps_the_system_message_that_it_starts_with(first: Any) -> None:
    history = [first, QUESTION]
    HistoryRecord(history, None, system_prompt=PROMPT).start()
    assert history == [first, QUESTION]
    assert history[0] is first
    assert has_system_message(history)


@pytest.mark.clause("C17")
@pytest.mark.parametrize("history", [[], [QUESTION], [{"role": "user", "content": "q"}]])
def test_a_history_without_one_gets_the_prompt_in_front(history: list[Any]) -> None:
    before = list(history)
    HistoryRecord(history, None, system_prompt=PROMPT).start()
    assert history == [{"role": "system", "content": PROMPT}, *before]


@pytest.mark.clause("C17")
def test_an_empty_prompt_adds_nothing() -> None:
    history: list[Any] = []
    HistoryRecord(history, None, system_prompt="").start()
    assert history == []


# What a turn leaves


class Started:
    """A record that has started on a history."""

    def __init__(
        self, history: list[Any] | None = None, *, prompt: str = "", keep_partial: bool = False
    ) -> None:
        self.history: list[Any] = [] if history is None else history
        self.record = HistoryRecord(self.history, QUESTION, system_prompt=prompt, keep_partial=keep_partial)
        self.record.start()


def test_a_turn_starts_with_its_user_message_after_the_prompt() -> None:
    turn = Started(prompt=PROMPT)
    assert turn.history == [{"role": "system", "content": PROMPT}, QUESTION]
    assert turn.record.history is turn.history
    assert turn.record.messages == [SystemMessage(content=PROMPT), QUESTION]


def test_a_turn_on_a_bad_history_adds_nothing() -> None:
    history: list[Any] = [{"role": "wizard"}]
    record = HistoryRecord(history, QUESTION, system_prompt=PROMPT)
    with pytest.raises(ValueError, match=r"history\[0\]"):
        record.start()
    assert history == [{"role": "wizard"}]


@pytest.mark.clause("C18")
def test_a_turn_that_added_nothing_takes_its_own_user_message_back_and_no_other() -> None:
    earlier, meanwhile = UserMessage(content="q"), UserMessage(content="q")
    turn = Started([earlier], prompt=PROMPT)
    turn.history.append(meanwhile)
    turn.record.settle()
    assert turn.history == [{"role": "system", "content": PROMPT}, earlier, meanwhile]
    assert turn.history[1] is earlier
    assert turn.history[2] is meanwhile
    assert turn.record.settled


@pytest.mark.clause("C18")
def test_a_user_message_that_the_application_removed_is_not_missed() -> None:
    turn = Started()
    turn.history.clear()
    turn.record.settle()
    assert turn.history == []


@pytest.mark.clause("C12")
def test_a_complete_turn_leaves_its_messages_in_order_and_settles_with_the_last() -> None:
    turn = Started()
    beside = AssistantMessage(content="so", response_id="r1")
    turn.record.open_round(beside, [request()], FakeBatch([result()]))
    turn.record.commit_round()
    answer = AssistantMessage(content="3", response_id="r2")
    turn.record.commit_final(answer)
    assert turn.history == [QUESTION, beside, request(), result(), answer]
    assert turn.history[-1] is answer
    histories.check_history(turn.history)
    turn.record.settle()
    assert turn.record.settled
    assert len(turn.history) == 5


@pytest.mark.clause("C18")
def test_a_round_that_began_is_completed_once() -> None:
    turn = Started()
    turn.record.open_round(None, [request()], FakeBatch([result()]))
    turn.record.settle()
    turn.record.settle()
    turn.record.commit_round()
    assert turn.history == [QUESTION, request(), result()]


@pytest.mark.clause("C18")
@pytest.mark.parametrize("keep_partial", [False, True])
def test_a_round_of_which_no_call_began_is_left_out_whole(keep_partial: bool) -> None:
    turn = Started(keep_partial=keep_partial)
    beside = AssistantMessage(content="so", response_id="r1")
    turn.record.open_round(beside, [request()], FakeBatch([result()], begun=False))
    turn.record.settle()
    assert turn.history == []


@pytest.mark.clause("C19")
@pytest.mark.parametrize(
    ("keep_partial", "left"),
    [(False, []), (True, [QUESTION, AssistantMessage(content="half an", interrupted=True)])],
)
def test_an_unfinished_answer_is_left_only_where_that_was_asked_for(
    keep_partial: bool, left: list[Any]
) -> None:
    turn = Started(keep_partial=keep_partial)
    turn.record.note_text("half ")
    turn.record.note_text("")
    turn.record.note_text("an")
    turn.record.settle()
    assert turn.history == left


@pytest.mark.clause("C19")
def test_text_of_a_finished_response_is_not_left_a_second_time() -> None:
    turn = Started(keep_partial=True)
    turn.record.note_text("so")
    beside = AssistantMessage(content="so", response_id="r1")
    turn.record.open_round(beside, [request()], FakeBatch([result()]))
    turn.record.commit_round()
    turn.record.settle()
    assert turn.history == [QUESTION, beside, request(), result()]


@pytest.mark.parametrize(
    ("beside", "kept"),
    [
        (None, False),
        (AssistantMessage(), False),
        (AssistantMessage(finish_reason="tool_calls"), False),
        (AssistantMessage(content="so"), True),
        (AssistantMessage(thinking="hm"), True),
        (AssistantMessage(blocks=[{"type": "tool_call", "index": 0}]), True),
    ],
)
def test_what_came_with_calls_is_kept_if_there_is_anything(
    beside: AssistantMessage | None, kept: bool
) -> None:
    turn = Started()
    turn.record.open_round(beside, [request()], FakeBatch([result()]))
    turn.record.commit_round()
    assert (turn.history[1] is beside) is kept


def test_calls_and_outcomes_stand_in_pairs() -> None:
    assert paired([request(1), request(2)], [result(1), result(2)]) == [
        request(1),
        result(1),
        request(2),
        result(2),
    ]
    with pytest.raises(ValueError, match="argument 2"):
        paired([request(1), request(2)], [result(1)])


# Every order in which a turn can go

STEPS: dict[str, Callable[[HistoryRecord, int], None]] = {
    "text": lambda record, _: record.note_text("t"),
    "open": lambda record, number: record.open_round(
        AssistantMessage(content="so", response_id=f"r{number}"),
        [request(number, f"r{number}")],
        FakeBatch([result(number, f"r{number}")]),
    ),
    "open idle": lambda record, number: record.open_round(
        None,
        [request(number, f"r{number}")],
        FakeBatch([result(number, f"r{number}")], begun=False),
    ),
    "commit": lambda record, _: record.commit_round(),
}


@pytest.mark.clause("C18")
@given(
    st.lists(st.sampled_from([("text",), ("open", "commit"), ("text", "open", "commit")]), max_size=4),
    st.sampled_from([(), ("text",), ("open",), ("text", "open"), ("open idle",), ("text", "open idle")]),
    st.booleans(),
    st.booleans(),
)
def test_wherever_a_turn_ends_its_history_can_be_continued(
    rounds: list[tuple[str, ...]], rest: tuple[str, ...], keep_partial: bool, finished: bool
) -> None:
    before: list[Any] = [UserMessage(content="earlier"), AssistantMessage(content="answer")]
    turn = Started(list(before), keep_partial=keep_partial)
    for number, step in enumerate(step for steps in [*rounds, rest] for step in steps):
        STEPS[step](turn.record, number)
    if finished and not rest:
        turn.record.commit_final(AssistantMessage(content="done"))
    turn.record.settle()
    assert turn.record.settled
    assert turn.history[:2] == before
    histories.check_history(turn.history)
    turn.history.append(QUESTION)
    histories.check_history(turn.history, unanswered_user=True)


# What a single step leaves


@pytest.mark.clause("C80")
@pytest.mark.parametrize("answered", [False, True])
def test_a_step_keeps_its_user_message_only_if_it_is_answered(answered: bool) -> None:
    twin = UserMessage(content="q")
    history: list[Any] = [twin]
    record = HistoryRecord(history, QUESTION, system_prompt=PROMPT)
    record.start()
    assert [message.role for message in record.messages] == ["system", "user", "user"]
    if answered:
        record.keep()
    record.settle()
    record.settle()
    assert history == [{"role": "system", "content": PROMPT}, twin, *([QUESTION] if answered else [])]
    assert history[1] is twin


@pytest.mark.clause("C80")
def test_a_step_without_a_user_message_adds_nothing() -> None:
    history: list[Any] = [UserMessage(content="q")]
    record = HistoryRecord(history, None, system_prompt="")
    record.start()
    record.settle()
    assert history == [UserMessage(content="q")]
