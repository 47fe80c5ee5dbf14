"""Strategies for scripted models: rounds of calls, and then a text or a failure."""

from typing import Any

from hypothesis import strategies as st

from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.models.errors import ProviderConnectionError
from seqoria_runtime.testing._model.script import Reply, ScriptedCall, calls, cuts_off, fails, says, stalls
from seqoria_runtime.toolbox import LocalToolbox

from ._batches import Invalid, batches

_SECONDS = st.sampled_from([0.0, 0.5, 1.0])
_ANSWERS = st.builds(
    says, st.sampled_from(["done", "all is well"]), chunks=st.integers(1, 3), delay=_SECONDS, every=_SECONDS
)


def provider_scripts(
    toolbox: LocalToolbox,
    *,
    max_rounds: int = 2,
    max_calls: int = 4,
    invalid: tuple[Invalid, ...] = (),
    failing: bool = False,
) -> st.SearchStrategy[list[Reply]]:
    """Scripts for a `ScriptedProvider`: at most `max_rounds` batches for `toolbox`, then an answer.

    With `invalid`, each batch has one call that is invalid in one of these ways. With `failing`, the
    last reply may be a failure, before or after its first output.
    """
    requested = batches(toolbox, max_calls=max_calls, invalid=invalid)
    return _scripts(st.lists(_round(requested), max_size=max_rounds), failing)


@st.composite
def _scripts(draw: st.DrawFn, rounds: st.SearchStrategy[list[Reply]], failing: bool) -> list[Reply]:
    replies, answer = draw(rounds), draw(_ANSWERS)
    return [*replies, draw(_broken(answer)) if failing and draw(st.booleans()) else answer]


@st.composite
def _round(draw: st.DrawFn, requested: st.SearchStrategy[list[ToolCallRequest]]) -> Reply:
    asked = [_scripted(request) for request in draw(requested)]
    return draw(
        st.builds(calls, *map(st.just, asked), text=st.sampled_from(["", "let me see"]), delay=_SECONDS)
    )


def _scripted(request: ToolCallRequest) -> ScriptedCall:
    return ScriptedCall(
        request.name,
        request.arguments,
        invalid_arguments=request.invalid_arguments,
        truncated=request.truncated,
    )


@st.composite
def _broken(draw: st.DrawFn, answer: Reply) -> Reply:
    error = draw(st.builds(ProviderConnectionError, st.just("planned")))
    after: Any = draw(st.integers(0, len(answer.events)))
    return draw(
        st.sampled_from([
            fails(error),
            answer.fails(error, after=after),
            answer.cuts_off(after=after),
            cuts_off(),
            stalls(),
            answer.stalls(after=after),
        ])
    )
