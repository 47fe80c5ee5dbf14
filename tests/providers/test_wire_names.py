"""Names and ids as they are sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.providers._requests.wire_names import CallIdRule, CallIds, WireNames, wire_name

NINE = CallIdRule(exactly=9)


@given(st.lists(st.text(min_size=1), unique=True, max_size=8))
def test_every_name_goes_out_in_the_grammar_and_comes_back(names: list[str]) -> None:
    sent = [wire_name(name) for name in names]
    there = WireNames(names)
    assert [there.real(one) for one in sent] == names
    for one in sent:
        assert 1 <= len(one) <= 64
        assert one.isascii()
        assert one.replace("_", "a").replace("-", "a").isalnum()
        assert one[0] == "_" or one[0].isalpha()


@pytest.mark.parametrize("name", ["add", "_x", "A-b_9", "x" * 64])
def test_a_name_that_every_server_takes_stays(name: str) -> None:
    assert wire_name(name) == name


def test_a_name_that_has_to_change_stays_readable() -> None:
    assert wire_name("files.read").startswith("files_read_")


def test_a_name_that_the_model_made_up_stays() -> None:
    assert WireNames(["add"]).real("ad") == "ad"


@pytest.mark.case("I6")
@given(st.lists(st.text(st.sampled_from("aB0-_."), min_size=1, max_size=12), max_size=20))
def test_ids_fit_the_rule_and_no_two_share_one(ids: list[str]) -> None:
    mapped = CallIds(NINE)
    sent = {call_id: mapped.wire(call_id) for call_id in ids}
    assert len(set(sent.values())) == len(sent)
    for call_id, one in sent.items():
        assert len(one) == 9
        assert one.isalnum()
        assert mapped.wire(call_id) == one


@pytest.mark.case("I6")
def test_an_id_that_looks_like_anothers_replacement_gets_another() -> None:
    replacement = CallIds(NINE).wire("toolu_01")
    mapped = CallIds(NINE)
    first, second = mapped.wire("toolu_01"), mapped.wire(replacement)
    assert first == replacement
    assert second != replacement


def test_without_a_grammar_only_the_length_counts() -> None:
    mapped = CallIds(CallIdRule())
    assert mapped.wire("functions.add:0") == "functions.add:0"
    assert mapped.wire("x" * 40) == "x" * 40
    assert len(mapped.wire("x" * 41)) == 32
