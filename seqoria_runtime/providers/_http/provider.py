"""What all providers over HTTP have in common: their settings, their driver, and how they are closed.

Knows no wire format; a subclass makes an exchange of each request.
"""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from seqoria_runtime._base.checks import positive_seconds
from seqoria_runtime.models.errors import InvalidRequestError, MissingCredentialsError
from seqoria_runtime.providers._answers.wire import Exchange
from seqoria_runtime.providers._protocol import AsyncBaseProvider, ModelRequest, ModelResponse, ProviderEvent
from seqoria_runtime.providers._requests.options import OptionSet

from .connection import Connection, HTTPClient
from .driver import HTTPDriver
from .endpoint import Endpoint, Service, endpoint
from .options import HTTPOptions
from .retry import RetryPolicy

_READ_TIMEOUT = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPSettings:
    """What an application gives a provider beside its model and its options, not yet checked."""

    base_url: Any = None
    api_key: Any = None
    http_client: Any = None
    timeout: Any = None
    headers: Any = None
    retry: Any = None
    name: Any = None


class HTTPProvider(AsyncBaseProvider):
    """A model that is asked over HTTP; does no I/O before the first request."""

    def __init__(
        self,
        model_id: Any,
        service: Service,
        settings: HTTPSettings,
        *,
        takes: OptionSet,
        options: Mapping[str, Any],
    ) -> None:
        if model_id is not None and not isinstance(model_id, str):
            raise TypeError(f"'model_id' must be a string, not {type(model_id).__name__}")
        self._takes = takes
        self._options = takes.checked(options, type(self).__name__)
        # A schema that the API refuses is told now and not with the first request.
        takes.placed(self._options, type(self).__name__)
        self._name = _checked_name(settings.name) or service.name
        given = settings.http_client
        own = given if isinstance(given, HTTPOptions) else HTTPOptions()
        client = _checked_client(given)
        policy = RetryPolicy.parse(settings.retry)
        read_timeout = _read_timeout(settings.timeout, client)
        if not model_id:
            raise InvalidRequestError(
                "model_id is required: the name of the model to ask", provider=self._name
            )
        self._model_id = model_id
        place = self._place(service, settings)
        self._base_url = place.base_url
        connection = Connection(endpoint=place, client=client, options=own, read_timeout=read_timeout)
        self._driver = HTTPDriver(connection, retry=policy, provider=self._name)

    def _place(self, service: Service, settings: HTTPSettings) -> Endpoint:
        try:
            return endpoint(
                settings.base_url, service=service, api_key=settings.api_key, headers=settings.headers
            )
        except MissingCredentialsError as error:
            error.provider = self._name
            raise

    @property
    def name(self) -> str:
        """What errors and logs call it: the `name` option, or what its kind of server is called."""
        return self._name

    @property
    def model_id(self) -> str:
        """The model that is asked where a request names no other."""
        return self._model_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model_id!r}, base_url={self._base_url!r})"

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Answer as it is made; see `AsyncBaseProvider.stream`.

        Closing the stream, or cancelling its consumer, closes the response before it returns.
        """
        return self._driver.stream(self._exchange(request, stream=True))

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer at once, without streaming. A cancelled caller leaves no response open."""
        return await self._driver.ask(self._exchange(request, stream=False))

    @abstractmethod
    def _exchange(self, request: ModelRequest, *, stream: bool) -> Exchange: ...

    def _model_of(self, request: ModelRequest) -> str:
        return request.model or self._model_id

    def _options_of(self, request: ModelRequest) -> dict[str, Any]:
        """Give the options of one request, its own before the provider's.

        Raises `TypeError`, and `ValueError` for an `output` that the API refuses.
        """
        own = self._takes.checked(request.options, self._name)
        return self._takes.placed(self._options | own, self._name)

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
