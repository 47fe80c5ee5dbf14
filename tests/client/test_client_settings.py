import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from seqoria_runtime.client import AsyncAIClient, ClientSettings
from seqoria_runtime.client._settings import DEFAULT_SYSTEM_PROMPT
from seqoria_runtime.client.parameters import ParameterRegistry
from seqoria_runtime.testing import ScriptedProvider, says
from seqoria_runtime.toolbox import LocalToolbox


def model() -> ScriptedProvider:
    return ScriptedProvider([says("hello")])


NOT_POSITIVE_INTEGERS = [0, -1, 1.0, 2.5, True, False, "3", math.nan, [1]]
NOT_SECONDS = [math.inf, -math.inf, math.nan, True, False, "1", [1.0], 1j]

REFUSED: list[tuple[str, Any]] = [
    *(("max_concurrency", value) for value in NOT_POSITIVE_INTEGERS),
    *(("tool_timeout", value) for value in [0, 0.0, -1, *NOT_SECONDS]),
    *(("refresh_interval", value) for value in [-0.1, *NOT_SECONDS]),
    *(("breaker_threshold", value) for value in NOT_POSITIVE_INTEGERS),
    *(("breaker_reset_after", value) for value in [-1, *NOT_SECONDS]),
    *(("abandoned_grace", value) for value in [-1, *NOT_SECONDS]),
]


@pytest.mark.clause("C2")
@pytest.mark.parametrize(("option", "value"), REFUSED)
@pytest.mark.parametrize("through_settings", [False, True])
def test_a_number_out_of_range_is_refused_by_the_name_of_its_option(
    option: str, value: Any, through_settings: bool
) -> None:
    options = {option: value}
    with pytest.raises(ValueError, match=f"'{option}' must be .* not "):
        AsyncAIClient([model()], **({"settings": ClientSettings(**options)} if through_settings else options))


@pytest.mark.clause("C2")
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"local_toolbox": 3}, TypeError, "'local_toolbox' takes a LocalToolbox"),
        ({"local_toolbox": [LocalToolbox(), print]}, TypeError, "'local_toolbox' takes a LocalToolbox"),
        ({"param_registry": [1]}, TypeError, "'param_registry' takes a ParameterRegistry or a mapping"),
        ({"param_registry": {3: 1}}, TypeError, "'param_registry': .*not 3"),
        ({"allow_override": 1}, TypeError, "'allow_override' must be True or False"),
        ({"blocked_tools": "add"}, TypeError, "'blocked_tools' must be a collection of names"),
        ({"blocked_tools": 3}, TypeError, "'blocked_tools' must be a collection of names"),
        ({"blocked_tools": [3]}, TypeError, "'blocked_tools' must hold non-empty names"),
        ({"blocked_tools": [""]}, TypeError, "'blocked_tools' must hold non-empty names"),
        ({"retry_policy": 3}, TypeError, "'retry_policy' takes a RetryPolicy or a mapping"),
        ({"retry_policy": {"attempts": 3}}, ValueError, "Unknown retry options: attempts"),
        ({"retry_policy": {"max_attempts": 0}}, ValueError, "max_attempts"),
        ({"retry_policy": {"backoff_base": -1}}, ValueError, "backoff_base"),
        ({"system_prompt": 3}, TypeError, "'system_prompt' takes a string"),
        ({"logger": 3}, TypeError, "'logger' takes a logging.Logger"),
        ({"settings": {"max_concurrency": 3}}, TypeError, "'settings' must be ClientSettings"),
        ({"max_concurency": 3}, TypeError, "max_concurency"),
    ],
)
def test_an_option_of_a_wrong_kind_is_refused_by_name(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        AsyncAIClient([model()], **options)


@pytest.mark.clause("C2")
@pytest.mark.parametrize("nothing", [None, [], (), iter([])])
def test_a_client_without_a_provider_is_refused(nothing: Any) -> None:
    with pytest.raises(ValueError, match="'providers' may not be empty"):
        AsyncAIClient(nothing)


@pytest.mark.clause("C2")
@pytest.mark.parametrize("wrong", ["acme", [None], [model(), object()], ScriptedProvider, {"acme": model()}])
@pytest.mark.parametrize("through_settings", [False, True])
def test_anything_but_asynchronous_providers_is_refused(wrong: Any, through_settings: bool) -> None:
    options = {"settings": ClientSettings(providers=wrong)} if through_settings else {"providers": wrong}
    with pytest.raises(TypeError, match="requires async providers"):
        AsyncAIClient(**options)


@pytest.mark.clause("C1")
def test_the_options_have_the_defaults_that_are_promised() -> None:
    client = AsyncAIClient([model()])
    checked = client._settings
    assert (checked.max_concurrency, checked.tool_timeout, checked.allow_override) == (16, None, False)
    assert (checked.blocked_tools, checked.refresh_interval) == (frozenset(), 0.0)
    assert (checked.abandoned_grace, checked.system_prompt) == (30.0, DEFAULT_SYSTEM_PROMPT)
    assert (checked.toolboxes, checked.registry, checked.logger.name) == ((), None, "seqoria_runtime")
    assert checked.retry_policy.max_attempts == 1
    plain = ClientSettings()
    assert (plain.breaker_threshold, plain.breaker_reset_after) == (5, 60.0)


@pytest.mark.clause("C1")
@pytest.mark.parametrize(
    ("options", "grace"),
    [
        ({}, 30.0),
        ({"tool_timeout": 5}, 5.0),
        ({"tool_timeout": 5, "abandoned_grace": 7}, 7.0),
        ({"abandoned_grace": 0}, 0.0),
    ],
)
def test_calls_wait_for_abandoned_threads_as_long_as_a_call_may_take(
    options: dict[str, Any], grace: float
) -> None:
    assert AsyncAIClient([model()], **options)._settings.abandoned_grace == grace


def some_providers() -> Iterator[ScriptedProvider]:
    yield ScriptedProvider([], name="first")
    yield ScriptedProvider([], name="second")


@pytest.mark.clause("C1")
@pytest.mark.parametrize("form", [list, tuple, iter])
def test_providers_are_any_iterable_in_the_order_of_preference(form: Callable[[Any], Any]) -> None:
    client = AsyncAIClient(form(list(some_providers())))
    assert [provider.name for provider in client._settings.providers] == ["first", "second"]
    assert len(AsyncAIClient(some_providers())._settings.providers) == 2


@pytest.mark.clause("C1")
def test_a_single_provider_or_toolbox_stands_for_a_list_of_one() -> None:
    provider, toolbox = model(), LocalToolbox()
    client = AsyncAIClient(provider, local_toolbox=toolbox)
    assert client._settings.providers == (provider,)
    assert client._settings.toolboxes == (toolbox,)
    assert AsyncAIClient([provider], local_toolbox=[toolbox])._settings.toolboxes == (toolbox,)


@pytest.mark.clause("C1")
def test_a_mapping_stands_for_a_parameter_registry() -> None:
    registry = AsyncAIClient([model()], param_registry={"user_id": "u1"})._settings.registry
    assert isinstance(registry, ParameterRegistry)
    assert "user_id" in registry


@pytest.mark.clause("C1")
def test_an_argument_beats_the_settings_and_none_does_not() -> None:
    settings = ClientSettings(
        providers=[model()],
        max_concurrency=3,
        tool_timeout=5.0,
        allow_override=True,
        blocked_tools=["add"],
        refresh_interval=9.0,
        system_prompt="mine",
    )
    client = AsyncAIClient(
        settings=settings, max_concurrency=4, tool_timeout=None, allow_override=False, blocked_tools=[]
    )
    checked = client._settings
    assert (checked.max_concurrency, checked.tool_timeout, checked.allow_override) == (4, 5.0, False)
    assert (checked.blocked_tools, checked.refresh_interval, checked.system_prompt) == (
        frozenset(),
        9.0,
        "mine",
    )
    assert AsyncAIClient(settings=settings, refresh_interval=0.0)._settings.refresh_interval == 0.0


@pytest.mark.clause("C1")
def test_a_client_takes_every_option_of_the_settings() -> None:
    code = AsyncAIClient.__init__.__code__
    taken = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]} - {"self", "settings"}
    assert taken == {option.name for option in fields(ClientSettings)}


