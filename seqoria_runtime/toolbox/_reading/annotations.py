"""Resolves annotations: turns strings into the types that they name where the function was written."""

import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple


class Scope(NamedTuple):
    """The names that a function's annotations may use.

    `class_names` are those of the class body around a method. They come last: an attribute may well have
    the name of a type, as in `date: "date"`.
    """

    global_names: Mapping[str, Any]
    local_names: Mapping[str, Any]
    class_names: Mapping[str, Any]

    def resolve(self, annotation: Any) -> Any:
        """Return the type; raise what evaluating the annotation raises, usually a `NameError`."""
        if annotation is inspect.Parameter.empty:
            return Any
        try:
            return _evaluate(annotation, self.global_names, self.local_names)
        except NameError:
            return _evaluate(annotation, self.global_names, {**self.class_names, **self.local_names})


def scope_of(function: Any, owner: type | None = None) -> Scope:
    """Return the names around `function`, a plain function; `owner` is the class of a method.

    Call it while the functions around it still run, or their local classes are not found: nothing else
    refers to a class that only annotations mention.
    """
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType):
        module = sys.modules.get(getattr(function, "__module__", None) or "")
        return Scope(vars(module) if module else {}, {}, {})
    enclosing: dict[str, Any] = {}
    for names in reversed(list(_enclosing_locals(function.__code__))):
        enclosing.update(names)
    type_parameters = {item.__name__: item for item in getattr(function, "__type_params__", ())}
    local_names = {**enclosing, **_closure(function), **type_parameters}
    return Scope(function.__globals__, local_names, _class_body(function, owner))


def _evaluate(annotation: Any, global_names: Mapping[str, Any], local_names: Mapping[str, Any]) -> Any:
    holder = SimpleNamespace(__annotations__={"it": annotation})
    hints = typing.get_type_hints(holder, dict(global_names), dict(local_names), include_extras=True)
    return hints["it"]


def _enclosing_locals(code: CodeType) -> Iterator[Mapping[str, Any]]:
    """Yield the local names of the running functions in which `code` was written, innermost first."""
    frame = sys._getframe(1)  # noqa: SLF001 - documented, in spite of its name
    while frame is not None:
        if frame.f_locals is not frame.f_globals and _holds(frame.f_code, code):
            yield frame.f_locals
        frame = frame.f_back  # type: ignore[assignment]


def _holds(outer: CodeType, inner: CodeType) -> bool:
    constants = [constant for constant in outer.co_consts if isinstance(constant, CodeType)]
    return inner in constants or any(_holds(constant, inner) for constant in constants)


def _closure(function: FunctionType) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # the variable has no value yet when the tool is registered
            continue
    return names


def _class_body(function: FunctionType, owner: type | None) -> Mapping[str, Any]:
    for base in owner.__mro__ if owner is not None else ():
        if inspect.unwrap(base.__dict__.get(function.__name__, None)) is function:
            return base.__dict__
    return MappingProxyType({})
