"""Owns a model behind places where it may fail: as it is asked, at each event, and at its end."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from seqoria_runtime.providers import AsyncBaseProvider, ModelRequest, ProviderEvent


class FaultyProvider(AsyncBaseProvider):
    """Passes on what `model` says; `passing` is called with words for each place, and may raise."""

    def __init__(self, model: AsyncBaseProvider, passing: Callable[[str], None]) -> None:
        self._model = model
        self._passing = passing

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        self._passing(f"{self.name} is asked")
        async with aclosing(self._events(request)) as events:
            async for event in events:
                self._passing(f"{self.name} gives {type(event).__name__}")
                yield event  # noqa: ASYNC119 - the runtime closes a provider's stream in the task that reads it
        self._passing(f"{self.name} has answered")

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        events = self._model.stream(request)
        try:
            async for event in events:
                yield event
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
