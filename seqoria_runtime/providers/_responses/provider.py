"""The provider for servers that speak Responses."""

from collections.abc import Mapping
from typing import Any

from seqoria_runtime.providers._answers.encoded_request import EncodedRequest
from seqoria_runtime.providers._http.connection import HTTPClient
from seqoria_runtime.providers._http.endpoint import Service
from seqoria_runtime.providers._http.options import HTTPOptions
from seqoria_runtime.providers._http.provider import HTTPProvider, HTTPSettings
from seqoria_runtime.providers._http.retry import RetryPolicy
from seqoria_runtime.providers._protocol import ModelRequest
from seqoria_runtime.providers._requests.options import RESPONSES_OPTIONS, OptionSet
from seqoria_runtime.providers._requests.output import in_text

from .request import encode_responses


class AsyncOpenAIProvider(HTTPProvider):
    """Asks a model over Responses, at OpenAI or any other server; does no I/O before the first request.

    Without `api_key`, the key comes from `OPENAI_API_KEY`. The other settings are those of
    `AsyncOpenAICompatibleProvider`. All further keywords are generation options, the defaults for
    every request; among them, `tools` defines tools that run at the server, which are offered
    together with the request's own.

    Raises `TypeError` for an unknown option, `ValueError` for a bad value, `InvalidRequestError`
    without a model, and `MissingCredentialsError` without a key that the server needs.
    """

    def __init__(  # noqa: PLR0913  # settings with defaults, all but the first by keyword
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
        settings = HTTPSettings(base_url, api_key, http_client, timeout, headers, retry, name)
        known = OptionSet(RESPONSES_OPTIONS, in_text)
        super().__init__(model_id, service, settings, known=known, options=options)

    def _encode(
        self, request: ModelRequest, *, model: str, options: Mapping[str, Any], stream: bool
    ) -> EncodedRequest:
        return encode_responses(request, model=model, options=options, stream=stream)
