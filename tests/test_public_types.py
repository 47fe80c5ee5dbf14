"""Every type in a public signature is public itself, and says more than `Any`."""

import inspect
import typing
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support.public_api import EXPORTED, is_ours, own_classes, own_functions

PUBLIC = list(EXPORTED.values())
# Names that are imported for types alone are quoted; all of them have to be public.
NAMES = {name.rpartition(".")[2]: value for name, value in EXPORTED.items()} | {"defaultdict": defaultdict}

MADE_BY_THE_RUNTIME = {"Stream.__init__", "MCPServer.__init__"}
"""Constructors that applications do not call; what they take is private."""

ANY = {
    "LocalToolbox.tool": "the implementation of overloads",
    "RecordedToolbox.tool": "the implementation of overloads",
    "ParameterRegistry.resolve": "a value of the application's",
    "returns": "a value of the application's",
    "call": "arguments as a model sends them, whatever they are",
    "Behaviour.play": "a value of the application's",
    "Behaviour.play_in_thread": "a value of the application's",
    "replay": "what the application's scenario returned",
    "replay_interruption": "what the application's scenario returned",
    "AsyncRuleBasedStateMachine.run_in_loop": "arguments and result of any function",
    "ClientMachine.run_in_loop": "arguments and result of any function",
    "rule": "the options of hypothesis.stateful.rule",
    "initialize": "the options of hypothesis.stateful.initialize",
    "AsyncAnthropicProvider.__init__": "options of the API, checked by name",
    "AsyncOllamaProvider.__init__": "options of the API, checked by name",
    "AsyncOpenAICompatibleProvider.__init__": "options of the API, checked by name",
    "AsyncOpenAIProvider.__init__": "options of the API, checked by name",
    "Tool.call": "a value of the application's",
    "Tool.complete": "prepared arguments, which only the tool reads",
    "Tool.missing": "prepared arguments, which only the tool reads",
    "Tool.render": "a value of the application's",
    "Tool.validate": "prepared arguments, which only the tool reads",
    "ToolStep": "the argument of the function that made the step",
    "ToolStep.__init__": "the argument of the function that made the step",
    "TokenStorage.get_client_info": "models of the MCP SDK, an extra that may not be installed",
    "TokenStorage.get_tokens": "models of the MCP SDK, an extra that may not be installed",
    "TokenStorage.set_client_info": "models of the MCP SDK, an extra that may not be installed",
    "TokenStorage.set_tokens": "models of the MCP SDK, an extra that may not be installed",
    "InMemoryTokenStorage.get_client_info": "models of the MCP SDK, an extra that may not be installed",
    "InMemoryTokenStorage.get_tokens": "models of the MCP SDK, an extra that may not be installed",
    "InMemoryTokenStorage.set_client_info": "models of the MCP SDK, an extra that may not be installed",
    "InMemoryTokenStorage.set_tokens": "models of the MCP SDK, an extra that may not be installed",
    "OpenTelemetryObserver.__init__": "a tracer and a meter of OpenTelemetry, which may not be installed",
    "MCPServerConfig": "a server of the MCP SDK, and a configuration that is checked by hand",
    "MCPServerConfig.__init__": "a server of the MCP SDK, and a configuration that is checked by hand",
    "ScriptedMCPServer.config": "the options of MCPServerConfig",
    "ScriptedMCPServer.run": "streams of the MCP SDK",
    "record_turn": "the options of AsyncAIClient.chat",
}
"""Where `Any` stands by itself, and why."""


def annotated() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, thing in {**own_classes(), **own_functions()}.items():
        if name not in MADE_BY_THE_RUNTIME:
            hints = typing.get_type_hints(thing, localns=NAMES)
            yield name, {key: hint for key, hint in hints.items() if not key.startswith("_")}
    for name, alias in EXPORTED.items():
        if typing.get_origin(alias) is not None:
            yield name.rpartition(".")[2], {"": alias}


SIGNATURES = dict(annotated())


def parts(hint: Any) -> Iterator[Any]:
    """A type and everything that it is made of."""
    yield hint
    if typing.get_origin(hint) is not None:
        yield typing.get_origin(hint)
    for part in hint if isinstance(hint, list) else typing.get_args(hint):
        yield from parts(part)


def private_types(signature: Mapping[str, Any]) -> set[str]:
    found = {part for hint in signature.values() for part in parts(hint) if inspect.isclass(part)}
    return {one.__name__ for one in found if is_ours(one) and not any(one is public for public in PUBLIC)}


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_type_of_this_package_in_a_public_signature_is_exported(name: str) -> None:
    assert private_types(SIGNATURES[name]) == set()


@pytest.mark.parametrize("name", SIGNATURES)
def test_any_stands_by_itself_only_where_there_is_a_reason(name: str) -> None:
    assert Any not in SIGNATURES[name].values() or name in ANY


@pytest.mark.parametrize("name", own_functions())
def test_every_parameter_and_result_of_an_exported_function_has_a_type(name: str) -> None:
    function = own_functions()[name]
    parameters = list(inspect.signature(function).parameters)
    unbound = parameters[1:] if "." in name and parameters[:1] in (["self"], ["cls"]) else parameters
    assert {*unbound, "return"} <= function.__annotations__.keys()
