"""Finds the trusted values of a call's hidden parameters: in its context, then in the registry.

Knows nothing of schemas, places or clocks; a value is passed on as the object that its source returned.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeAlias

from anyio import get_cancelled_exc_class
from pydantic import BaseModel

from seqoria_runtime._base.tools import HiddenParameter, ToolFailure

from .threads import run_in_thread

_logger: Final = logging.getLogger(__name__)
_NO_VALUE: Final = object()

RunSync: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]


class SourceError(Exception):
    """A callback failed; says which parameter and what kind of failure, never its text."""


class ParameterRegistry:
    """Where the values of hidden parameters come from, if the context of a request has none.

    A key is a parameter's name, or a pydantic model class, which stands for its own name with a
    lower-case first letter. A value is a callback (a function, a method or an object with
    `__call__`, sync or async) or a literal; a class is a literal too, and so is `None`. A callback
    gets the entries of the context that its keyword parameters name, all of them for `**kwargs`. It
    returns `None` where it has no value.

    Raises `ValueError` for two keys of one name, `TypeError` for anything but a mapping, and for a
    key or a callback of another form.
    """

    def __init__(self, mapping: Mapping[str | type[BaseModel], Any]) -> None:
        if not isinstance(mapping, Mapping):
            raise TypeError(f"ParameterRegistry takes a mapping, not {type(mapping).__name__}")
        self._sources: dict[str, _Literal | _Callback] = {}
        for key, value in mapping.items():
            name = _name_of(key)
            if name in self._sources:
                raise ValueError(f"ParameterRegistry has two keys for the parameter {name!r}")
            self._sources[name] = _source(name, value)

    def __contains__(self, name: str) -> bool:
        return name in self._sources

    async def resolve(self, name: str, *, context: Mapping[str, Any]) -> Any:
        """Return the context's value, else the registry's, or `None` if neither has one.

        A callback that fails is logged and counts as having no value. A sync callback runs in a worker
        thread; if the caller is cancelled, the thread goes on and its value is lost.
        """
        if name in context:
            return context[name]
        try:
            value = await self._ask(name, context=context, run_sync=run_in_thread)
        except SourceError:
            return None
        return None if value is _NO_VALUE else value

    async def _ask(self, name: str, *, context: Mapping[str, Any], run_sync: RunSync) -> Any:
        """Return the registry's own value or `_NO_VALUE`; run sync callbacks with `run_sync`.

        Raises `SourceError` if the callback fails, after logging it.
        """
        source = self._sources.get(name)
        if source is None:
            return _NO_VALUE
        try:
            return await source.value(context, run_sync)
        except BaseException as error:
            if _is_not_the_callbacks(error):
                raise
            kind, place = type(error).__name__, _place(error.__traceback__)
        # Neither the text nor the traceback is kept: both may hold the values that the callback saw.
        _logger.warning("Parameter %r failed to resolve: %s at %s", name, kind, place)
        raise SourceError(f"Parameter {name!r} failed to resolve: {kind}")


async def resolve_hidden(
    parameters: Sequence[HiddenParameter],
    *,
    context: Mapping[str, Any],
    registry: ParameterRegistry | None,
    run_sync: RunSync,
    tool_name: str,
) -> dict[str, Any]:
    """Return the values of a call's hidden parameters, found one after the other and not copied.

    A parameter that is not required and has no value is left out. Raises
    `ToolFailure("missing_parameter", ...)` if a required one has none or a callback fails; it names
    parameters and no values. After a cancellation nothing runs but what `run_sync` left running.
    """
    sources = registry or _NO_SOURCES
    values = {item.name: context[item.name] for item in parameters if item.name in context}
    absent = [item for item in parameters if item.name not in context]
    # Do not call a callback for a call that cannot run.
    _require([item for item in absent if item.name not in sources], tool_name)
    for parameter in absent:
        try:
            value = await sources._ask(  # noqa: SLF001 - only this module may see why a callback failed
                parameter.name, context=context, run_sync=run_sync
            )
        except SourceError as error:
            raise ToolFailure("missing_parameter", f"Tool {tool_name!r} failed: {error}") from None
        if value is not _NO_VALUE:
            values[parameter.name] = value
    _require([item for item in absent if item.name not in values], tool_name)
    return values


_NO_SOURCES: Final = ParameterRegistry({})


def _require(absent: Sequence[HiddenParameter], tool: str) -> None:
    missing = ", ".join(sorted(parameter.name for parameter in absent if parameter.required))
    if missing:
        raise ToolFailure(
            "missing_parameter",
            f"Tool {tool!r} failed: Missing server-populated parameters for tool {tool!r}: {missing}",
        )


class _Literal(NamedTuple):
    literal: Any

    async def value(self, context: Mapping[str, Any], run_sync: RunSync) -> Any:
        return self.literal


class _Callback(NamedTuple):
    """A callback and what its signature says; it `accepts` these keywords, or all if that is `None`."""

    function: Callable[..., Any]
    accepts: frozenset[str] | None
    is_async: bool

    async def value(self, context: Mapping[str, Any], run_sync: RunSync) -> Any:
        accepted = context if self.accepts is None else context.keys() & self.accepts
        call = partial(self.function, **{name: context[name] for name in accepted})
        value = call() if self.is_async else await run_sync(call)
        if inspect.isawaitable(value):
            value = await value
        return _NO_VALUE if value is None else value


def _is_not_the_callbacks(error: BaseException) -> bool:
    """Whether it asks for the end of the call or of the program, alone or inside a group."""
    passed_on = (KeyboardInterrupt, SystemExit, GeneratorExit, get_cancelled_exc_class())
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(passed_on) is not None
    return isinstance(error, passed_on)


def _name_of(key: Any) -> str:
    if isinstance(key, str) and key:
        return key
    if isinstance(key, type) and issubclass(key, BaseModel):
        return key.__name__[0].lower() + key.__name__[1:]
    raise TypeError(f"A key of a ParameterRegistry is a name or a pydantic model class, not {key!r}")


def _source(name: str, value: Any) -> _Literal | _Callback:
    if isinstance(value, type) or not callable(value):
        return _Literal(value)
    is_async = inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(type(value).__call__)
    return _Callback(value, _accepted(name, value), is_async)


def _accepted(name: str, callback: Callable[..., Any]) -> frozenset[str] | None:
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature that could be read
        return frozenset()
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise TypeError(
                f"The callback for the parameter {name!r} needs the positional argument {parameter.name!r}, "
                "but callbacks are called with keyword arguments"
            )
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return frozenset(parameter.name for parameter in parameters if parameter.kind in by_keyword)


def _place(traceback: TracebackType | None) -> str:
    place = "?"
    while traceback is not None:
        place = f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
