"""The options for the connections that a provider opens itself."""

import ssl
from dataclasses import dataclass, field
from importlib.util import find_spec

from seqoria_runtime._base.checks import boolean, non_negative_seconds, positive_int, positive_seconds
from seqoria_runtime._base.redaction import redact_mistyped_url
from seqoria_runtime.models.errors import MissingExtraError

_PROXY_SCHEMES = frozenset({"http", "https", "socks5", "socks5h"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPOptions:
    """Limits, proxy and TLS of a provider's own connections; times are in seconds.

    `pool_timeout` is how long a request may wait for one of `max_connections`. A connection that
    was idle for `keepalive_expiry` is closed. Its default is below the 5 s after which common
    servers close an idle connection, which would lose a request sent on it. `proxy` is a URL
    (`None`: that of the environment, unless `trust_env` is false). `verify` is an `ssl.SSLContext`,
    or false to check no certificate. `http2` offers HTTP/2 to servers with TLS, so that all streams
    share one connection; it needs the extra `http2`.
    Raises `ValueError` or `TypeError` that names the option, and `MissingExtraError`.
    """

    connect_timeout: float = 10.0
    write_timeout: float = 60.0
    pool_timeout: float = 60.0
    max_connections: int = 1000
    max_keepalive_connections: int = 100
    keepalive_expiry: float = 4.0
    proxy: str | None = field(default=None, repr=False)
    verify: ssl.SSLContext | bool = True
    trust_env: bool = True
    http2: bool = False

    def __post_init__(self) -> None:
        for name in ("connect_timeout", "write_timeout", "pool_timeout"):
            positive_seconds(name, getattr(self, name))
        for name in ("max_connections", "max_keepalive_connections"):
            positive_int(name, getattr(self, name))
        non_negative_seconds("keepalive_expiry", self.keepalive_expiry)
        for name in ("trust_env", "http2"):
            boolean(name, getattr(self, name))
        _check_proxy(self.proxy)
        if not isinstance(self.verify, (bool, ssl.SSLContext)):
            raise TypeError(f"'verify' must be an ssl.SSLContext, True or False, not {self.verify!r}")
        if self.http2 and find_spec("h2") is None:
            raise MissingExtraError("connections with HTTP/2", "http2")


def _check_proxy(proxy: object) -> None:
    if proxy is None:
        return
    scheme, mark, rest = proxy.partition("://") if isinstance(proxy, str) else ("", "", "")
    if not mark or not rest or scheme.lower() not in _PROXY_SCHEMES:
        # A proxy's URL often holds a password.
        shown = redact_mistyped_url(proxy) if isinstance(proxy, str) else type(proxy).__name__
        raise ValueError(f"'proxy' must be a URL such as 'http://host:3128', not {shown!r}")
    if scheme.lower().startswith("socks") and find_spec("socksio") is None:
        raise MissingExtraError("SOCKS proxies", "socks")
