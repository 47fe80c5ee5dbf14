"""The provider for servers that speak Messages."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from seqoria_runtime.providers._answers.encoded_request import EncodedRequest
from seqoria_runtime.providers._http.connection import HTTPClient
from seqoria_runtime.providers._http.endpoint import Service
from seqoria_runtime.providers._http.options import HTTPOptions
from seqoria_runtime.providers._http.provider import HTTPProvider, HTTPSettings
from seqoria_runtime.providers._http.retry import RetryPolicy
from seqoria_runtime.providers._protocol import ModelRequest
from seqoria_runtime.providers._requests.options import MESSAGES_OPTIONS, OptionSet
from seqoria_runtime.providers._requests.output import in_output_config

from .request import encode_messages

_BASE_URL = "https://api.anthropic.com"
_VERSION = "2023-06-01"


class AsyncAnthropicProvider(HTTPProvider):
    """Asks a model over Messages, at Anthropic or any other server; does no I/O before the first request.

    `base_url` may end in `/v1` or not. Without `api_key`, the key comes from `ANTHROPIC_API_KEY`.
    `anthropic_version` and `anthropic_beta` (one name or several) are sent as headers. The other
    settings are those of `AsyncOpenAICompatibleProvider`. All further keywords are generation
    options, the defaults for every request; without `max_tokens`, 4096 plus the budget for thinking
    is sent.

    Raises `TypeError` for an unknown option, `ValueError` for a bad value, `InvalidRequestError`
    without a model, and `MissingCredentialsError` without a key that the server needs.
    """

    def __init__(  # noqa: PLR0913  # settings with defaults, all but the first by keyword
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
        url = _without_version(base_url)
        settings = HTTPSettings(url, api_key, http_client, timeout, headers, retry, name)
        known = OptionSet(MESSAGES_OPTIONS, in_output_config)
        super().__init__(model_id, service, settings, known=known, options=options)
        host = urlsplit(self._base_url).hostname or ""
        self._signed_only = host == "anthropic.com" or host.endswith(".anthropic.com")

    def _encode(
        self, request: ModelRequest, *, model: str, options: Mapping[str, Any], stream: bool
    ) -> EncodedRequest:
        return encode_messages(
            request, model=model, options=options, signed_only=self._signed_only, stream=stream
        )


def _own_headers(version: Any, beta: Any) -> dict[str, str]:
    if not _is_printable(version):
        raise ValueError(f"'anthropic_version' must be a version such as {_VERSION!r}, not {version!r}")
    names = [beta] if isinstance(beta, str) else list(beta or ())
    if not all(_is_printable(name) for name in names):
        raise ValueError(f"'anthropic_beta' must be a name or several names, not {beta!r}")
    return {"anthropic-version": version} | ({"anthropic-beta": ",".join(names)} if names else {})


def _is_printable(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value.isascii() and value.isprintable()


def _without_version(base_url: Any) -> Any:
    """Remove a final `/v1`, which other clients want there and which is part of the path here."""
    return base_url.rstrip("/").removesuffix("/v1") if isinstance(base_url, str) else base_url
