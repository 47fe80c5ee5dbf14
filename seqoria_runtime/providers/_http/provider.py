"""What all providers over HTTP share: settings, driver, and closing.

Knows no wire format; a subclass encodes the requests.
"""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from seqoria_runtime._base.checks import positive_seconds
from seqoria_runtime.models.errors import InvalidRequestError, MissingCredentialsError
from seqoria_runtime.providers._answers.encoded_request import EncodedRequest
from seqoria_runtime.providers._protocol import AsyncBaseProvider, ModelRequest, ModelResponse, ProviderEvent
from seqoria_runtime.providers._requests.options import OptionSet

from .connection import ConnectionSettings, HTTPClient
from .driver import HTTPDriver
from .endpoint import APIEndpoint, Service, api_endpoint
from .options import HTTPOptions
from .retry import RetryPolicy

_READ_TIMEOUT = 600.0


class HTTPSettings(NamedTuple):
    """The settings that all providers over HTTP take besides the model, not yet checked."""

    base_url: str | None
    api_key: str | None
    http_client: HTTPClient | HTTPOptions | None
    timeout: float | None
    headers: Mapping[str, str] | None
    retry: RetryPolicy | Mapping[str, Any] | None
    name: str | None


class HTTPProvider(AsyncBaseProvider):
    """A model that is asked over HTTP; does no I/O before the first request."""

    def __init__(
        self,
        model_id: str | None,
        service: Service,
        settings: HTTPSettings,
        *,
        known: OptionSet,
        options: Mapping[str, Any],
    ) -> None:
        if model_id is not None and not isinstance(model_id, str):
            raise TypeError(f"'model_id' must be a string, not {type(model_id).__name__}")
        self._known = known
        self._options = known.check(options, type(self).__name__)
        # Report a schema that the API refuses now, and not with the first request.
        known.place_output(self._options, type(self).__name__)
        self._name = _check_name(settings.name) or service.name
        given = settings.http_client
        client = _check_client(given)
        policy = RetryPolicy.parse(settings.retry)
        read_timeout = _read_timeout(settings.timeout, client)
        if not model_id:
            raise InvalidRequestError(
                "model_id is required: the name of the model to ask", provider=self._name
            )
        self._model_id = model_id
        endpoint = self._endpoint(service, settings)
        self._base_url = endpoint.base_url
        connection = ConnectionSettings(
            endpoint=endpoint,
            client=client,
            options=given if isinstance(given, HTTPOptions) else HTTPOptions(),
            read_timeout=read_timeout,
        )
        self._driver = HTTPDriver(connection, retry=policy, provider=self._name)

    def _endpoint(self, service: Service, settings: HTTPSettings) -> APIEndpoint:
        try:
            return api_endpoint(
                settings.base_url, service=service, api_key=settings.api_key, headers=settings.headers
            )
        except MissingCredentialsError as error:
            error.provider = self._name
            raise

    @property
    def name(self) -> str:
        """The provider's name in errors and logs: the setting `name`, or the name of its kind of server."""
        return self._name

    @property
    def model_id(self) -> str:
        """The model that is asked unless a request names another."""
        return self._model_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model_id!r}, base_url={self._base_url!r})"

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Answer as it is made; see `AsyncBaseProvider.stream`.

        Closing the stream, or cancelling its consumer, closes the response before it returns.
        """
        return self._driver.stream(self._encoded(request, stream=True))

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer at once, without streaming. A cancelled caller leaves no response open."""
        return await self._driver.ask(self._encoded(request, stream=False))

    def _encoded(self, request: ModelRequest, *, stream: bool) -> EncodedRequest:
        """Encode a request for its model, with its options before the provider's.

        Raises `TypeError`, and `ValueError` for an `output` that the API refuses.
        """
        options = self._options | self._known.check(request.options, self._name)
        return self._encode(
            request,
            model=request.model or self._model_id,
            options=self._known.place_output(options, self._name),
            stream=stream,
        )

    @abstractmethod
    def _encode(
        self, request: ModelRequest, *, model: str, options: Mapping[str, Any], stream: bool
    ) -> EncodedRequest: ...

    async def aclose(self) -> None:
        """Close the provider's own connections; its open streams fail. It can be entered again.

        An `httpx.AsyncClient` of the application stays open. A cancelled caller waits until the
        connections are closed, a few seconds at most.
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


def _check_name(name: object) -> str | None:
    if name is not None and (not isinstance(name, str) or not name):
        raise ValueError(f"'name' must be a non-empty string, not {name!r}")
    return name


def _check_client(given: object) -> HTTPClient | None:
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
