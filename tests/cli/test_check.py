"""`seqoria-runtime check`: its report, its exit code and its JSON."""

import json
import sys
from pathlib import Path

import pytest

from seqoria_runtime.cli import main

MODULE = """
from seqoria_runtime import HIDDEN, LocalToolbox
from typing import Annotated

good = LocalToolbox()
bad = LocalToolbox()
none = LocalToolbox()


@good.tool()
async def add(a: int, b: int, user: Annotated[str, HIDDEN]) -> int:
    return a + b


@bad.tool()
async def divide(a: int, b: int) -> float:
    return a / b
"""


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"checked_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    return name


@pytest.mark.clause("C120")
def test_a_good_toolbox_is_a_success(application: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check", f"{application}:good", "--examples", "3", "--seed", "1", "--context", "user=me"])
    assert capsys.readouterr().out == (
        "0 findings in 1 tools, 3 examples of each property, seed 1, on asyncio and trio\n"
    )
    assert code == 0


@pytest.mark.clause("C120")
def test_a_finding_is_a_failure_and_is_told_twice(
    application: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", f"{application}:bad", "--examples", "5", "--seed", "1", "--json", "report.json"]
    assert main([*arguments, "--backend", "trio"]) == 1
    output = capsys.readouterr().out
    assert "divide (valid arguments, trio): fails with valid arguments: ZeroDivisionError" in output
    assert "arguments={'a': 0, 'b': 0}" in output
    report = json.loads(Path("report.json").read_text())
    assert (report["ok"], report["backends"], report["findings"][0]["tool"]) == (False, ["trio"], "divide")


def test_an_exception_may_be_allowed(application: str) -> None:
    arguments = ["check", f"{application}:bad", "--examples", "3", "--allow", "ArithmeticError"]
    assert main([*arguments, "--backend", "asyncio"]) == 0


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("nowhere", "error: MODULE:NAME: must be MODULE:NAME, such as my_app.tools:tools, not 'nowhere'"),
        ("{}:none", "error: MODULE:NAME: {}:none has no tools to check"),
        ("{}:nobody", "has no 'nobody'"),
    ],
)
def test_a_wrong_place_is_told(
    place: str, words: str, application: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", place.format(application)]) == 2
    assert words.format(application) in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_told(application: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", f"{application}:good", "--examples", "1", "--context", "user=me"]
    assert main([*arguments, "--backend", "asyncio", "--json", "no/such/folder.json"]) == 2
    assert "--json: cannot write no/such/folder.json: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["hypothesis", "trio"])
def test_a_missing_extra_is_named(
    missing: str, application: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["check", f"{application}:good", "--backend", "trio"]) == 2
    assert f"{missing} is not installed: pip install 'seqoria-runtime[" in capsys.readouterr().err
