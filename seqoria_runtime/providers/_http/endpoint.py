"""Checks a provider's address and credentials; does no I/O.

Credentials end up in headers only: the URL that is kept, shown and logged holds none.
"""

import base64
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from seqoria_runtime._base.redaction import redact_mistyped_url
from seqoria_runtime.models.errors import MissingCredentialsError

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CREDENTIAL_HEADERS = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key"})
_CREDENTIAL_PARAMETERS = re.compile(r"key|token|secret|password|sig", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What a kind of server expects of a client, besides its wire format.

    `api_key_vars` are the environment variables that may hold its key, which is sent in the header
    `key_header`. `headers` are sent with each request unless the application sets the same ones.
    """

    name: str
    base_url: str | None = None
    api_key_vars: tuple[str, ...] = ()
    key_required: bool = True
    key_header: str = "authorization"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class APIEndpoint:
    """A checked base URL without credentials or a trailing slash, and the headers to send there."""

    base_url: str
    headers: Mapping[str, str] = field(repr=False)

    @property
    def address(self) -> str:
        """The host and port of the URL."""
        parts = urlsplit(self.base_url)
        port = "" if parts.port else ":443" if parts.scheme == "https" else ":80"
        return parts.netloc + port

    def url(self, path: str) -> str:
        """Return the URL of a path below the base URL, with the query of the base URL."""
        parts = urlsplit(self.base_url)
        return parts._replace(path=parts.path + path).geturl()


def api_endpoint(
    base_url: str | None, *, service: Service, api_key: str | None, headers: Mapping[str, str] | None
) -> APIEndpoint:
    """Check a provider's address and credentials.

    The key comes from `api_key`, or else from the service's environment variables. It is optional
    for a server on this machine, for a service that needs none, and if the URL has user info or the
    headers hold a credential. Raises `ValueError` or `TypeError` that names the option, and
    `MissingCredentialsError`.
    """
    parts = _check_url(service.base_url if base_url is None else base_url)
    own = _check_headers(headers)
    chosen = {"accept-encoding": "identity", "content-type": "application/json", **service.headers}
    user_info = parts.netloc.rpartition("@")[0]
    if user_info:
        chosen["authorization"] = f"Basic {base64.b64encode(unquote(user_info).encode()).decode()}"
    elif _CREDENTIAL_HEADERS.isdisjoint(own):
        optional = not service.key_required or _is_local(parts.hostname or "")
        key = _key(service, api_key, optional=optional)
        if key:
            chosen[service.key_header] = f"Bearer {key}" if service.key_header == "authorization" else key
    clean = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=parts.path.rstrip("/"))
    return APIEndpoint(clean.geturl(), chosen | own)


def _check_url(url: Any) -> SplitResult:
    if not isinstance(url, str):
        raise TypeError(f"'base_url' must be a URL such as 'https://host/v1', not {type(url).__name__}")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.fragment:
        shown = redact_mistyped_url(url)
        raise ValueError(f"'base_url' must be a URL such as 'https://host/v1', not {shown!r}")
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if _CREDENTIAL_PARAMETERS.search(name):
            raise ValueError(
                f"'base_url' must hold no credential: give {name!r} as 'api_key' or in 'headers'"
            )
    return parts


def _check_headers(headers: Mapping[Any, Any] | None) -> dict[str, str]:
    if headers is not None and not isinstance(headers, Mapping):
        raise TypeError(f"'headers' must be a mapping of strings, not {type(headers).__name__}")
    checked = {}
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"'headers' holds {name!r}, which is not the name of a header")
        if not _fits_a_header(value):
            raise ValueError(f"'headers' holds a value for {name!r} that is not printable ASCII text")
        checked[name.lower()] = value
    return checked


def _fits_a_header(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable()


def _key(service: Service, api_key: str | None, *, optional: bool) -> str:
    if api_key is not None and not isinstance(api_key, str):
        raise TypeError(f"'api_key' must be a string, not {type(api_key).__name__}")
    found = (os.environ.get(name, "").strip() for name in service.api_key_vars)
    key = (api_key or "").strip() or next(filter(None, found), "")
    if not key and not optional:
        names = " or ".join(service.api_key_vars)
        raise MissingCredentialsError(
            f"No API key: give 'api_key' or set {names}", missing_vars=service.api_key_vars
        )
    if not _fits_a_header(key):
        raise ValueError("the API key must be printable ASCII text")
    return key


def _is_local(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