def test_settings_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        ClientSettings().tool_timeout = 3.0  # type: ignore[misc]


def test_settings_made_later_do_not_reach_a_client() -> None:
    blocked = ["add"]
    client = AsyncAIClient([model()], blocked_tools=blocked)
    blocked.append("subtract")
    assert client._settings.blocked_tools == {"add"}


def test_a_copy_of_settings_has_copies_of_the_containers() -> None:
    settings = ClientSettings(
        providers=[model()],
        mcp_servers=["http://localhost:1"],
        local_toolbox=[LocalToolbox()],
        retry_policy={"max_attempts": 2},
    )
    twin = settings.copy()
    assert twin == settings
    for name in ("providers", "mcp_servers", "local_toolbox", "retry_policy"):
        assert getattr(twin, name) is not getattr(settings, name)


def test_settings_with_a_provider_more_leave_the_others_as_they_were() -> None:
    first, second = model(), model()
    settings = ClientSettings(providers=[first], tool_timeout=3.0)
    more = settings.with_provider(second)
    assert (more.providers, more.tool_timeout) == ([first, second], 3.0)
    assert settings.providers == [first]
    assert ClientSettings().with_provider(first).providers == [first]
    assert ClientSettings(providers=first).with_provider(second).providers == [first, second]


@pytest.mark.clause("C96")
def test_the_repr_of_settings_shows_no_server_and_no_secret() -> None:
    settings = ClientSettings(
        providers=[model()],
        mcp_servers=["https://user:hunter2@internal.example/mcp?key=hunter2"],
        param_registry={"token": "hunter2"},
        system_prompt="the word is hunter2",
        retry_policy={"max_attempts": 2},
        tool_timeout=5.0,
    )
    shown = repr(settings)
    assert "hunter2" not in shown
    assert "internal.example" not in shown
    assert "mcp_servers='configured'" in shown
    assert "tool_timeout=5.0" in shown
    assert "mcp_servers=None" in repr(ClientSettings())


def test_a_logger_of_the_applications_own_is_used() -> None:
    logger = logging.getLogger("mine")
    assert AsyncAIClient([model()], logger=logger)._settings.logger is logger


@pytest.mark.clause("C17")
@pytest.mark.parametrize(
    ("given", "used"), [("", ""), ("  \n", ""), ("  be kind \n", "be kind"), (None, DEFAULT_SYSTEM_PROMPT)]
)
def test_a_system_prompt_is_stripped_and_blank_ones_are_none(given: str | None, used: str) -> None:
    assert AsyncAIClient([model()], system_prompt=given)._settings.system_prompt == used
