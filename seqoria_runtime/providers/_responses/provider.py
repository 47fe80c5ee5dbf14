"""The provider for servers that speak Responses."""

from collections.abc import Mapping
from typing import Any

from seqoria_runtime.providers._answers.exchange import JSONExchange
from seqoria_runtime.providers._http.connection import HTTPClient
from seqoria_runtime.providers._http.endpoint import Service
from seqoria_runtime.providers._http.options import HTTPOptions
from seqoria_runtime.providers._http.provider import HTTPProvider, HTTPSettings
from seqoria_runtime.providers._http.retry import RetryPolicy
from seqoria_runtime.providers._protocol import ModelRequest
from seqoria_runtime.providers._requests.options import RESPONSES_OPTIONS, OptionSet
from seqoria_runtime.providers._requests.output import in_text

from .request import responses_exchange


class AsyncOpenAIProvider(HTTPProvider):
    """Asks a model over Responses, at OpenAI or any other server; does no I/O before the first request.

    `api_key` is looked for in `OPENAI_API_KEY` where it is not given. The other arguments are those
    of `AsyncOpenAICompatibleProvider`; all further keywords are generation options, the defaults of
    every request. Among them, `tools` are definitions of tools that run at the server and are
    offered beside the request's own.

    Raises `TypeError` for an unknown option, `ValueError` for a bad value, `InvalidRequestError`
    without a model and `MissingCredentialsError` without a key that the server needs.
    """

    def __init__(  # noqa: PLR0913  # every one is a setting with a default, and all but the first are keywords
        self,
        model_id: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        http_client: HTTPClient | HTTPOptions | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        service = Service(
            name="openai", base_url="https://api.openai.com/v1", api_key_vars=("OPENAI_API_KEY",)
        )
        settings = HTTPSettings(
            base_url=base_url,
            api_key=api_key,
            http_client=http_client,
            timeout=timeout,
            headers=headers,
            retry=retry,
            name=name,
        )
        takes = OptionSet(RESPONSES_OPTIONS, in_text)
        super().__init__(model_id, service, settings, takes=takes, options=options)

    def _exchange(self, request: ModelRequest, *, stream: bool) -> JSONExchange:
        return responses_exchange(
            request,
            model=self._model_of(request),
            options=self._options_of(request),
            stream=stream,
        )
