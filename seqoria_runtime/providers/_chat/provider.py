"""The provider for all servers that speak Chat Completions."""

from collections.abc import Mapping
from typing import Any

from seqoria_runtime.providers._answers.encoded_request import EncodedRequest
from seqoria_runtime.providers._http.connection import HTTPClient
from seqoria_runtime.providers._http.endpoint import Service
from seqoria_runtime.providers._http.options import HTTPOptions
from seqoria_runtime.providers._http.provider import HTTPProvider, HTTPSettings
from seqoria_runtime.providers._http.retry import RetryPolicy
from seqoria_runtime.providers._protocol import ModelRequest
from seqoria_runtime.providers._requests.options import CHAT_COMPLETIONS_OPTIONS, OptionSet
from seqoria_runtime.providers._requests.output import in_response_format, nowhere

from .profiles import Profile, find_profile
from .request import encode_chat


class AsyncOpenAICompatibleProvider(HTTPProvider):
    """Asks a model over Chat Completions, at any base URL; does no I/O before the first request.

    `profile` is a `Profile` or its name; by default the host of `base_url` selects it. Without
    `api_key`, the key comes from the environment. `http_client` is the application's own
    `httpx.AsyncClient`, which the provider never closes, or the `HTTPOptions` for the connections
    that the provider opens and `aclose()` closes. `timeout` is the longest silence between two
    reads, in seconds (default 600, or what `http_client` is set to); keep-alives end a silence.
    `retry` is a `RetryPolicy` or a mapping of its options; the default makes one attempt. All other
    keywords are generation options, the defaults for every request.

    Raises `TypeError` for an unknown option, `ValueError` for a bad value, `InvalidRequestError`
    without a model, and `MissingCredentialsError` without a key that the server needs.
    """

    def __init__(  # noqa: PLR0913  # settings with defaults, all but the first by keyword
        self,
        model_id: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        profile: Profile | str | None = None,
        http_client: HTTPClient | HTTPOptions | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        self._profile = find_profile(profile, base_url)
        service = Service(
            name=self._profile.name,
            base_url=self._profile.base_url,
            api_key_vars=self._profile.api_key_vars,
            key_required=self._profile.key_required,
        )
        settings = HTTPSettings(base_url, api_key, http_client, timeout, headers, retry, name)
        place = in_response_format if self._profile.json_schemas else nowhere
        known = OptionSet(CHAT_COMPLETIONS_OPTIONS | self._profile.options, place)
        super().__init__(model_id, service, settings, known=known, options=options)

    def __repr__(self) -> str:
        where = f"base_url={self._base_url!r}, profile={self._profile.name!r}"
        return f"{type(self).__name__}({self._model_id!r}, {where})"

    def _encode(
        self, request: ModelRequest, *, model: str, options: Mapping[str, Any], stream: bool
    ) -> EncodedRequest:
        return encode_chat(request, model=model, options=options, profile=self._profile, stream=stream)
