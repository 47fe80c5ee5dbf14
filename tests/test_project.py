"""What the project's papers say about it, held to what is so."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def readme_command(name: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / ".ci" / "readme-command"
    return subprocess.run(["bash", script, name], capture_output=True, text=True, timeout=50, check=False)


@pytest.mark.parametrize(
    ("name", "ending"),
    [("test", ".venv/bin/python -m pytest -n auto"), ("demo", ".venv/bin/python -m seqoria_runtime demo")],
)
def test_ci_finds_the_readmes_commands(name: str, ending: str) -> None:
    found = readme_command(name)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip().endswith(ending)
    assert found.stdout.strip() in (ROOT / "README.md").read_text()


def test_ci_runs_the_readmes_commands_and_no_tests_of_its_own() -> None:
    run = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^readme test$", run, re.MULTILINE)
    assert re.search(r"^readme demo$", run, re.MULTILINE)
    assert "pytest" not in run


def test_a_command_that_the_readme_does_not_have_is_an_error_that_names_it() -> None:
    missing = readme_command("nothing")
    assert missing.returncode == 1
    assert "<!-- command: nothing -->" in missing.stderr


def test_the_changelog_begins_with_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == version
