"""Strategies for calls of an application's tools, valid and invalid."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

from hypothesis import assume
from hypothesis import strategies as st

from seqoria_runtime._base.tools import Tool, ToolFailure
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.toolbox import LocalToolbox

from ._arguments import json_values

Invalid: TypeAlias = Literal[
    "missing argument", "unknown argument", "wrong type", "not an object", "cut off", "unknown tool"
]
INVALID: Final[tuple[Invalid, ...]] = get_args(Invalid)
"""The ways in which a call can be invalid, as `batches` and `tool_arguments` take them."""

_ODD_VALUES: Final[tuple[Any, ...]] = ({}, [], "odd", None, 0.5, True, -1)


def tool_arguments(tool: Tool, invalid: Invalid | None = None) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments for one tool, from its schema: valid ones, or invalid in a named way.

    Ways that do not concern the arguments ("not an object", "cut off", "unknown tool") leave them
    valid. Raises `ValueError` for a way that is impossible for this tool, such as a missing argument
    for a tool without parameters.
    """
    valid = json_values(tool.parameters).filter(lambda arguments: accepts(tool, arguments))
    if invalid is None or invalid not in _SPOILERS:
        return valid
    if not can_be(tool, invalid):
        raise ValueError(f"arguments of the tool {tool.name!r} cannot be invalid as {invalid!r}")
    return _SPOILERS[invalid](tool, valid)


def calls_of(
    tool: Tool, invalid: Invalid | None = None, *, call_id: str = "call-1"
) -> st.SearchStrategy[ToolCallRequest]:
    """Calls of one tool, valid or invalid in a named way."""
    return _Calls(tool, invalid).of(call_id)


def can_be(tool: Tool, invalid: Invalid) -> bool:
    """Return whether calls of a tool can be invalid in this way."""
    if invalid == "missing argument":
        return bool(tool.parameters.get("required"))
    return invalid != "wrong type" or bool(tool.parameters.get("properties"))


def accepts(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Return whether a tool accepts these arguments from a model."""
    try:
        tool.validate(arguments)
    except ToolFailure:
        return False
    return True


@st.composite
def _without_one(draw: st.DrawFn, tool: Tool, valid: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    missing = draw(st.sampled_from(sorted(tool.parameters["required"])))
    return {name: value for name, value in draw(valid).items() if name != missing}


@st.composite
def _with_one_more(draw: st.DrawFn, tool: Tool, valid: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    names = tool.parameters.get("properties", {})
    name = draw(st.from_regex(r"[a-z_]{1,8}", fullmatch=True).filter(lambda name: name not in names))
    return {**draw(valid), name: draw(json_values())}


@st.composite
def _with_an_odd_one(draw: st.DrawFn, tool: Tool, valid: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    arguments = draw(valid)
    name = draw(st.sampled_from(sorted(tool.parameters["properties"])))
    candidates = [{**arguments, name: value} for value in _ODD_VALUES]
    refused = [candidate for candidate in candidates if not accepts(tool, candidate)]
    assume(refused)
    return draw(st.sampled_from(refused))


_Spoiler: TypeAlias = Callable[[Tool, st.SearchStrategy[dict[str, Any]]], st.SearchStrategy[dict[str, Any]]]
_SPOILERS: Final[Mapping[str, _Spoiler]] = {
    "missing argument": _without_one,
    "unknown argument": _with_one_more,
    "wrong type": _with_an_odd_one,
}


def batches(
    toolbox: LocalToolbox,
    *,
    min_calls: int = 1,
    max_calls: int = 6,
    invalid: Invalid | Collection[Invalid] = (),
    repeat_ids: bool = False,
) -> st.SearchStrategy[list[ToolCallRequest]]:
    """Batches of calls for an application's own toolbox, with arguments from its schemas.

    They are valid, except for one call in each batch if `invalid` names one or more ways that its tools
    allow. Call ids differ within a batch, unless `repeat_ids`. Hidden parameters are not arguments: they
    come from the context or the registry, as usual.
    """
    tools = toolbox.tools
    if not tools:
        raise ValueError("the toolbox has no tools to call")
    ways = [way for way in _ways(invalid) if any(can_be(tool, way) for tool in tools)]
    right = st.sampled_from([_Calls(tool, None) for tool in tools])
    wrong = st.sampled_from([_Calls(tool, way) for way in ways for tool in tools if can_be(tool, way)])
    ids = st.sampled_from(["call-1", "call-2"]) if repeat_ids else None
    return _batches(st.lists(right, min_size=min_calls, max_size=max_calls), wrong if ways else None, ids)


@st.composite
def _batches(
    draw: st.DrawFn,
    plans: "st.SearchStrategy[list[_Calls]]",
    wrong: "st.SearchStrategy[_Calls] | None",
    ids: st.SearchStrategy[str] | None,
) -> list[ToolCallRequest]:
    plan = draw(plans)
    if wrong is not None:
        plan[draw(st.integers(0, len(plan) - 1))] = draw(wrong)
    return [
        draw(calls.of(draw(ids) if ids is not None else f"call-{number}"))
        for number, calls in enumerate(plan, 1)
    ]


def _ways(invalid: Invalid | Collection[Invalid]) -> list[Invalid]:
    ways = [invalid] if isinstance(invalid, str) else list(invalid)
    for way in ways:
        if way not in INVALID:
            raise ValueError(f"'invalid' takes {', '.join(map(repr, INVALID))}, not {way!r}")
    return ways


class _Calls:
    """Makes calls of one tool that are valid, or invalid in one way."""

    def __init__(self, tool: Tool, invalid: Invalid | None) -> None:
        self._name = tool.name if invalid != "unknown tool" else f"not_{tool.name}"[:64]
        self._parts: dict[str, st.SearchStrategy[Any]] = {"arguments": tool_arguments(tool, invalid)}
        if invalid == "not an object":
            self._parts = {"invalid_arguments": st.sampled_from(["[1]", '"text"', '{"a": ', "null"])}
        if invalid == "cut off":
            self._parts["truncated"] = st.just(True)

    def of(self, call_id: str) -> st.SearchStrategy[ToolCallRequest]:
        return st.builds(ToolCallRequest, id=st.just(call_id), name=st.just(self._name), **self._parts)

    def __repr__(self) -> str:
        return self._name
