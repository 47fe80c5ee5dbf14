"""Parses a server's URL or command line into a transport and what it connects to.

Pure: does not touch the network or the disk.
"""

import re
import shlex
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from seqoria_runtime._base.redaction import bounded, redact, redact_url

Transport: TypeAlias = Literal["stdio", "sse", "http", "in_process"]

_SCHEMES: dict[str, Transport] = {
    "stdio": "stdio",
    "sse": "sse",
    "sses": "sse",
    "http": "http",
    "https": "http",
}
_TRANSPORTS: dict[str, Transport] = {
    "stdio": "stdio",
    "sse": "sse",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
}
_HTTP_SCHEMES = {"sse": "http", "sses": "https"}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_UNUSABLE = re.compile(r"[\s\x00-\x1f\x7f]")
_DEFAULT_PATH = "/mcp"
_MAX_NAME = 100


@dataclass(frozen=True, slots=True)
class StdioCommand:
    """A program to run, and to talk to over its standard input and output."""

    argv: tuple[str, ...]

    def __post_init__(self) -> None:
        if any("\0" in argument for argument in self.argv):
            raise ValueError("a command line may not contain null characters")

    @property
    def transport(self) -> Transport:
        return "stdio"

    @property
    def name(self) -> str:
        return bounded(redact(shlex.join(self.argv)), _MAX_NAME)


@dataclass(frozen=True, slots=True)
class HTTPEndpoint:
    """A URL to talk to over HTTP."""

    transport: Literal["sse", "http"]
    url: str

    @property
    def name(self) -> str:
        return redact_url(self.url)


@dataclass(frozen=True, slots=True, eq=False)
class InProcess:
    """A server object of the SDK in this process."""

    server: object

    @property
    def transport(self) -> Transport:
        return "in_process"

    @property
    def name(self) -> str:
        return str(getattr(self.server, "name", None) or type(self.server).__name__)


Target: TypeAlias = StdioCommand | HTTPEndpoint | InProcess


def detect_transport(url: str) -> Transport:
    """Return the transport for a URL's scheme, ignoring case; without a scheme it is HTTP.

    Raises `ValueError` for any scheme but stdio, sse, sses, http and https.
    """
    match = _SCHEME.match(url)
    if match is None:
        return "http"
    transport = _SCHEMES.get(match[1].lower())
    if transport is None:
        raise ValueError(
            f"'url' must start with http://, https://, sse://, sses:// or stdio://, not {match[1]}://"
        )
    return transport


def named_transport(transport: Any) -> Transport | None:
    """Return the transport with this name, `None` for "auto"; raise `ValueError` for any other."""
    if transport == "auto":
        return None
    found = _TRANSPORTS.get(transport) if isinstance(transport, str) else None
    if found is None:
        raise ValueError(f"'transport' must be 'auto', 'stdio', 'sse' or 'http', not {transport!r}")
    return found


def target_of(url: str, transport: Any = "auto") -> StdioCommand | HTTPEndpoint:
    """Parse a URL.

    Raises `ValueError` for a URL that cannot be used, or whose scheme contradicts `transport`.
    """
    if not url.strip():
        raise ValueError("'url' may not be empty")
    wanted = named_transport(transport)
    match = _SCHEME.match(url)
    detected = detect_transport(url) if match is not None else None
    # SSE over http:// and https:// is usual, so "sse" does not contradict those schemes.
    if wanted is not None and detected not in {None, wanted} and (wanted, detected) != ("sse", "http"):
        raise ValueError(f"'transport' is {transport!r}, but the URL starts with {match and match[1]}://")
    if (wanted or detected) == "stdio":
        return _command(url[match.end() :] if match is not None else url)
    return _endpoint(
        url if match is not None else f"http://{url}", "sse" if "sse" in {wanted, detected} else "http"
    )


def _command(line: str) -> StdioCommand:
    try:
        argv = tuple(shlex.split(line))
    except ValueError as exc:
        raise ValueError(f"the command line of 'url' cannot be split into words: {exc}") from None
    if not argv:
        raise ValueError("'url' must name a command after stdio://")
    return StdioCommand(argv)


def _endpoint(url: str, transport: Literal["sse", "http"]) -> HTTPEndpoint:
    if _UNUSABLE.search(url):
        raise ValueError(
            "'url' must be a URL without spaces; a command line needs stdio:// in front, or transport='stdio'"
        )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host:
        raise ValueError(f"'url' must name a host and, if any, a valid port: {redact_url(url)}")
    scheme = _HTTP_SCHEMES.get(parts.scheme.lower(), parts.scheme.lower())
    path = parts.path
    if transport == "http" and path in {"", "/"}:
        path = _DEFAULT_PATH
    return HTTPEndpoint(transport, urlunsplit((scheme, parts.netloc, path, parts.query, "")))
