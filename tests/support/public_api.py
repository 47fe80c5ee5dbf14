"""What the package exports: its public modules, the names in their `__all__`, and the public methods."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import seqoria_runtime

_SPECIAL = {"__init__", "__call__", "__aenter__", "__aexit__", "__anext__", "__enter__", "__exit__"}


def _public_modules() -> Iterator[ModuleType]:
    yield seqoria_runtime
    for _, name, _ in pkgutil.walk_packages(seqoria_runtime.__path__, "seqoria_runtime."):
        if not any(part.startswith("_") for part in name.split(".")):
            yield importlib.import_module(name)


MODULES = {module.__name__: module for module in _public_modules()}

EXPORTED = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in MODULES.values()
    for name in getattr(module, "__all__", ())
}
"""Every exported object, by the name under which it is exported; some have several."""


def is_ours(value: object) -> bool:
    return str(getattr(value, "__module__", "")).startswith("seqoria_runtime")


def own_classes() -> dict[str, type]:
    return {one.__name__: one for one in EXPORTED.values() if inspect.isclass(one) and is_ours(one)}


def own_functions() -> Mapping[str, Callable[..., Any]]:
    """Every exported function, and every public method of an exported class, `Class.method`."""
    found = {one.__name__: one for one in EXPORTED.values() if inspect.isfunction(one) and is_ours(one)}
    for cls in own_classes().values():
        for name, member in inspect.getmembers(cls):
            method = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            public = not name.startswith("_") or name in _SPECIAL
            if public and inspect.isfunction(method) and is_ours(method):
                found[f"{cls.__name__}.{name}"] = method
    return found
