"""Create an environment for each peer with pinned versions, and again when the pins change."""

import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from .contestants import ENVIRONMENTS, OWN

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / ".environments"


class CannotInstallError(Exception):
    """Creating an environment failed; the text is the last line of pip's errors."""


@dataclass(frozen=True)
class Environment:
    python: str
    imports: str


def environment(name: str) -> Environment:
    """Return the environment. Raise `CannotInstallError` if the packages do not install on this Python."""
    if name == OWN:
        return Environment(sys.executable, "import seqoria_runtime")
    requirements, imports = ENVIRONMENTS[name]
    folder = FOLDER / f"{name}-{sysconfig.get_python_version()}"
    python = folder / "bin" / "python"
    made_with = folder / "made-with.txt"
    pins = "\n".join(requirements)
    if not made_with.exists() or made_with.read_text() != pins:
        print(f"making the environment of {name} ...", file=sys.stderr, flush=True)
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", "anyio", *requirements])
        made_with.write_text(pins)
    return Environment(str(python), imports)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotInstallError((done.stderr.strip().splitlines() or ["no output"])[-1])
