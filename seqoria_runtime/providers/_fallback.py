"""Asks one provider after another until one of them has output.

Output is a chunk with text or reasoning, the start of a tool call, or a final response. Empty chunks
are neither passed on nor counted. Knows only the provider protocol.
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
    """Yield the events of the first provider that has output; the last one is the final response.

    The providers are asked in order, each with the same request, except that `request.model` goes
    only to the first, since it names a model of that provider. Only an `LLMError` before the first
    output moves on to the next provider. If all fail, raises the error of a single provider as it
    is, and otherwise `AllProvidersFailedError`. Closing the iterator, or cancelling its consumer,
    closes the provider's stream first, and asks no other provider.
    """
    first = await _first_with_output(providers, request)
    try:
        yield first.event
        if isinstance(first.event, _FINAL):
            return
        async for event in first.events:
            yield event
            # `isinstance` alone costs a microsecond for each chunk, since pydantic's metaclass answers it.
            if event.__class__ is not ChatChunk and isinstance(event, _FINAL):
                return
        raise _unfinished(first.provider)
    except LLMError as error:
        error.provider = error.provider or first.provider.name
        raise
    finally:
        await _close(first.events)


class _FirstOutput(NamedTuple):
    provider: AsyncBaseProvider
    events: AsyncIterator[ProviderEvent]
    event: ProviderEvent


async def _first_with_output(providers: Sequence[AsyncBaseProvider], request: ModelRequest) -> _FirstOutput:
    failures: list[LLMError] = []
    for provider, own_request in _with_requests(providers, request):
        try:
            return await _first_output(provider, own_request)
        except LLMError as error:
            error.provider = error.provider or provider.name
            failures.append(error)
    raise _all_failed(failures)


async def _first_output(provider: AsyncBaseProvider, request: ModelRequest) -> _FirstOutput:
    events = aiter(provider.stream(request))
    try:
        async for event in events:
            if _is_output(event, provider):
                return _FirstOutput(provider, events, event)
        raise _unfinished(provider)
    except BaseException:
        await _close(events)
        raise


async def generate_with_fallback(
    providers: Sequence[AsyncBaseProvider], request: ModelRequest
) -> ModelResponse:
    """Return the response of the first provider that has one.

    Raises as `stream_with_fallback` does. A cancelled caller asks no other provider.
    """
    failures: list[LLMError] = []
    for provider, own_request in _with_requests(providers, request):
        try:
            response = await provider.generate(own_request)
            if isinstance(response, _FINAL):
                return response
            raise ProviderProtocolError(
                f"{provider.name} returned {type(response).__name__} instead of a response"
            )
        except LLMError as error:
            error.provider = error.provider or provider.name
            failures.append(error)
    raise _all_failed(failures)


def _with_requests(
    providers: Sequence[AsyncBaseProvider], request: ModelRequest
) -> Iterator[tuple[AsyncBaseProvider, ModelRequest]]:
    for index, provider in enumerate(providers):
        yield provider, request if index == 0 else replace(request, model=None)


def _is_output(event: ProviderEvent, provider: AsyncBaseProvider) -> bool:
    if isinstance(event, ChatChunk):
        return bool(event.content or event.thinking)
    if isinstance(event, (ToolCallStarted, *_FINAL)):
        return True
    raise ProviderProtocolError(
        f"{provider.name}'s stream yielded {type(event).__name__} instead of an event"
    )


def _unfinished(provider: AsyncBaseProvider) -> ProviderProtocolError:
    return ProviderProtocolError(f"{provider.name}'s stream ended without a response", provider=provider.name)


async def _close(events: AsyncIterator[ProviderEvent]) -> None:
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()


def _all_failed(failures: Sequence[LLMError]) -> LLMError:
    return failures[0] if len(failures) == 1 else AllProvidersFailedError(failures)
