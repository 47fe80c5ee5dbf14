import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime._execution.batches import outcomes
from seqoria_runtime.models import ToolCallError, ToolCallRequest

pytestmark = pytest.mark.clause("C42")

X = ToolCallRequest(id="1", name="x", response_id="r")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (outcomes.raised(X, ValueError("bad")), "failed", "Tool 'x' failed: bad"),
        (
            outcomes.timed_out(X, 0.02, began=True),
            "timed_out",
            "Tool 'x' timed out after 0.02s; it may have taken effect",
        ),
        (
            outcomes.timed_out(X, 30.0, began=False),
            "timed_out",
            "Tool 'x' timed out after 30s; the tool itself had not started",
        ),
        (outcomes.skipped(X, ("a", "b")), "skipped", "Skipped because dependency failure: a, b"),
        (outcomes.cyclic(X), "cyclic_dependency", "Cyclic dependency detected between requested tool calls."),
        (outcomes.cancelled_before_start(X), "cancelled", "Tool 'x' was cancelled before it started"),
        (
            outcomes.cancelled_while_running(X),
            "cancelled",
            "Tool 'x' was cancelled while running; it may have taken effect",
        ),
        (
            outcomes.unknown(X, []),
            "unknown_tool",
            "Tool 'x' failed: Tool 'x' not found on any connected server.",
        ),
        (
            outcomes.not_an_object(X, "[1, 2"),
            "invalid_arguments",
            "Tool 'x' failed: the arguments are not a JSON object: [1, 2",
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, ToolCallError) else "",
)
def test_each_failure_has_its_kind_and_its_words(error: ToolCallError, kind: str, text: str) -> None:
    assert (error.kind, error.error) == (kind, text)
    assert (error.tool_call_id, error.name, error.response_id) == ("1", "x", "r")


def test_an_unknown_tool_is_told_with_those_that_there_are_in_order() -> None:
    assert outcomes.unknown(X, ["b", "a"]).error.endswith("Available tools: a, b")


def test_what_a_model_sent_is_cut_so_that_the_cause_is_still_told() -> None:
    unknown = outcomes.unknown(ToolCallRequest(id="1", name="y" * 100_000), ["a"]).error
    assert "not found on any connected server. Available tools: a" in unknown
    assert len(outcomes.not_an_object(X, "{" * 100_000).error) < 600


def test_threads_that_hold_the_slots_are_named_once_each_in_order() -> None:
    text = outcomes.unavailable(X, 5.0, ["b", "a", "b"]).error
    assert text.startswith("Tool 'x' failed: no slot came free in 5s")
    assert text.endswith(": a, b")


@pytest.mark.parametrize(
    "make",
    [
        lambda: outcomes.raised(X, ValueError("long " * 100_000)),
        lambda: outcomes.raised(X, ExceptionGroup("many", [ValueError("one of many")] * 10_000)),
        lambda: outcomes.unknown(X, [f"tool{number}" for number in range(10_000)]),
        lambda: outcomes.unknown(ToolCallRequest(id="1", name="y" * 100_000), ["a"]),
        lambda: outcomes.not_an_object(X, "{" * 100_000),
        lambda: outcomes.unavailable(X, 5.0, [f"tool{number}" for number in range(10_000)]),
        lambda: outcomes.skipped(X, [f"tool{number}" for number in range(10_000)]),
        lambda: outcomes.error(X, "failed", "z" * 100_000),
    ],
)
def test_every_text_is_bounded(make: Callable[[], ToolCallError]) -> None:
    text = make().error
    assert len(text) <= outcomes.MAX_ERROR_CHARS
    assert "[cut]" in text or "one of many" in text


def test_a_secret_in_what_a_tool_raises_is_not_told_wherever_it_stands() -> None:
    for padding in (0, 10, 1_990, 19_990):
        text = outcomes.raised(X, ValueError("y" * padding + " api_key=hunter2hunter2 refused")).error
        assert "hunter2" not in text


@pytest.mark.parametrize("error", [ValueError("caf\udce9.txt"), ValueError("\ud800"), KeyError("\udfff")])
def test_half_a_surrogate_pair_does_not_reach_the_wire(error: Exception) -> None:
    outcomes.raised(X, error).model_dump_json().encode()


@given(st.text(max_size=300))
def test_any_text_that_a_tool_raises_makes_an_error_that_can_be_stored(text: str) -> None:
    error = outcomes.raised(X, ValueError(text))
    assert error.error.startswith("Tool 'x' failed: ")
    stored = json.loads(json.dumps(error.model_dump(mode="json")))
    assert ToolCallError.model_validate(stored) == error


def test_a_group_is_told_by_what_is_in_it_at_any_depth_and_in_order() -> None:
    inner = BaseExceptionGroup("in", [KeyError("two"), OSError()])
    group = BaseExceptionGroup("out", [ValueError("one"), inner, KeyboardInterrupt("four")])
    assert outcomes.describe(group) == "one; KeyError: 'two'; OSError; KeyboardInterrupt: four"
    assert [type(leaf) for leaf in outcomes.leaves(group)] == [
        ValueError,
        KeyError,
        OSError,
        KeyboardInterrupt,
    ]
