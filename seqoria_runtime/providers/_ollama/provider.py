"""The provider for Ollama's own chat."""

import logging
import os
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import urlsplit

from seqoria_runtime._base.checks import boolean
from seqoria_runtime.models.errors import LLMError, ModelNotFoundError
from seqoria_runtime.providers._answers.encoded_request import EncodedRequest
from seqoria_runtime.providers._http.connection import HTTPClient
from seqoria_runtime.providers._http.endpoint import Service
from seqoria_runtime.providers._http.options import HTTPOptions
from seqoria_runtime.providers._http.provider import HTTPProvider, HTTPSettings
from seqoria_runtime.providers._http.retry import RetryPolicy
from seqoria_runtime.providers._protocol import ModelRequest, ModelResponse, ProviderEvent
from seqoria_runtime.providers._requests.options import OLLAMA_BODY_OPTIONS, OLLAMA_MODEL_OPTIONS, OptionSet
from seqoria_runtime.providers._requests.output import in_format

from .request import encode_ollama, encode_pull

_DEFAULT_HOST = "http://localhost:11434"
_PORT = 11434
_UNSPECIFIED = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}
_logger = logging.getLogger("seqoria_runtime.providers")


class AsyncOllamaProvider(HTTPProvider):
    """Asks a model over Ollama's chat; does no I/O before the first request.

    `host` (or its alias `base_url`) is a URL, or a host with or without a port; by default
    `OLLAMA_HOST`, or else this machine. `api_key` is optional and may come from `OLLAMA_API_KEY`.
    With `auto_pull`, the server first pulls a model that it does not have, which may take long. The
    other settings are those of `AsyncOpenAICompatibleProvider`. All further keywords are generation
    options, the defaults for every request.

    Raises `TypeError` for an unknown option, `ValueError` for a bad value, and
    `InvalidRequestError` without a model.
    """

    def __init__(  # noqa: PLR0913  # settings with defaults, all but the first by keyword
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
        url = ollama_url(base_url if host is None else host)
        settings = HTTPSettings(url, api_key, http_client, timeout, headers, retry, name)
        self._auto_pull = boolean("auto_pull", auto_pull)
        known = OptionSet(OLLAMA_BODY_OPTIONS | OLLAMA_MODEL_OPTIONS, in_format)
        super().__init__(model_id, service, settings, known=known, options=options)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Answer as it is made; see `AsyncBaseProvider.stream`.

        Closing the stream, or cancelling its consumer, closes the response before it returns. A
        pull goes on at the server.
        """
        encoded = self._encoded(request, stream=True)
        return self._stream_or_pull(encoded) if self._auto_pull else self._driver.stream(encoded)

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer at once, without streaming. A cancelled caller leaves no response open."""
        encoded = self._encoded(request, stream=False)
        try:
            return await self._driver.ask(encoded)
        except ModelNotFoundError as missing:
            await self._pull(encoded.model, missing)
        return await self._driver.ask(encoded)

    async def _stream_or_pull(self, encoded: EncodedRequest) -> AsyncGenerator[ProviderEvent, None]:
        events = self._driver.stream(encoded)
        try:
            try:
                first = await anext(events)
            except ModelNotFoundError as missing:
                await self._pull(encoded.model, missing)
                events = self._driver.stream(encoded)
                first = await anext(events)
            yield first
            async for event in events:
                yield event
        finally:
            await events.aclose()

    async def _pull(self, model: str, missing: ModelNotFoundError) -> None:
        if not self._auto_pull:
            raise missing
        _logger.info("%s does not have the model %r and pulls it", self.name, model)
        try:
            await self._driver.ask(encode_pull(model))
        except LLMError as error:
            raise missing from error

    def _encode(
        self, request: ModelRequest, *, model: str, options: Mapping[str, Any], stream: bool
    ) -> EncodedRequest:
        return encode_ollama(request, model=model, options=options, stream=stream)


def ollama_url(host: Any) -> Any:
    """Return the base URL for a host, for `OLLAMA_HOST` without one, or else for this machine.

    It takes the forms that Ollama's own programs take: scheme and port are optional, and an address
    that a server listens on (all interfaces) means this machine. What is not text is returned as it
    is.
    """
    if host is None:
        host = os.environ.get("OLLAMA_HOST", "").strip().strip("\"'") or _DEFAULT_HOST
    if not isinstance(host, str):
        return host
    plain = "://" not in host
    try:
        parts = urlsplit(f"http://{host}" if plain else host)
        name, port = parts.hostname or "", parts.port or (_PORT if plain else None)
    except ValueError:
        return host
    user, at, _ = parts.netloc.rpartition("@")
    shown = _UNSPECIFIED.get(name) or (f"[{name}]" if ":" in name else name)
    place = f"{user}{at}{shown}" + (f":{port}" if port else "")
    path = parts.path.rstrip("/").removesuffix("/v1").removesuffix("/api")
    return parts._replace(netloc=place, path=path).geturl()
