import ast
import re
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.driver.contestants import CONTESTANTS, ENVIRONMENTS, OWN, Contestant


def test_the_runtime_the_floors_and_all_peers_are_there() -> None:
    kinds = Counter(who.kind for who in CONTESTANTS)
    assert kinds["runtime"] == 3
    assert kinds["floor"] == 9
    assert {who.family for who in CONTESTANTS if who.kind == "peer"} == {
        *("seqoria-agent", "openai-agents", "pydantic-ai", "langgraph", "strands", "google-adk", "agno")
    }


def test_no_two_have_one_name() -> None:
    assert max(Counter(who.name for who in CONTESTANTS).values()) == 1


@pytest.mark.parametrize("who", CONTESTANTS, ids=lambda who: who.name)
def test_everyone_has_a_module_with_an_adapter_and_an_environment(who: Contestant) -> None:
    package, _, name = who.module.rpartition(".")
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    source = Path(spec.submodule_search_locations[0], f"{name}.py").read_text(encoding="utf-8")
    assert re.search(r"^ADAPTER = ", source, re.MULTILINE)
    assert who.environment == OWN or who.environment in ENVIRONMENTS


@pytest.mark.parametrize(("requirements", "imports"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_what_is_imported_is_code_and_peers_are_pinned(requirements: tuple[str, ...], imports: str) -> None:
    assert all(isinstance(line, ast.ImportFrom) for line in ast.parse(imports).body)
    if "seqoria_runtime" not in imports:
        assert all("==" in requirement for requirement in requirements)
