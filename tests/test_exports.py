"""What the package shows: every window is a decision, and what it names is there."""

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import seqoria_runtime

PUBLIC = [
    name
    for _, name, _ in pkgutil.walk_packages(seqoria_runtime.__path__, "seqoria_runtime.")
    if not any(part.startswith("_") for part in name.split("."))
]


def window(name: str) -> ModuleType:
    return importlib.import_module(name)


def order(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() else 1 if name[:1].isupper() else 2
    return kind, name


def is_ours(value: object) -> bool:
    """Whether a class or function is one of this package's; aliases of types do not say whose they are."""
    named = inspect.isclass(value) or inspect.isfunction(value)
    return named and str(getattr(value, "__module__", "")).startswith("seqoria_runtime")


WINDOWS = ["seqoria_runtime", *(name for name in PUBLIC if hasattr(window(name), "__all__"))]


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_lists_its_names_in_order_and_each_is_there(name: str) -> None:
    shown = getattr(window(name), "__all__", [])
    assert list(shown) == sorted(set(shown), key=order)
    assert [one for one in shown if one.startswith("_") or not hasattr(window(name), one)] == []


@pytest.mark.parametrize("name", [name for name in WINDOWS if hasattr(window(name), "__path__")])
def test_a_window_shows_nothing_that_it_does_not_list(name: str) -> None:
    module = window(name)
    ours = {one for one, value in vars(module).items() if not one.startswith("_") and is_ours(value)}
    assert ours <= set(getattr(module, "__all__", []))


@pytest.mark.parametrize("name", WINDOWS)
def test_everything_that_a_window_shows_says_what_it_is(name: str) -> None:
    module = window(name)
    shown = [getattr(module, one) for one in getattr(module, "__all__", [])]
    assert [one.__name__ for one in shown if is_ours(one) and not one.__doc__] == []


@pytest.mark.clause("C81")
def test_the_vocabulary_is_in_models() -> None:
    from seqoria_runtime.models import (  # noqa: F401
        AssistantMessage,
        ChatChunk,
        LLMUsage,
        SystemMessage,
        ToolCallError,
        ToolCallRequest,
        ToolCallRequestList,
        ToolCallResult,
        ToolMessages,
        ToolOutcome,
        UserMessage,
    )


@pytest.mark.clause("C71")
def test_the_parameter_registry_is_in_client_parameters() -> None:
    from seqoria_runtime.client.parameters import ParameterRegistry  # noqa: F401


@pytest.mark.clause("C90")
def test_the_providers_are_in_providers() -> None:
    from seqoria_runtime.providers import (  # noqa: F401
        AsyncAnthropicProvider,
        AsyncBaseProvider,
        AsyncOllamaProvider,
        AsyncOpenAICompatibleProvider,
        AsyncOpenAIProvider,
    )
