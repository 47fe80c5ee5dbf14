"""The options of a client, their defaults, and their checks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from inspect import iscoroutinefunction
from logging import Logger
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeVar, Union

from pydantic import BaseModel

from seqoria_runtime._base import checks as _checks
from seqoria_runtime._base.retry_policy import RetryPolicy
from seqoria_runtime._execution.calls.hidden_parameters import ParameterRegistry
from seqoria_runtime._execution.places.adaptive import AdaptiveLimit
from seqoria_runtime.models import CallEvent
from seqoria_runtime.providers._protocol import AsyncBaseProvider
from seqoria_runtime.toolbox import LocalToolbox

if TYPE_CHECKING:
    from seqoria_runtime.mcp import MCPServerConfig

_T = TypeVar("_T")

ServerLike: TypeAlias = Union[str, "MCPServerConfig"]
Sources: TypeAlias = ParameterRegistry | Mapping[str | type[BaseModel], Any]
Retry: TypeAlias = RetryPolicy | Mapping[str, Any]

DEFAULT_MAX_CONCURRENCY = 16
DEFAULT_ABANDONED_GRACE = 30.0
DEFAULT_SYSTEM_PROMPT = (
    "You are a helpful assistant with access to tools. Decide for each request whether to answer directly "
    "or to call tools first, call independent tools together, and use their results in your answer. "
    "If a tool fails, say so or try another way. Finish with a clear and friendly answer."
)


@dataclass(frozen=True, repr=False)
class ClientSettings:
    """The options of an `AsyncAIClient`, to be kept and shared; an explicit argument beats them.

    Times are in seconds. `max_concurrency` limits the tool calls that run at once over all turns
    (`None`: 16; an `AdaptiveLimit` finds the limit), `tool_timeout` limits one call from the moment it
    has its slot (`None`: no limit), `refresh_interval` is how often the tool lists are read again (0:
    never), `retry_policy`, `breaker_threshold` and `breaker_reset_after` apply to each remote server,
    `abandoned_grace` is how long calls wait for threads that outlived their timeout (`None`: the tool
    timeout, or 30). `system_prompt=None` means a built-in prompt, `""` none. `observers` are called
    with each `CallEvent`, in the event loop's thread.
    """

    providers: AsyncBaseProvider | Iterable[AsyncBaseProvider] | None = ()
    local_toolbox: LocalToolbox | Iterable[LocalToolbox] | None = None
    mcp_servers: ServerLike | Iterable[ServerLike] | None = None
    param_registry: Sources | None = None
    max_concurrency: int | AdaptiveLimit | None = None
    tool_timeout: float | None = None
    allow_override: bool = False
    blocked_tools: Iterable[str] = ()
    refresh_interval: float = 0.0
    retry_policy: Retry | None = None
    breaker_threshold: int = 5
    breaker_reset_after: float = 60.0
    abandoned_grace: float | None = None
    system_prompt: str | None = None
    logger: Logger | None = None
    observers: Iterable[Callable[[CallEvent], object]] = ()

    def copy(self) -> Self:
        """Return the same settings, with copies of the containers."""
        return replace(
            self,
            providers=_copied(self.providers),
            observers=tuple(self.observers),
            mcp_servers=_copied(self.mcp_servers),
            local_toolbox=_copied(self.local_toolbox),
            retry_policy=_copied(self.retry_policy),
        )

    def with_provider(self, provider: AsyncBaseProvider) -> Self:
        """Return the same settings with one more provider, asked after the others."""
        return replace(self.copy(), providers=[*_as_list(self.providers), provider])

    def __repr__(self) -> str:
        shown = {
            option.name: getattr(self, option.name)
            for option in fields(self)
            if option.name not in {"mcp_servers", "param_registry", "system_prompt", "retry_policy"}
        }
        shown["mcp_servers"] = "configured" if self.mcp_servers else None
        return f"ClientSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def _copied(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _as_list(value: _T | Iterable[_T] | None) -> list[_T]:
    if value is None:
        return []
    return list(value) if isinstance(value, Iterable) else [value]


class CheckedSettings(NamedTuple):
    """The options of one client, checked and with all defaults filled in."""

    providers: tuple[AsyncBaseProvider, ...]
    toolboxes: tuple[LocalToolbox, ...]
    registry: ParameterRegistry | None
    max_concurrency: int | AdaptiveLimit
    tool_timeout: float | None
    allow_override: bool
    blocked_tools: frozenset[str]
    refresh_interval: float
    mcp_servers: "tuple[MCPServerConfig, ...]"
    retry_policy: RetryPolicy
    abandoned_grace: float
    system_prompt: str
    logger: Logger
    breaker_threshold: int
    breaker_reset_after: float
    observers: tuple[Callable[[CallEvent], object], ...]


def check_settings(settings: ClientSettings, logger: Logger) -> CheckedSettings:
    """Check every option, without I/O; raise `ValueError` or `TypeError`, which names the option."""
    timeout = None
    if settings.tool_timeout is not None:
        timeout = _checks.positive_seconds("tool_timeout", settings.tool_timeout)
    grace = timeout if timeout is not None else DEFAULT_ABANDONED_GRACE
    if settings.abandoned_grace is not None:
        grace = _checks.non_negative_seconds("abandoned_grace", settings.abandoned_grace)
    return CheckedSettings(
        providers=_providers(settings.providers),
        toolboxes=_toolboxes(settings.local_toolbox),
        registry=_registry(settings.param_registry),
        max_concurrency=_limit(settings.max_concurrency),
        tool_timeout=timeout,
        allow_override=_checks.boolean("allow_override", settings.allow_override),
        blocked_tools=_checks.names("blocked_tools", settings.blocked_tools),
        refresh_interval=_checks.non_negative_seconds("refresh_interval", settings.refresh_interval),
        mcp_servers=_mcp_servers(settings.mcp_servers),
        retry_policy=_retry_policy(settings.retry_policy),
        abandoned_grace=grace,
        system_prompt=_system_prompt(settings.system_prompt),
        logger=_logger(settings.logger, logger),
        breaker_threshold=_checks.positive_int("breaker_threshold", settings.breaker_threshold),
        breaker_reset_after=_checks.non_negative_seconds("breaker_reset_after", settings.breaker_reset_after),
        observers=_observers(settings.observers),
    )


def _providers(
    value: AsyncBaseProvider | Iterable[AsyncBaseProvider] | None,
) -> tuple[AsyncBaseProvider, ...]:
    providers = _as_list(value)
    if not providers:
        raise ValueError("'providers' may not be empty")
    for provider in providers:
        if not isinstance(provider, AsyncBaseProvider):
            raise TypeError(
                "AsyncAIClient requires async providers: 'providers' takes AsyncBaseProvider objects, "
                f"not {type(provider).__name__}"
            )
    return tuple(providers)


def _mcp_servers(value: ServerLike | Iterable[ServerLike] | None) -> "tuple[MCPServerConfig, ...]":
    if value is None:
        return ()
    # Most clients have no servers; loading the checks of theirs would slow every start-up.
    from seqoria_runtime.mcp._config.server_config import configs_of

    return configs_of(value)


def _toolboxes(value: LocalToolbox | Iterable[LocalToolbox] | None) -> tuple[LocalToolbox, ...]:
    toolboxes: list[LocalToolbox] = _as_list([value] if isinstance(value, LocalToolbox) else value)
    for toolbox in toolboxes:
        if not isinstance(toolbox, LocalToolbox):
            raise TypeError(
                f"'local_toolbox' takes a LocalToolbox or several of them, not {type(toolbox).__name__}"
            )
    return tuple(toolboxes)


def _registry(value: object) -> ParameterRegistry | None:
    if value is None or isinstance(value, ParameterRegistry):
        return value
    if isinstance(value, Mapping):
        try:
            return ParameterRegistry(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"'param_registry': {error}") from None
    raise TypeError(f"'param_registry' takes a ParameterRegistry or a mapping, not {type(value).__name__}")


def _limit(value: object) -> int | AdaptiveLimit:
    if value is None:
        return DEFAULT_MAX_CONCURRENCY
    if isinstance(value, AdaptiveLimit):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"'max_concurrency' must be a positive integer or an AdaptiveLimit, not {value!r}")
    return value


def _observers(value: object) -> tuple[Callable[[CallEvent], object], ...]:
    if not isinstance(value, Iterable):
        raise TypeError(f"'observers' takes a collection of functions, not {type(value).__name__}")
    observers = tuple(value)
    for observer in observers:
        if not callable(observer):
            raise TypeError(f"'observers' takes functions, not {type(observer).__name__}")
        if iscoroutinefunction(observer) or iscoroutinefunction(getattr(observer, "__call__", None)):  # noqa: B004
            raise TypeError(f"'observers' takes functions that are not asynchronous, not {observer!r}")
    return observers


def _retry_policy(value: object) -> RetryPolicy:
    if value is not None and not isinstance(value, (RetryPolicy, Mapping)):
        raise TypeError(f"'retry_policy' takes a RetryPolicy or a mapping, not {type(value).__name__}")
    return RetryPolicy.parse(value)


def _system_prompt(value: object) -> str:
    if value is None:
        return DEFAULT_SYSTEM_PROMPT
    if not isinstance(value, str):
        raise TypeError(f"'system_prompt' takes a string, not {type(value).__name__}")
    return value.strip()


def _logger(value: Any, default: Logger) -> Logger:
    if value is None:
        return default
    if not isinstance(value, Logger) and not callable(getattr(value, "warning", None)):
        raise TypeError(f"'logger' takes a logging.Logger, not {type(value).__name__}")
    return value  # type: ignore[no-any-return]
