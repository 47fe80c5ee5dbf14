from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.client._history.record import (
    StepRecord,
    TurnRecord,
    check_history,
    has_system_message,
    insert_system_prompt,
    paired,
    to_messages,
)
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
    assert check_history(history) is history


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
def test_anything_else_is_no_history(wrong: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        check_history(wrong)


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
def test_what_is_no_message_is_refused_with_its_place(item: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"history\[1\]"):
        to_messages([QUESTION, item])


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
    insert_system_prompt(history, PROMPT)
    assert history == [first, QUESTION]
    assert history[0] is first
    assert has_system_message(history)


@pytest.mark.clause("C17")
@pytest.mark.parametrize("history", [[], [QUESTION], [{"role": "user", "content": "q"}]])
def test_a_history_without_one_gets_the_prompt_in_front(history: list[Any]) -> None:
    before = list(history)
    insert_system_prompt(history, PROMPT)
    assert history == [{"role": "system", "content": PROMPT}, *before]


@pytest.mark.clause("C17")
def test_an_empty_prompt_is_no_prompt() -> None:
    history: list[Any] = []
    insert_system_prompt(history, "")
    assert history == []


# What a turn leaves


class Settling:
    """A record on a history, and whether it has settled."""

    def __init__(
        self, history: list[Any] | None = None, *, prompt: str = "", keep_partial: bool = False
    ) -> None:
        self.history: list[Any] = [] if history is None else history
        self.settled = 0
        self.record = TurnRecord(
            self.history,
            QUESTION,
            system_prompt=prompt,
            keep_partial=keep_partial,
            on_settled=self._count,
        )
        self.record.begin()

    def _count(self) -> None:
        self.settled += 1


def test_a_turn_begins_with_its_user_message_behind_the_prompt() -> None:
    turn = Settling(prompt=PROMPT)
    assert turn.history == [{"role": "system", "content": PROMPT}, QUESTION]
    assert turn.record.history is turn.history
    assert turn.record.messages == [SystemMessage(content=PROMPT), QUESTION]


def test_a_turn_on_a_bad_history_adds_nothing() -> None:
    history: list[Any] = [{"role": "wizard"}]
    record = TurnRecord(history, QUESTION, system_prompt=PROMPT, keep_partial=False, on_settled=lambda: None)
    with pytest.raises(ValueError, match=r"history\[0\]"):
        record.begin()
    assert history == [{"role": "wizard"}]


@pytest.mark.clause("C18")
def test_a_turn_that_added_nothing_takes_its_own_user_message_back_and_no_other() -> None:
    earlier, meanwhile = UserMessage(content="q"), UserMessage(content="q")
    turn = Settling([earlier], prompt=PROMPT)
    turn.history.append(meanwhile)
    turn.record.settle()
    assert turn.history == [{"role": "system", "content": PROMPT}, earlier, meanwhile]
    assert turn.history[1] is earlier
    assert turn.history[2] is meanwhile
    assert turn.settled == 1


@pytest.mark.clause("C18")
def test_a_user_message_that_the_application_removed_is_not_missed() -> None:
    turn = Settling()
    turn.history.clear()
    turn.record.settle()
    assert turn.history == []


@pytest.mark.clause("C12")
def test_a_complete_turn_leaves_its_messages_in_order_and_settles_with_the_last() -> None:
    turn = Settling()
    beside = AssistantMessage(content="so", response_id="r1")
    turn.record.open_round(beside, [request()], FakeBatch([result()]))
    turn.record.commit_round()
    answer = AssistantMessage(content="3", response_id="r2")
    turn.record.commit_final(answer)
    assert turn.history == [QUESTION, beside, request(), result(), answer]
    assert turn.history[-1] is answer
    histories.check_history(turn.history)
    turn.record.settle()
    assert turn.settled == 1
    assert len(turn.history) == 5


@pytest.mark.clause("C18")
def test_a_round_that_began_is_completed_once() -> None:
    turn = Settling()
    turn.record.open_round(None, [request()], FakeBatch([result()]))
    turn.record.settle()
    turn.record.settle()
    turn.record.commit_round()
    assert turn.history == [QUESTION, request(), result()]


@pytest.mark.clause("C18")
@pytest.mark.parametrize("keep_partial", [False, True])
def test_a_round_of_which_no_call_began_is_left_out_whole(keep_partial: bool) -> None:
    turn = Settling(keep_partial=keep_partial)
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
    turn = Settling(keep_partial=keep_partial)
    turn.record.note_text("half ")
    turn.record.note_text("")
    turn.record.note_text("an")
    turn.record.settle()
    assert turn.history == left


@pytest.mark.clause("C19")
def test_text_of_a_finished_response_is_not_left_a_second_time() -> None:
    turn = Settling(keep_partial=True)
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
def test_what_came_beside_calls_is_kept_where_there_is_anything(
    beside: AssistantMessage | None, kept: bool
) -> None:
    turn = Settling()
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

STEPS: dict[str, Callable[[TurnRecord, int], None]] = {
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
    turn = Settling(list(before), keep_partial=keep_partial)
    for number, step in enumerate(step for steps in [*rounds, rest] for step in steps):
        STEPS[step](turn.record, number)
    if finished and not rest:
        turn.record.commit_final(AssistantMessage(content="done"))
    turn.record.settle()
    assert turn.settled == 1
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
    record = StepRecord(history, QUESTION, system_prompt=PROMPT)
    record.begin()
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
    record = StepRecord(history, None, system_prompt="")
    record.begin()
    record.settle()
    assert history == [UserMessage(content="q")]
