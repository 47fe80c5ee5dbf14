"""The papers of the project say what is so, and its scripts do what the papers say."""

import os
import re
import shutil
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


@pytest.fixture
def stubbed(tmp_path: Path) -> Path:
    """A folder with `.ci/run`, in which every command that it uses succeeds and does nothing."""
    folder = tmp_path / "project"
    for name in ("pip", "ruff", "mypy", "python"):
        stub(folder / ".venv" / "bin" / name, "true")
    stub(folder / ".ci" / "readme-command", "echo true")
    stub(folder / ".ci" / "wheel", "true")
    stub(folder / ".ci" / "run-servers", "echo the servers were used")
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    return folder


def stub(path: Path, command: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{command}\n")
    path.chmod(0o755)


def run_ci(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        ["bash", ".ci/run"],
        cwd=folder,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_ci_uses_the_servers(stubbed: Path) -> None:
    done = run_ci(stubbed, CI="true")
    assert (done.returncode, done.stderr) == (0, "")
    assert "the servers were used" in done.stdout


def test_a_contributor_without_node_passes_and_reads_that_the_servers_were_left_out(stubbed: Path) -> None:
    done = run_ci(stubbed)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the servers were used" not in done.stdout
    assert "were not used. With node: .ci/run-servers" in done.stdout


def test_ci_ends_with_the_first_step_that_fails(stubbed: Path) -> None:
    stub(stubbed / ".venv" / "bin" / "mypy", "exit 3")
    done = run_ci(stubbed, CI="true")
    assert done.returncode == 3
    assert "== types" in done.stdout
    assert "== docs examples" not in done.stdout


def test_pre_commit_uses_the_ruff_that_the_project_pins() -> None:
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["lint"]
    revision = re.search(r"ruff-pre-commit\n\s+rev: v(\S+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert revision
    assert pinned == [f"ruff=={revision[1]}"]


def test_a_command_that_the_readme_does_not_have_is_an_error_that_names_it() -> None:
    missing = readme_command("nothing")
    assert missing.returncode == 1
    assert "<!-- command: nothing -->" in missing.stderr


def test_the_map_of_the_tests_names_what_is_there() -> None:
    rows = re.findall(r"^\|.+\|$", (ROOT / "tests" / "README.md").read_text(), re.MULTILINE)
    paths = [path for row in rows for path in re.findall(r"`([a-z_/.]+)`", row) if not path.startswith(".ci")]
    homes = (ROOT, ROOT / "tests", ROOT / "seqoria_runtime")
    missing = [path for path in paths if not any((home / path).exists() for home in homes)]
    assert [path for path in missing if not (ROOT / "seqoria_runtime" / f"{path}.py").exists()] == []


def test_the_changelog_begins_with_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == version
