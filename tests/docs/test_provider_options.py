"""docs/providers.md names every option that a provider or a connection takes."""

import re
from dataclasses import fields

import pytest

from seqoria_runtime.providers import PROFILES, HTTPOptions
from seqoria_runtime.providers._requests.options import (
    CHAT_COMPLETIONS_OPTIONS,
    MESSAGES_OPTIONS,
    OLLAMA_BODY_OPTIONS,
    OLLAMA_MODEL_OPTIONS,
    RESPONSES_OPTIONS,
)
from tests.support.pages import ROOT

PAGE = (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    level = title.split(" ", maxsplit=1)[0]
    _, _, rest = PAGE.partition(f"\n{title}\n")
    return re.split(rf"\n#{{2,{len(level)}}} ", rest)[0]


@pytest.mark.parametrize(
    ("title", "options"),
    [
        ("## Generation options", CHAT_COMPLETIONS_OPTIONS),
        ("### Messages", MESSAGES_OPTIONS),
        ("### Responses", RESPONSES_OPTIONS),
        ("### Ollama", OLLAMA_BODY_OPTIONS | OLLAMA_MODEL_OPTIONS),
        ("### Connections", {field.name for field in fields(HTTPOptions)}),
        ("## Profiles", set(PROFILES)),
    ],
)
def test_every_option_stands_in_its_section(title: str, options: set[str]) -> None:
    named = set(re.findall(r"`([\w.]+)[^`]*`", section(title)))
    assert sorted(options - named) == []
