"""The provider for servers that speak Messages."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from seqoria_runtime.providers._answers.exchange import JSONExchange
from seqoria_runtime.providers._http.connection import HTTPClient
from seqoria_runtime.providers._http.endpoint import Service
from seqoria_runtime.providers._http.options import HTTPOptions
from seqoria_runtime.providers._http.provider import HTTPProvider, HTTPSettings
from seqoria_runtime.providers._http.retry import RetryPolicy
from seqoria_runtime.providers._protocol import ModelRequest
from seqoria_runtime.providers._requests.options import MESSAGES_OPTIONS, OptionSet
from seqoria_runtime.providers._requests.output import in_output_config

from .request import messages_exchange

_BASE_URL = "https://api.anthropic.com"
_VERSION = "2023-06-01"


class AsyncAnthropicProvider(HTTPProvider):
    """Asks a model over Messages, at Anthropic or any other server; does no I/O before the first request.

    `base_url` is the server's, with or without the `/v1` of the path. `api_key` is looked for in
    `ANTHROPIC_API_KEY` where it is not given. `anthropic_version` and `anthropic_beta` (one name or
    several) are sent as headers. The other arguments are those of `AsyncOpenAICompatibleProvider`;
    all further keywords are generation options, the defaults of every request. `max_tokens` is
    4096 where it is not set, above the budget for thinking.

    Raises `TypeError` for an unknown option, `ValueError` for a bad value, `InvalidRequestError`
    without a model and `MissingCredentialsError` without a key that the server needs.
    """

    def __init__(  # noqa: PLR0913  # every one is a setting with a default, and all but the first are keywords
        self,
        model_id: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        anthropic_version: str = _VERSION,
        anthropic_beta: str | Sequence[str] | None = None,
        http_client: HTTPClient | HTTPOptions | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        service = Service(
            name="anthropic",
            base_url=_BASE_URL,
            api_key_vars=("ANTHROPIC_API_KEY",),
            key_header="x-api-key",
            headers=_own_headers(anthropic_version, anthropic_beta),
        )
        settings = HTTPSettings(
            base_url=_without_version(base_url),
            api_key=api_key,
            http_client=http_client,
            timeout=timeout,
            headers=headers,
            retry=retry,
            name=name,
        )
        takes = OptionSet(MESSAGES_OPTIONS, in_output_config)
        super().__init__(model_id, service, settings, takes=takes, options=options)
        host = urlsplit(self._base_url).hostname or ""
        self._signed_only = host == "anthropic.com" or host.endswith(".anthropic.com")

    def _exchange(self, request: ModelRequest, *, stream: bool) -> JSONExchange:
        return messages_exchange(
            request,
            model=self._model_of(request),
            options=self._options_of(request),
            stream=stream,
            signed_only=self._signed_only,
        )


def _own_headers(version: Any, beta: Any) -> dict[str, str]:
    if not _is_word(version):
        raise ValueError(f"'anthropic_version' must be a version such as {_VERSION!r}, not {version!r}")
    names = [beta] if isinstance(beta, str) else list(beta or ())
    if not all(_is_word(name) for name in names):
        raise ValueError(f"'anthropic_beta' must be a name or several names, not {beta!r}")
    return {"anthropic-version": version} | ({"anthropic-beta": ",".join(names)} if names else {})


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value.isascii() and value.isprintable()


def _without_version(base_url: Any) -> Any:
    """Take a `/v1` off the end: other clients want it there, and it is part of the path here."""
    return base_url.rstrip("/").removesuffix("/v1") if isinstance(base_url, str) else base_url
