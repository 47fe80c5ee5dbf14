"""What a scripted model answers to one request, piece by piece. `scripted_provider` plays it."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from keyword import iskeyword
from typing import Any, TypeAlias

from pydantic import BaseModel

from seqoria_runtime._base.checks import non_negative_seconds
from seqoria_runtime.models import (
    UNNAMED_TOOL,
    AssistantMessage,
    ChatChunk,
    LLMUsage,
    ToolCallRequest,
    ToolCallRequestList,
    ToolCallStarted,
)
from seqoria_runtime.providers import ModelResponse, ProviderEvent
from seqoria_runtime.testing._tools.behaviours import PrintsAsProgram


class Unanswered(Enum):
    """How a scripted model's stream ends if it neither answers nor fails."""

    CUT = "cut"
    STALL = "stall"


Ending: TypeAlias = ModelResponse | BaseException | Unanswered


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ScriptedCall(PrintsAsProgram):
    """A tool call that a scripted model asks for; its `repr` is the Python that makes it.

    Without an `id` the provider makes one.
    """

    name: str
    arguments: dict[str, Any]
    id: str | None = None
    invalid_arguments: str | None = None
    truncated: bool = False

    def with_id(self, call_id: str) -> "ScriptedCall":
        """Return the same call with this id, which may repeat."""
        return replace(self, id=call_id)

    def __repr__(self) -> str:
        if self.invalid_arguments is not None:
            truncated = ", truncated=True" if self.truncated else ""
            program = f"broken_call({self.name!r}, {self.invalid_arguments!r}{truncated})"
        elif all(name.isidentifier() and not iskeyword(name) for name in self.arguments):
            program = _written("call", [self.name], self.arguments)
        else:
            program = f"call({self.name!r}, **{self.arguments!r})"
        return program if self.id is None else f"{program}.with_id({self.id!r})"

    def request(self, new_id: str) -> ToolCallRequest:
        """Return the call as a provider reports it."""
        return ToolCallRequest(
            id=self.id or new_id,
            name=self.name or UNNAMED_TOOL,
            arguments=self.arguments,
            invalid_arguments=self.invalid_arguments,
            truncated=self.truncated,
        )


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Reply(PrintsAsProgram):
    """What a scripted model does for one request: `events`, then the `ending`.

    The first event comes after `delay` seconds, each other one `every` seconds after the one before
    it, and the ending right after the last. `calls` go into the final response. The `repr` is the
    Python that makes it.
    """

    events: tuple[ProviderEvent, ...]
    ending: Ending
    calls: tuple[ScriptedCall, ...] = ()
    delay: float = 0.0
    every: float = 0.0
    program: str = ""

    def __post_init__(self) -> None:
        non_negative_seconds("delay", self.delay)
        non_negative_seconds("every", self.every)
        if not isinstance(self.ending, (BaseException, BaseModel, Unanswered)):
            raise TypeError(f"a scripted model fails with an exception, not with {self.ending!r}")

    def fails(self, error: BaseException, *, after: int | None = None) -> "Reply":
        """Return this reply, but raise `error` after `after` of its events (by default all of them)."""
        return self._broken("fails", error, after, error)

    def cuts_off(self, *, after: int | None = None) -> "Reply":
        """Return this reply, but end the stream after `after` of its events, without a final response."""
        return self._broken("cuts_off", Unanswered.CUT, after)

    def stalls(self, *, after: int | None = None) -> "Reply":
        """Return this reply, but after `after` of its events send nothing more until it is cancelled."""
        return self._broken("stalls", Unanswered.STALL, after)

    def __repr__(self) -> str:
        return (
            self.program
            or f"Reply({self.events!r}, {self.ending!r}, {self.calls!r}, {self.delay!r}, {self.every!r})"
        )

    def _broken(self, how: str, ending: Ending, after: int | None, *values: object) -> "Reply":
        if after is not None and not 0 <= after <= len(self.events):
            raise ValueError(f"'after' must be from 0 to {len(self.events)}, the events here, not {after!r}")
        program = f"{self!r}.{_program(how, *values, after=after)}"
        return replace(self, events=self.events[:after], ending=ending, program=program)


