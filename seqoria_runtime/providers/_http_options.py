"""The options of the connections that a provider opens by itself."""

import ssl
from dataclasses import dataclass, field

from seqoria_runtime._checks import non_negative_seconds, positive_int, positive_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPOptions:
    """Limits, proxy and TLS of a provider's own connections; times are seconds.

    `pool_timeout` is how long a request may wait for one of `max_connections`. A connection that
    was idle for `keepalive_expiry` is closed: the default is below the 5 s after which common
    servers close it themselves, and a request on it would be lost. `proxy` is a URL (`None`: what
    the environment says, unless `trust_env` is false). `verify` is an `ssl.SSLContext`, or false to
    check no certificate.
    Raises `ValueError` that names the option.
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

    def __post_init__(self) -> None:
        for name in ("connect_timeout", "write_timeout", "pool_timeout"):
            positive_seconds(name, getattr(self, name))
        for name in ("max_connections", "max_keepalive_connections"):
            positive_int(name, getattr(self, name))
        non_negative_seconds("keepalive_expiry", self.keepalive_expiry)
