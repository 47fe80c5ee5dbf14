"""docs/options.md: each option and argument is in its table, with the default that it has."""

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

import pytest

from seqoria_runtime.client import AsyncAIClient, ClientSettings
from seqoria_runtime.client._settings import DEFAULT_SYSTEM_PROMPT
from tests.support.pages import ROOT

PAGE = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
METHODS = [
    ("chat and stream_chat", AsyncAIClient.stream_chat),
    ("llm_generate_once and llm_stream_once", AsyncAIClient.llm_generate_once),
    ("llm_generate_once and llm_stream_once", AsyncAIClient.llm_stream_once),
    ("run_tool_calls and run_call_stream", AsyncAIClient.run_tool_calls),
    ("run_tool_calls and run_call_stream", AsyncAIClient.run_call_stream),
    ("call_mcp_tool", AsyncAIClient.call_mcp_tool),
]
DEMANDED = {"providers", "history"}
"""Have a default that says only that they were not given, which is refused."""


def table(heading: str) -> dict[str, str]:
    """The rows of a section's table: each option with the beginning of its default."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| (`[^`]*`|required)", section, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| `", section, re.MULTILINE))
    return dict(rows)


def shown(name: str, default: Any) -> str:
    if name in DEMANDED or default in {MISSING, inspect.Parameter.empty}:
        return "required"
    return f'`"{default}"`' if isinstance(default, str) else f"`{default!r}`"


def arguments(method: Callable[..., Any]) -> dict[str, str]:
    parameters = list(inspect.signature(method).parameters.values())[1:]
    return {parameter.name: shown(parameter.name, parameter.default) for parameter in parameters}


def test_every_option_of_the_client_is_in_the_page_with_its_default() -> None:
    options = {option.name: shown(option.name, option.default) for option in fields(ClientSettings)}
    assert table("The client") == options


def test_the_client_takes_the_options_of_its_settings_and_the_settings_themselves() -> None:
    taken = arguments(AsyncAIClient.__init__)
    assert taken.keys() == {*table("The client"), "settings"}


@pytest.mark.parametrize(("heading", "method"), METHODS)
def test_every_argument_is_in_the_page_with_its_default(heading: str, method: Callable[..., Any]) -> None:
    assert table(heading) == arguments(method)


def test_chat_takes_what_stream_chat_takes_apart_from_the_tools_events() -> None:
    rows = table("chat and stream_chat")
    del rows["tool_events"]
    assert rows == arguments(AsyncAIClient.chat)


def test_the_default_system_prompt_is_quoted_whole() -> None:
    quoted = " ".join(re.findall(r"^> (.*)$", PAGE, re.MULTILINE))
    assert quoted == DEFAULT_SYSTEM_PROMPT
