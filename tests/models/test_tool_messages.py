import copy
import pickle
from collections.abc import Callable, Iterable, MutableSequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from seqoria_runtime.models import (
    AssistantMessage,
    ToolCallError,
    ToolCallRequest,
    ToolCallResult,
    ToolMessage,
    ToolMessages,
)

pytestmark = pytest.mark.clause("C82")

ITEM = st.one_of(
    st.builds(ToolCallRequest, id=st.sampled_from("abc"), name=st.just("add")),
    st.builds(ToolCallResult, tool_call_id=st.sampled_from("abc"), result=st.just("3")),
    st.builds(ToolCallError, tool_call_id=st.sampled_from("abc"), error=st.just("no")),
)
WRONG: st.SearchStrategy[Any] = st.sampled_from([
    None,
    "text",
    {"role": "tool_call"},
    AssistantMessage(),
    [1],
])
INDEX = st.integers(-8, 8)
SLICE = st.slices(8)


def attempt(action: Callable[[], object]) -> object:
    """What an action returns, or the type of what it raises."""
    try:
        return action()
    except (IndexError, ValueError) as error:
        return type(error)


class AgainstAList(RuleBasedStateMachine):
    """Every update of valid items does what it does to a list; one with a wrong item does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.plain: list[ToolMessage] = []
        self.ours = ToolMessages()

    def both(self, action: Callable[[MutableSequence[Any]], object]) -> None:
        assert attempt(lambda: action(self.ours)) == attempt(lambda: action(self.plain))

    def refused(self, action: Callable[[], object]) -> None:
        with pytest.raises(TypeError):
            action()

    @rule(item=ITEM)
    def append(self, item: ToolMessage) -> None:
        self.both(lambda target: target.append(item))

    @rule(items=st.lists(ITEM, max_size=4))
    def extend(self, items: list[ToolMessage]) -> None:
        self.both(lambda target: target.extend(iter(items)))

    @rule(index=INDEX, item=ITEM)
    def insert(self, index: int, item: ToolMessage) -> None:
        self.both(lambda target: target.insert(index, item))

    @rule(index=INDEX, item=ITEM)
    def replace(self, index: int, item: ToolMessage) -> None:
        self.both(lambda target: target.__setitem__(index, item))

    @rule(place=SLICE, items=st.lists(ITEM, max_size=4))
    def replace_slice(self, place: slice, items: list[ToolMessage]) -> None:
        self.both(lambda target: target.__setitem__(place, items))

    @rule(items=st.lists(ITEM, max_size=4))
    def add_in_place(self, items: list[ToolMessage]) -> None:
        before = self.ours
        self.ours += iter(items)
        self.plain += items
        assert self.ours is before

    @rule(index=INDEX)
    def remove(self, index: int) -> None:
        self.both(lambda target: target.pop(index))

    @rule(good=st.lists(ITEM, max_size=3), bad=WRONG, more=st.lists(ITEM, max_size=2), index=INDEX)
    def refuse(self, good: list[Any], bad: Any, more: list[Any], index: int) -> None:
        mixed = [*good, bad, *more]
        self.refused(lambda: self.ours.append(bad))
        self.refused(lambda: self.ours.insert(index, bad))
        self.refused(lambda: self.ours.extend(iter(mixed)))
        self.refused(lambda: self.ours.__iadd__(iter(mixed)))
        self.refused(lambda: self.ours.__setitem__(slice(index, None), mixed))
        if self.plain:
            self.refused(lambda: self.ours.__setitem__(0, bad))

    @invariant()
    def equal(self) -> None:
        assert self.ours == self.plain
        assert type(self.ours + self.plain) is list


TestAgainstAList = AgainstAList.TestCase


@given(st.lists(ITEM, max_size=5))
def test_it_takes_any_iterable_and_equals_the_list_of_it(items: list[ToolMessage]) -> None:
    for form in (items, tuple(items), iter(items), (item for item in items)):
        assert ToolMessages(form) == items


@pytest.mark.parametrize("items", [[None], ["text"], [{"role": "tool_call", "id": "c"}], "ab"])
def test_it_is_not_made_of_anything_else(items: Iterable[Any]) -> None:
    with pytest.raises(TypeError, match="ToolCallRequest, ToolCallResult and ToolCallError"):
        ToolMessages(items)


def test_an_index_out_of_range_is_an_index_error_and_a_bad_slice_a_value_error() -> None:
    request = ToolCallRequest(id="c1", name="add")
    with pytest.raises(IndexError):
        ToolMessages()[0] = request
    with pytest.raises(ValueError, match="size"):
        ToolMessages([request, request])[::2] = [request, request]


def test_it_can_be_copied_and_pickled() -> None:
    messages = ToolMessages([ToolCallRequest(id="c1", name="add")])
    for twin in (copy.copy(messages), copy.deepcopy(messages), pickle.loads(pickle.dumps(messages))):
        assert type(twin) is ToolMessages
        assert twin == messages