def says(
    text: str,
    *,
    chunks: int | Sequence[str] | None = None,
    thinking: str | None = None,
    usage: LLMUsage | None = None,
    delay: float = 0.0,
    every: float = 0.0,
) -> Reply:
    """The model answers with `text`.

    It arrives in `chunks`: a number of pieces of about the same length, or the pieces themselves; by
    default one. `thinking` arrives first, as a separate piece. `delay` is the time to the first piece
    and `every` the time between pieces, in seconds.
    """
    message = AssistantMessage(content=text, thinking=thinking, usage=usage, finish_reason="stop")
    program = _program("says", text, chunks=chunks, thinking=thinking, usage=usage, delay=delay, every=every)
    return Reply(_deltas(text, chunks, thinking), message, delay=delay, every=every, program=program)


def calls(
    *requested: ScriptedCall,
    text: str = "",
    chunks: int | Sequence[str] | None = None,
    thinking: str | None = None,
    usage: LLMUsage | None = None,
    delay: float = 0.0,
    every: float = 0.0,
) -> Reply:
    """The model asks for a batch of calls, after `text` and `thinking`, which arrive as in `says`.

    The start of each call is an event as well, so `calls(call("a"), call("b")).fails(error, after=1)`
    fails in the middle of the first call.
    """
    for one in requested:
        if not isinstance(one, ScriptedCall):
            raise TypeError(f"a batch holds calls made with call('name', ...), not {one!r}")
    message = AssistantMessage(content=text, thinking=thinking, usage=usage, finish_reason="tool_calls")
    started = tuple(ToolCallStarted(one.name or None) for one in requested)
    response = ToolCallRequestList(usage=usage, message=message if text or thinking else None)
    options = {"text": text, "chunks": chunks, "thinking": thinking, "usage": usage}
    program = _program("calls", *requested, **options, delay=delay, every=every)
    return Reply((*_deltas(text, chunks, thinking), *started), response, requested, delay, every, program)


def call(name: str, /, **arguments: Any) -> ScriptedCall:
    """Return one call for `calls`. An empty `name` stands for a model that forgot it."""
    return ScriptedCall(name, arguments)


def broken_call(name: str, raw: str, /, *, truncated: bool = False) -> ScriptedCall:
    """Return a call whose arguments are not a JSON object, or are cut by the output limit: `raw`."""
    return ScriptedCall(name, {}, invalid_arguments=raw, truncated=truncated)


def fails(error: BaseException, *, delay: float = 0.0) -> Reply:
    """The model raises `error` after `delay` seconds, before any output.

    (`seqoria_runtime.testing.tools.fails` is for tools.)
    """
    return Reply((), error, delay=delay, program=_program("fails", error, delay=delay))


def cuts_off() -> Reply:
    """The model's stream ends at once and is empty."""
    return Reply((), Unanswered.CUT, program="cuts_off()")


def stalls() -> Reply:
    """The model never answers."""
    return Reply((), Unanswered.STALL, program="stalls()")


def emits(*events: ProviderEvent, delay: float = 0.0, every: float = 0.0) -> Reply:
    """The model sends exactly these events, and then ends the stream."""
    return Reply(
        events,
        Unanswered.CUT,
        delay=delay,
        every=every,
        program=_program("emits", *events, delay=delay, every=every),
    )


def _program(function: str, /, *values: object, **options: object) -> str:
    """Return the call that makes a reply, without the options that were not set."""
    given = {
        name: value for name, value in options.items() if value is not None and (value or name == "after")
    }
    return _written(function, values, given)


def _written(function: str, values: Sequence[object], options: Mapping[str, object]) -> str:
    words = [*map(repr, values), *(f"{name}={value!r}" for name, value in options.items())]
    return f"{function}({', '.join(words)})"


def _deltas(text: str, chunks: int | Sequence[str] | None, thinking: str | None) -> tuple[ChatChunk, ...]:
    thought = (ChatChunk(thinking=thinking),) if thinking else ()
    return (*thought, *(ChatChunk(content=piece) for piece in _pieces(text, chunks)))


def _pieces(text: str, chunks: int | Sequence[str] | None) -> Sequence[str]:
    if chunks is None:
        return [text] if text else []
    if isinstance(chunks, int) and not isinstance(chunks, bool):
        if not 0 < chunks <= len(text):
            raise ValueError(
                f"'chunks' must be from 1 to the length of the text, {len(text)}, not {chunks!r}"
            )
        ends = [len(text) * n // chunks for n in range(chunks + 1)]
        return [text[start:end] for start, end in itertools.pairwise(ends)]
    if isinstance(chunks, (str, bool)) or "".join(chunks) != text:
        raise ValueError(f"'chunks' must be a number or strings that add up to the text, not {chunks!r}")
    return chunks
