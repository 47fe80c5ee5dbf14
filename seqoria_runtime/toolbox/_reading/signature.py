"""Reads a function: its name, its parameters, and whether it blocks."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from .annotations import Scope, scope_of
from .docstrings import first_line, parameter_descriptions

_Positional = inspect.Parameter.POSITIONAL_ONLY
_Variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_Predicate: TypeAlias = Callable[[Any], bool]


class Parameter(NamedTuple):
    """One named parameter; `default` is `inspect.Parameter.empty` if it has none."""

    name: str
    annotation: Any
    default: Any
    description: str | None


class Signature(NamedTuple):
    """What a toolbox needs to know about a function; `own_name` is its name in the code."""

    function: Callable[..., Any]
    own_name: str
    description: str
    parameters: tuple[Parameter, ...]
    blocking: bool


def own_name_of(function: Any) -> str:
    """Return the name of a function, a method, a partial's function, or a callable object's class."""
    inner = _without_partials(function)
    name = getattr(inner, "__name__", None)
    return name if isinstance(name, str) else type(inner).__name__


def read(function: Any, tool: str) -> Signature:
    """Read `function`, which becomes the tool called `tool`; `TypeError` if it cannot be one."""
    called = function.__func__ if isinstance(function, staticmethod) else function
    inner = _without_partials(called)
    if isinstance(inner, type) or not callable(inner):
        raise TypeError(f"Tool {tool!r} must be a function or a callable object, not {inner!r}")
    for is_generator in (inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        if _any_form(inner, is_generator):
            raise TypeError(f"Tool {tool!r} is a generator function; a tool has to return one value")
    plain = _plain_function(inner)
    description = inspect.getdoc(inner) if not _is_callable_object(inner) else _object_doc(inner)
    return Signature(
        function=called,
        own_name=own_name_of(called),
        description=first_line(description),
        parameters=tuple(_parameters(called, tool, scope_of(plain, _owner(inner)), description)),
        blocking=not _any_form(inner, inspect.iscoroutinefunction),
    )


def _parameters(function: Any, tool: str, scope: Scope, docstring: str | None) -> Iterator[Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError, NameError) as error:
        raise TypeError(f"Tool {tool!r} has no signature that can be read: {error}") from error
    described = parameter_descriptions(docstring)
    # `inspect` still lists what a partial has bound by keyword, but the model must not set it.
    bound = function.keywords if isinstance(function, functools.partial) else {}
    for position, parameter in enumerate(parameters):
        if parameter.name in bound:
            continue
        _refuse_unnamed(parameter, tool)
        _refuse_unbound_self(function, parameter, position, tool)
        yield Parameter(
            name=parameter.name,
            annotation=_resolved(parameter, tool, scope),
            default=parameter.default,
            description=described.get(parameter.name) or None,
        )


def _resolved(parameter: inspect.Parameter, tool: str, scope: Scope) -> Any:
    try:
        return scope.resolve(parameter.annotation)
    except Exception as error:
        raise TypeError(
            f"Tool {tool!r}: the annotation {parameter.annotation!r} of parameter {parameter.name!r} "
            f"cannot be resolved: {error}"
        ) from error


def _refuse_unnamed(parameter: inspect.Parameter, tool: str) -> None:
    if parameter.kind is _Positional:
        raise TypeError(
            f"Tool {tool!r}: parameter {parameter.name!r} is positional-only, "
            "but tools are called with keyword arguments"
        )
    if parameter.kind in _Variable:
        raise TypeError(
            f"Tool {tool!r}: parameter {str(parameter).partition(':')[0]!r} accepts any arguments, "
            "but the parameters of a tool must be explicitly named"
        )


def _refuse_unbound_self(function: Any, parameter: inspect.Parameter, position: int, tool: str) -> None:
    class_name = getattr(function, "__qualname__", "").rpartition(".")[0]
    in_class_body = bool(class_name) and not class_name.endswith("<locals>")
    if (
        position == 0
        and parameter.name in {"self", "cls"}
        and in_class_body
        and not inspect.ismethod(function)
    ):
        raise TypeError(
            f"Tool {tool!r}: {parameter.name!r} has no value yet; register the method of an object instead"
        )


def _without_partials(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _is_callable_object(function: Any) -> bool:
    return not (inspect.isroutine(function) or hasattr(function, "__wrapped__"))


def _plain_function(function: Any) -> Any:
    if inspect.ismethod(function):
        return function.__func__
    return type(function).__call__ if _is_callable_object(function) else function


def _owner(function: Any) -> type | None:
    if inspect.ismethod(function):
        bound_to = function.__self__
        return bound_to if isinstance(bound_to, type) else type(bound_to)
    return type(function) if _is_callable_object(function) else None


def _object_doc(function: Any) -> str | None:
    """Return the docstring of `__call__`, or else of the class."""
    return type(function).__call__.__doc__ or type(function).__doc__


def _any_form(function: Any, predicate: _Predicate) -> bool:
    return predicate(function) or predicate(type(function).__call__)
