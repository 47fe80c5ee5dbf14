"""The rule of fallback: a model is asked in place of another one only before that one has said anything."""

from collections.abc import Iterable

from seqoria_runtime.testing._model.scripted_provider import ScriptedProvider

from .invariant import InvariantError


def check_fallback(providers: Iterable[ScriptedProvider]) -> None:
    """No question goes to a model, or to the same one again, after output of a stream that failed."""
    streams = [(stream, provider.name) for provider in providers for stream in provider.streams]
    for failed, first in streams:
        if failed.end != "failed" or not failed.events or failed.closed_at is None:
            continue
        for other, second in streams:
            again = other is not failed and other.request.messages == failed.request.messages
            if again and other.opened_at >= failed.closed_at:
                raise InvariantError(
                    f"{second!r} was asked at {other.opened_at:g} s what {first!r} had been asked, which had "
                    f"given {failed.events} events before it failed at {failed.closed_at:g} s"
                )
