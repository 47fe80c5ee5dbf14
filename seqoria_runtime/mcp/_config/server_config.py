"""The configuration of a server, `MCPServerConfig`, and its checks. Does not load the SDK."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from seqoria_runtime._base import checks as _checks
from seqoria_runtime.models.errors import MissingExtraError

from .endpoint import InProcess, StdioCommand, Target, named_transport, target_of
from .oauth_config import OAuthConfig

Headers: TypeAlias = Mapping[str, str]
HeaderSource: TypeAlias = Headers | Callable[[Mapping[str, Any]], Headers | Awaitable[Headers]]
Callback: TypeAlias = Callable[..., Awaitable[Any]]

PROTOCOLS = ("auto", "legacy", "2026-07-28")
DEFAULT_TIMEOUT = 30.0
DEFAULT_MAX_RESULT_CHARS = 1_000_000

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[!-~](?:[\t -~]*[!-~])?")
_CALLBACKS = ("elicitation", "sampling", "roots", "logging")


@dataclass(frozen=True, repr=False)
class MCPServerConfig:
    """One server: a `url`, a `command` with `args`, or an SDK `server` object in this process.

    `timeout` bounds connecting, the handshake and the reading of lists; `call_timeout` bounds one tool call
    (`None`: the client's `tool_timeout`), in seconds. `max_concurrency` limits how many calls of its tools
    run at once, in addition to the client's limit. `headers` are sent with every HTTP request; a sync or
    async function gets the trusted context of each call, and an empty one outside of calls. `env` adds to
    the minimal environment of the process. `required`: the client's start fails if this server's does.
    `elicitation`, `sampling`, `roots` and `logging` are the SDK's callbacks, each off by default.
    Compared by value. Raises `ValueError` or `TypeError` that names the option.
    """

    url: str = ""
    transport: str = "auto"
    headers: HeaderSource | None = None
    timeout: float = DEFAULT_TIMEOUT
    env: Mapping[str, str] | None = None
    oauth: Any = None
    _: KW_ONLY
    name: str = ""
    command: str | None = None
    args: Sequence[str] = ()
    cwd: str | Path | None = None
    server: Any = None
    protocol: str = "auto"
    call_timeout: float | None = None
    max_concurrency: int | None = None
    required: bool = False
    elicitation: Callback | None = None
    sampling: Callback | None = None
    roots: Callback | None = None
    logging: Callback | None = None
    max_result_chars: int | None = DEFAULT_MAX_RESULT_CHARS
    target: Target = field(init=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("url", "name"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name!r} must be a string, not {type(getattr(self, name)).__name__}")
        target = _target(self)
        checked: dict[str, Any] = {
            "target": target,
            "headers": _headers(self.headers),
            "timeout": _checks.positive_seconds("timeout", self.timeout),
            "env": _environment(self.env),
            "oauth": _oauth(self.oauth),
            "args": _arguments(self.args),
            "name": self.name or target.name,
            "required": _checks.boolean("required", self.required),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        _check_transport(self, target)
        _check_rest(self)

    def __repr__(self) -> str:
        return f"MCPServerConfig({self.name!r}, transport={self.target.transport!r})"


def configs_of(servers: Any, *, option: str = "mcp_servers") -> tuple[MCPServerConfig, ...]:
    """Return the configurations for URLs and configurations, or for one of either.

    Raises `TypeError` or `ValueError` that names the entry by `option` and its position, and
    `MissingExtraError` if the SDK is not installed.
    """
    if servers is None:
        return ()
    if isinstance(servers, (str, MCPServerConfig)):
        configs: tuple[MCPServerConfig, ...] = (_config(option, servers),)
    elif isinstance(servers, (bytes, Mapping)) or not isinstance(servers, Iterable):
        raise TypeError(f"{option!r} takes URLs and MCPServerConfig objects, not {type(servers).__name__}")
    else:
        configs = tuple(_config(f"{option}[{position}]", server) for position, server in enumerate(servers))
    if configs:
        require_sdk()
    return configs


def header_fault(headers: Mapping[Any, Any]) -> str | None:
    """Return why these cannot be HTTP headers, without any value, or `None`."""
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            return "must hold strings only"
        if not _HEADER_NAME.fullmatch(name):
            return f"must hold names of headers, not {name!r}"
        if value and not _HEADER_VALUE.fullmatch(value):
            return f"must hold ASCII without control characters or spaces at the ends; {name!r} does not"
    return None


def require_sdk() -> None:
    """Raise `MissingExtraError` unless the SDK is installed, without loading it."""
    if find_spec("mcp") is None:
        raise MissingExtraError("MCP servers", "mcp")


def _config(option: str, server: Any) -> MCPServerConfig:
    if isinstance(server, MCPServerConfig):
        return server
    if not isinstance(server, str):
        raise TypeError(f"{option!r} must be a URL or an MCPServerConfig, not {type(server).__name__}")
    try:
        return MCPServerConfig(server)
    except ValueError as refusal:
        raise ValueError(str(refusal).replace("'url'", f"'{option}.url'", 1)) from None


def _target(config: MCPServerConfig) -> Target:
    given = [name for name in ("url", "command", "server") if getattr(config, name)]
    if len(given) != 1:
        found = " and ".join(repr(name) for name in given) or "none"
        raise ValueError(f"a server needs exactly one of 'url', 'command' and 'server', not {found}")
    if config.server is not None:
        return InProcess(config.server)
    if config.command is None:
        return target_of(config.url, config.transport)
    if not isinstance(config.command, str):
        raise TypeError(f"'command' must be a string, not {type(config.command).__name__}")
    if named_transport(config.transport) not in {None, "stdio"}:
        raise ValueError(f"'transport' is {config.transport!r}, but a 'command' uses stdio")
    return StdioCommand((config.command, *_arguments(config.args)))


def _check_transport(config: MCPServerConfig, target: Target) -> None:
    """Refuse an option that would be ignored on this transport."""
    transport = target.transport
    if config.oauth is not None and transport != "http":
        raise ValueError(f"'oauth' works only for Streamable HTTP, not for {transport}")
    if config.headers is not None and transport not in {"http", "sse"}:
        raise ValueError(f"'headers' are for HTTP requests, and {transport} has none")
    if transport != "stdio" and (config.env is not None or config.cwd is not None):
        raise ValueError(f"'env' and 'cwd' are for a server that runs as a process, not for {transport}")
    if config.args and config.command is None:
        raise ValueError("'args' need a 'command'; with a URL they are part of the command line")


def _check_rest(config: MCPServerConfig) -> None:
    if config.protocol not in PROTOCOLS:
        raise ValueError(f"'protocol' must be one of {', '.join(PROTOCOLS)}, not {config.protocol!r}")
    if config.call_timeout is not None:
        _checks.positive_seconds("call_timeout", config.call_timeout)
    for name in ("max_concurrency", "max_result_chars"):
        if getattr(config, name) is not None:
            _checks.positive_int(name, getattr(config, name))
    if config.cwd is not None and not isinstance(config.cwd, (str, Path)):
        raise TypeError(f"'cwd' must be a path, not {type(config.cwd).__name__}")
    if config.cwd is not None and (not str(config.cwd) or "\0" in str(config.cwd)):
        raise ValueError(f"'cwd' must be a path, not {str(config.cwd)!r}")
    _check_callbacks(config)


def _check_callbacks(config: MCPServerConfig) -> None:
    for name in _CALLBACKS:
        callback = getattr(config, name)
        if callback is not None and not callable(callback):
            raise TypeError(f"{name!r} must be an async function, not {type(callback).__name__}")


def _headers(value: Any) -> Any:
    if value is None or callable(value):
        return value
    headers = _strings("headers", value)
    fault = header_fault(headers or {})
    if fault is not None:
        raise ValueError(f"'headers' {fault}")
    return headers


def _environment(value: Any) -> dict[str, str] | None:
    env = _strings("env", value)
    for name, text in (env or {}).items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"'env' must hold names of environment variables, not {name!r}")
        if "\0" in text:
            raise ValueError(f"'env' may not contain null characters; {name!r} does")
    return env


def _strings(name: str, value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise TypeError(f"{name!r} must be a mapping of strings, not {type(value).__name__}")
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise TypeError(f"{name!r} must map strings to strings, also for {key!r}")
    return dict(value)


def _arguments(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"'args' must be a sequence of strings, not {type(value).__name__}")
    for argument in value:
        if not isinstance(argument, str):
            raise TypeError(f"'args' must hold strings, not {argument!r}")
    return tuple(value)


def _oauth(value: Any) -> Any:
    """Return the configuration of a login, or the application's `httpx2.Auth`."""
    if value is None or value is False:
        return None
    if value is True:
        return OAuthConfig()
    if not isinstance(value, OAuthConfig) and not callable(getattr(value, "async_auth_flow", None)):
        raise TypeError(f"'oauth' must be True, an OAuthConfig or an httpx2.Auth, not {type(value).__name__}")
    return value
