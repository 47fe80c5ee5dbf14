"""`--toolbox module:name`: finding an application's toolbox, and the messages if that fails."""

import sys
from pathlib import Path

import pytest

from seqoria_runtime.cli._command import CommandError, load_toolbox

MODULE = """
from seqoria_runtime import LocalToolbox

tools = LocalToolbox()
other = object()

class Application:
    tools = LocalToolbox()
"""


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current directory, which is not on the path yet."""
    name = f"application_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / f"{name}_broken.py").write_text("raise ZeroDivisionError('at import')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    return name


@pytest.mark.parametrize("name", ["tools", "Application.tools"])
def test_a_toolbox_is_found_in_a_module_of_the_current_directory(application: str, name: str) -> None:
    found = load_toolbox(f"{application}:{name}")
    assert found is load_toolbox(f"{application}:{name}")


@pytest.mark.parametrize("place", ["tools", ":tools", "module:", ""])
def test_a_place_needs_a_module_and_a_name(place: str) -> None:
    with pytest.raises(CommandError, match=f"must be MODULE:NAME, .* not {place!r}"):
        load_toolbox(place)


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandError, match="cannot import 'no_such_module_here': ModuleNotFoundError"):
        load_toolbox("no_such_module_here:tools")


def test_a_module_that_fails_says_how(application: str) -> None:
    with pytest.raises(CommandError, match="_broken': ZeroDivisionError: at import"):
        load_toolbox(f"{application}_broken:tools")


def test_a_name_that_is_not_there_is_named(application: str) -> None:
    with pytest.raises(CommandError, match=f"module '{application}' has no 'toolz'"):
        load_toolbox(f"{application}:toolz")


def test_something_else_than_a_toolbox_is_refused_by_its_type(application: str) -> None:
    with pytest.raises(CommandError, match="other must be a LocalToolbox, not object"):
        load_toolbox(f"{application}:other")
