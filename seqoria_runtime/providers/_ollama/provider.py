"""The provider for Ollama's own chat."""

import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from seqoria_runtime._base.checks import boolean
from seqoria_runtime.models.errors import LLMError, ModelNotFoundError
from seqoria_runtime.providers._answers.exchange import JSONExchange
from seqoria_runtime.providers._http.connection import HTTPClient
from seqoria_runtime.providers._http.endpoint import Service
from seqoria_runtime.providers._http.options import HTTPOptions
from seqoria_runtime.providers._http.provider import HTTPProvider, HTTPSettings
from seqoria_runtime.providers._http.retry import RetryPolicy
from seqoria_runtime.providers._protocol import ModelRequest, ModelResponse, ProviderEvent
from seqoria_runtime.providers._requests.options import OLLAMA_BODY_OPTIONS, OLLAMA_MODEL_OPTIONS, OptionSet
from seqoria_runtime.providers._requests.output import in_format

from .host import ollama_url
from .pull import pull_exchange
from .request import ollama_exchange

_logger = logging.getLogger("seqoria_runtime.providers")


class AsyncOllamaProvider(HTTPProvider):
    """Asks a model over Ollama's chat; does no I/O before the first request.

    `host` (or `base_url`, which is the same) is a URL, or a host with or without a port; by default
    what `OLLAMA_HOST` says, or this machine. `api_key` is looked for in `OLLAMA_API_KEY` and is
    optional. With `auto_pull`, a model that the server does not have is fetched there, which may
    take long, and then asked. The other arguments are those of `AsyncOpenAICompatibleProvider`; all
    further keywords are generation options, the defaults of every request.

    Raises `TypeError` for an unknown option, `ValueError` for a bad value and `InvalidRequestError`
    without a model.
    """

    def __init__(  # noqa: PLR0913  # every one is a setting with a default, and all but the first are keywords
        self,
        model_id: str | None = None,
        *,
        host: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        auto_pull: bool = True,
        http_client: HTTPClient | HTTPOptions | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        if host is not None and base_url is not None:
            raise TypeError("'host' and 'base_url' are the same: give one of them")
        service = Service(name="ollama", api_key_vars=("OLLAMA_API_KEY",), key_required=False)
        settings = HTTPSettings(
            base_url=ollama_url(base_url if host is None else host),
            api_key=api_key,
            http_client=http_client,
            timeout=timeout,
            headers=headers,
            retry=retry,
            name=name,
        )
        self._auto_pull = boolean("auto_pull", auto_pull)
        takes = OptionSet(OLLAMA_BODY_OPTIONS | OLLAMA_MODEL_OPTIONS, in_format)
        super().__init__(model_id, service, settings, takes=takes, options=options)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Answer as it is made; see `AsyncBaseProvider.stream`.

        Closing the stream, or cancelling its consumer, closes the response before it returns; a
        model that is being fetched goes on being fetched at the server.
        """
        exchange = self._exchange(request, stream=True)
        return self._stream_or_pull(exchange) if self._auto_pull else self._driver.stream(exchange)

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer at once, without streaming. A cancelled caller leaves no response open."""
        exchange = self._exchange(request, stream=False)
        try:
            return await self._driver.ask(exchange)
        except ModelNotFoundError as missing:
            await self._pull(exchange.model, missing)
        return await self._driver.ask(exchange)

    async def _stream_or_pull(self, exchange: JSONExchange) -> AsyncGenerator[ProviderEvent, None]:
        events = self._driver.stream(exchange)
        try:
            try:
                first = await anext(events)
            except ModelNotFoundError as missing:
                await self._pull(exchange.model, missing)
                events = self._driver.stream(exchange)
                first = await anext(events)
            yield first
            async for event in events:
                yield event
        finally:
            await events.aclose()

    async def _pull(self, model: str, missing: ModelNotFoundError) -> None:
        if not self._auto_pull:
            raise missing
        _logger.info("%s does not have the model %r and fetches it", self.name, model)
        try:
            await self._driver.ask(pull_exchange(model))
        except LLMError as error:
            raise missing from error

    def _exchange(self, request: ModelRequest, *, stream: bool) -> JSONExchange:
        return ollama_exchange(
            request,
            model=self._model_of(request),
            options=self._options_of(request),
            stream=stream,
        )
