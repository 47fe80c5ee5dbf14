"""The provider for every server that speaks Chat Completions."""

from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Any, Self

from seqoria_runtime._checks import positive_seconds
from seqoria_runtime.models.errors import InvalidRequestError, MissingCredentialsError

from ._chat_completions import ChatExchange, chat_exchange
from ._driver import Connection, HTTPClient, HTTPDriver
from ._endpoint import endpoint
from ._http_options import HTTPOptions
from ._options import CHAT_COMPLETIONS_OPTIONS, checked_options
from ._profiles import Profile, find_profile
from ._protocol import AsyncBaseProvider, ModelRequest, ModelResponse, ProviderEvent
from ._retry import RetryPolicy

_READ_TIMEOUT = 600.0


class AsyncOpenAICompatibleProvider(AsyncBaseProvider):
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
        if model_id is not None and not isinstance(model_id, str):
            raise TypeError(f"'model_id' must be a string, not {type(model_id).__name__}")
        self._profile = find_profile(profile, base_url)
        self._known = CHAT_COMPLETIONS_OPTIONS | self._profile.options
        self._options = checked_options(options, self._known, type(self).__name__)
        self._name = _checked_name(name) or self._profile.name
        own = http_client if isinstance(http_client, HTTPOptions) else HTTPOptions()
        client = _checked_client(http_client)
        policy = RetryPolicy.parse(retry)
        read_timeout = _read_timeout(timeout, client)
        if not model_id:
            raise InvalidRequestError(
                "model_id is required: the name of the model to ask", provider=self._name
            )
        self._model_id = model_id
        try:
            place = endpoint(base_url, profile=self._profile, api_key=api_key, headers=headers)
        except MissingCredentialsError as error:
            error.provider = self._name
            raise
        self._base_url = place.base_url
        connection = Connection(endpoint=place, client=client, options=own, read_timeout=read_timeout)
        self._driver = HTTPDriver(connection, retry=policy, provider=self._name)

    @property
    def name(self) -> str:
        """What errors and logs call it: the `name` option, or its profile's name."""
        return self._name

    @property
    def model_id(self) -> str:
        """The model that is asked where a request names no other."""
        return self._model_id

    def __repr__(self) -> str:
        where = f"base_url={self._base_url!r}, profile={self._profile.name!r}"
        return f"{type(self).__name__}({self._model_id!r}, {where})"

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Answer as it is made; see `AsyncBaseProvider.stream`.

        Closing the stream, or cancelling its consumer, closes the response before it returns.
        """
        return self._driver.stream(self._exchange(request, stream=True))

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer at once, without streaming. A cancelled caller leaves no response open."""
        return await self._driver.ask(self._exchange(request, stream=False))

    def _exchange(self, request: ModelRequest, *, stream: bool) -> ChatExchange:
        given = checked_options(request.options, self._known, self._name)
        return chat_exchange(
            request,
            model=request.model or self._model_id,
            options=self._options | given,
            profile=self._profile,
            stream=stream,
        )

    async def aclose(self) -> None:
        """Close the provider's own connections; its open streams fail. It can be entered again.

        An `httpx.AsyncClient` of the application stays open.
        """
        await self._driver.aclose()

    async def __aenter__(self) -> Self:
        self._driver.reopen()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


def _checked_name(name: Any) -> str | None:
    if name is not None and (not isinstance(name, str) or not name):
        raise ValueError(f"'name' must be a non-empty string, not {name!r}")
    return name


def _checked_client(given: Any) -> HTTPClient | None:
    if given is None or isinstance(given, HTTPOptions):
        return None
    if not isinstance(given, HTTPClient):
        raise TypeError(
            f"'http_client' must be an httpx.AsyncClient or HTTPOptions, not {type(given).__name__}"
        )
    return given


def _read_timeout(timeout: float | None, client: HTTPClient | None) -> float | None:
    if timeout is not None:
        return positive_seconds("timeout", timeout)
    return _READ_TIMEOUT if client is None else None
