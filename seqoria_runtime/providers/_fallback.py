"""Asks one provider after the other, as long as nothing of an answer was given out.

Knows only the protocol. "Given out" is a chunk with text or reasoning, the start of a tool call or
a final response; empty chunks are neither passed on nor counted.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from seqoria_runtime.models import AssistantMessage, ChatChunk, ToolCallRequestList, ToolCallStarted
from seqoria_runtime.models.errors import AllProvidersFailedError, LLMError, ProviderProtocolError

from ._protocol import AsyncBaseProvider, ModelRequest, ModelResponse, ProviderEvent

_FINAL = (AssistantMessage, ToolCallRequestList)


async def stream_with_fallback(
    providers: Sequence[AsyncBaseProvider], request: ModelRequest
) -> AsyncGenerator[ProviderEvent, None]:
    """Yield the events of the first provider that gives any; the last one is the final response.

    The providers are asked in their order, each with the same request, but `request.model` goes to
    the first alone: it names a model of that one's. Only an `LLMError` moves on to the next, and
    only before the first output; after it, it is raised. When all have failed, raises the error of
    an only provider as it is, and otherwise `AllProvidersFailedError`. Closing the iterator, or
    cancelling its consumer, closes the provider's stream first; no other provider is asked then.
    """
    begun = await _begin(providers, request)
    try:
        yield begun.event
        if isinstance(begun.event, _FINAL):
            return
        async for event in begun.events:
            yield event
            # Asking for another class costs a microsecond, as pydantic's models answer that themselves.
            if event.__class__ is not ChatChunk and isinstance(event, _FINAL):
                return
        raise _unfinished(begun.provider)
    except LLMError as error:
        error.provider = error.provider or begun.provider.name
        raise
    finally:
        await _close(begun.events)


class _Begun(NamedTuple):
    provider: AsyncBaseProvider
    events: AsyncIterator[ProviderEvent]
    event: ProviderEvent


async def _begin(providers: Sequence[AsyncBaseProvider], request: ModelRequest) -> _Begun:
    failures: list[LLMError] = []
    for provider, asked in _asked(providers, request):
        try:
            return await _first_output(provider, asked)
        except LLMError as error:
            error.provider = error.provider or provider.name
            failures.append(error)
    raise _all_failed(failures)


async def _first_output(provider: AsyncBaseProvider, request: ModelRequest) -> _Begun:
    events = aiter(provider.stream(request))
    try:
        async for event in events:
            if _is_output(event, provider):
                return _Begun(provider, events, event)
        raise _unfinished(provider)
    except BaseException:
        await _close(events)
        raise


async def generate_with_fallback(
    providers: Sequence[AsyncBaseProvider], request: ModelRequest
) -> ModelResponse:
    """Give the response of the first provider that has one; fails as `stream_with_fallback` does."""
    failures: list[LLMError] = []
    for provider, asked in _asked(providers, request):
        try:
            response = await provider.generate(asked)
            if isinstance(response, _FINAL):
                return response
            raise ProviderProtocolError(
                f"{provider.name} gave {type(response).__name__}, which is no response"
            )
        except LLMError as error:
            error.provider = error.provider or provider.name
            failures.append(error)
    raise _all_failed(failures)


def _asked(
    providers: Sequence[AsyncBaseProvider], request: ModelRequest
) -> Iterator[tuple[AsyncBaseProvider, ModelRequest]]:
    for place, provider in enumerate(providers):
        yield provider, request if place == 0 else replace(request, model=None)


def _is_output(event: ProviderEvent, provider: AsyncBaseProvider) -> bool:
    if isinstance(event, ChatChunk):
        return bool(event.content or event.thinking)
    if isinstance(event, (ToolCallStarted, *_FINAL)):
        return True
    raise ProviderProtocolError(f"{provider.name}'s stream gave no event but {type(event).__name__}")


def _unfinished(provider: AsyncBaseProvider) -> ProviderProtocolError:
    return ProviderProtocolError(f"{provider.name}'s stream ended without a response", provider=provider.name)


async def _close(events: AsyncIterator[ProviderEvent]) -> None:
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()


def _all_failed(failures: Sequence[LLMError]) -> LLMError:
    return failures[0] if len(failures) == 1 else AllProvidersFailedError(failures)
