"""What the package exports: each public module lists its names, and all of them are there and documented."""

import inspect

import pytest

from tests.support.public_api import MODULES, is_ours, own_classes, own_functions

LISTING = {name: module for name, module in MODULES.items() if hasattr(module, "__all__")}


def order(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() else 1 if name[:1].isupper() else 2
    return kind, name


@pytest.mark.parametrize("name", LISTING)
def test_a_public_module_lists_its_names_in_order_and_each_is_there(name: str) -> None:
    module = LISTING[name]
    assert list(module.__all__) == sorted(set(module.__all__), key=order)
    assert [one for one in module.__all__ if one.startswith("_") or not hasattr(module, one)] == []


@pytest.mark.parametrize("name", [name for name, module in LISTING.items() if hasattr(module, "__path__")])
def test_a_public_module_shows_nothing_that_it_does_not_list(name: str) -> None:
    shown = {
        one
        for one, value in vars(LISTING[name]).items()
        if not one.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and is_ours(value)
    }
    assert shown <= set(LISTING[name].__all__)


@pytest.mark.parametrize("name", [*own_classes(), *(name for name in own_functions() if "." not in name)])
def test_everything_exported_says_what_it_is(name: str) -> None:
    assert {**own_classes(), **own_functions()}[name].__doc__


ASYNCHRONOUS = [
    name
    for name, function in own_functions().items()
    if inspect.iscoroutinefunction(function) and "__" not in name
]


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_every_exported_asynchronous_function_says_what_a_cancelled_caller_finds(name: str) -> None:
    owner = own_classes().get(name.partition(".")[0])
    text = f"{own_functions()[name].__doc__} {owner.__doc__ if owner else ''}"
    assert "cancel" in text.lower()


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
