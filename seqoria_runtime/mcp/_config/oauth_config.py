"""The configuration of a login at a server, and the storage of its tokens. Does not load the SDK."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from seqoria_runtime._base import checks as _checks

RedirectHandler: TypeAlias = Callable[[str], Awaitable[None]]
CallbackHandler: TypeAlias = Callable[[], Awaitable[tuple[str, str | None]]]

DEFAULT_CLIENT_NAME = "seqoria_runtime"
DEFAULT_LOGIN_TIMEOUT = 300.0


@runtime_checkable
class TokenStorage(Protocol):
    """Keeps one server's tokens and client registration between runs.

    The values are pydantic models, `OAuthTokens` and the SDK's `OAuthClientInformationFull`. Store the result
    of `model_dump(mode="json")`, and return that dictionary or the model. A method may be cancelled with the
    call or the attempt to connect that needs it; one that writes must then have written all or nothing.
    """

    async def get_tokens(self) -> Any:
        """Return the tokens as they were stored, or `None`."""

    async def set_tokens(self, tokens: Any) -> None:
        """Store the tokens, in the place of earlier ones."""

    async def get_client_info(self) -> Any:
        """Return the registration as it was stored, or `None`."""

    async def set_client_info(self, client_info: Any) -> None:
        """Store the registration, in the place of an earlier one."""


class InMemoryTokenStorage:
    """Keeps tokens until the process ends. Its methods never wait, so they are never cancelled halfway."""

    def __init__(self) -> None:
        self._tokens: Any = None
        self._client_info: Any = None

    async def get_tokens(self) -> Any:
        return self._tokens

    async def set_tokens(self, tokens: Any) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> Any:
        return self._client_info

    async def set_client_info(self, client_info: Any) -> None:
        self._client_info = client_info


@dataclass(frozen=True, repr=False)
class OAuthConfig:
    """How to log in at a server (authorization code with PKCE, dynamic registration).

    With `redirect_uri="auto"` and no `callback_handler`, a loopback listener on 127.0.0.1 waits for the
    browser, at most `login_timeout` seconds. `redirect_handler` gets the URL to show to the user (default:
    open the browser). `callback_handler` returns the code and the state that came back (default with any
    other `redirect_uri`: ask the user to paste the URL). `scopes` is one string with spaces, or several.
    `client_metadata_url` is the client's id where the server supports that. Raises `ValueError` or
    `TypeError` that names the option.
    """

    client_name: str = DEFAULT_CLIENT_NAME
    redirect_uri: str = "auto"
    scopes: str | Sequence[str] | None = None
    storage: TokenStorage | None = None
    redirect_handler: RedirectHandler | None = None
    callback_handler: CallbackHandler | None = None
    client_metadata_url: str | None = None
    login_timeout: float = DEFAULT_LOGIN_TIMEOUT

    def __post_init__(self) -> None:
        for name in ("client_name", "redirect_uri"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise TypeError(f"{name!r} must be a non-empty string, not {value!r}")
        if self.scopes is not None and not isinstance(self.scopes, str):
            object.__setattr__(self, "scopes", " ".join(sorted(_checks.names("scopes", self.scopes))))
        if self.storage is not None and not isinstance(self.storage, TokenStorage):
            raise TypeError(
                "'storage' must have async get_tokens, set_tokens, get_client_info and set_client_info, "
                f"not {type(self.storage).__name__}"
            )
        for name in ("redirect_handler", "callback_handler"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise TypeError(f"{name!r} must be an async function, not {type(value).__name__}")
        object.__setattr__(
            self, "login_timeout", _checks.positive_seconds("login_timeout", self.login_timeout)
        )

    def __repr__(self) -> str:
        return f"OAuthConfig(client_name={self.client_name!r}, redirect_uri={self.redirect_uri!r}, ...)"
