"""The provider for every server that speaks Chat Completions."""

from collections.abc import Mapping
from typing import Any

from seqoria_runtime.providers._http.connection import HTTPClient
from seqoria_runtime.providers._http.endpoint import Service
from seqoria_runtime.providers._http.options import HTTPOptions
from seqoria_runtime.providers._http.provider import HTTPProvider, HTTPSettings
from seqoria_runtime.providers._http.retry import RetryPolicy
from seqoria_runtime.providers._protocol import ModelRequest
from seqoria_runtime.providers._requests.options import CHAT_COMPLETIONS_OPTIONS, OptionSet
from seqoria_runtime.providers._requests.output import in_response_format, nowhere

from .profiles import Profile, find_profile
from .request import ChatExchange, chat_exchange


class AsyncOpenAICompatibleProvider(HTTPProvider):
    """Asks a model over Chat Completions, at any base URL; does no I/O before the first request.

    `profile` names the kind of server, or is a `Profile`; by default the host of `base_url` tells
    it. `api_key` is looked for in the environment where it is not given. `http_client` is the
    application's own `httpx.AsyncClient`, which is never closed here, or the `HTTPOptions` of the
    connections that the provider opens and `aclose()` closes. `timeout` is the longest silence
    between two reads, in seconds (default 600, or what `http_client` is set to); keep-alives count
    as life. `retry` is a `RetryPolicy` or a mapping of its options; the default makes one attempt.
    All other keywords are generation options, the defaults of every request.

    Raises `TypeError` for an unknown option, `ValueError` for a bad value, `InvalidRequestError`
    without a model and `MissingCredentialsError` without a key that the server needs.
    """

    def __init__(  # noqa: PLR0913  # every one is a setting with a default, and all but the first are keywords
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
        settings = HTTPSettings(
            base_url=base_url,
            api_key=api_key,
            http_client=http_client,
            timeout=timeout,
            headers=headers,
            retry=retry,
            name=name,
        )
        place = in_response_format if self._profile.json_schemas else nowhere
        takes = OptionSet(CHAT_COMPLETIONS_OPTIONS | self._profile.options, place)
        super().__init__(model_id, service, settings, takes=takes, options=options)

    def __repr__(self) -> str:
        where = f"base_url={self._base_url!r}, profile={self._profile.name!r}"
        return f"{type(self).__name__}({self._model_id!r}, {where})"

    def _exchange(self, request: ModelRequest, *, stream: bool) -> ChatExchange:
        return chat_exchange(
            request,
            model=self._model_of(request),
            options=self._options_of(request),
            profile=self._profile,
            stream=stream,
        )
