"""The examples of the docs: complete programs, run on both backends."""

import runpy
import sys

import pytest

from tests.support.pages import ROOT

EXAMPLES = sorted(path for path in (ROOT / "docs" / "examples").glob("*.py") if not path.name.startswith("_"))


@pytest.mark.parametrize("backend", ["asyncio", "trio", None])
@pytest.mark.parametrize("example", [path.stem for path in EXAMPLES])
def test_an_example_runs(
    example: str,
    backend: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [f"{example}.py", *([backend] if backend else [])])
    runpy.run_path(str(ROOT / "docs" / "examples" / f"{example}.py"), run_name="__main__")
    assert capsys.readouterr().out
