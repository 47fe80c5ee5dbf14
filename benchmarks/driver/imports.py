"""Measure what importing costs: CPU seconds in a fresh process, and the size of the environment."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from .contestants import OWN, PLAIN, Contestant
from .environments import ROOT, CannotInstallError, Environment, environment

SOURCES = ROOT / "seqoria_runtime"
ALONE = f"import {PLAIN}"
SAMPLE = """
import json, sys, time
started = time.process_time()
{imports}
spent = time.process_time() - started
loaded = [name for name in ("httpx", "mcp", "trio") if name in sys.modules]
print(json.dumps({{"cpu": spent, "loaded": len(loaded)}}))
"""
SIZE = """
import importlib.metadata, json, pathlib, sysconfig
folder = pathlib.Path(sysconfig.get_path("purelib"))
names = {d.name for d in importlib.metadata.distributions(path=[str(folder)])} - {"pip", "setuptools"}
files = [f for f in folder.rglob("*") if f.is_file() and f.suffix != ".pyc"]
size = sum(f.stat().st_size for f in files if f.relative_to(folder).parts[0].split("-")[0] != "pip")
print(json.dumps({"distributions": len(names), "megabytes": size / 1e6}))
"""


def _ask(python: str, code: str) -> Any:
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return json.loads(done.stdout.splitlines()[-1])


def weigh(contestants: Sequence[Contestant], repetitions: int) -> dict[str, dict[str, Any]]:
    """Measure each environment in turn; the runtime without extras, with its sources added.

    Compile the sources first, as an installer does for the others. The public module loads its
    names at first use, so the bare import is measured too.
    """
    places = _places(contestants)
    if PLAIN in places:
        _compile_sources(places[PLAIN].python)
    found: dict[str, dict[str, Any]] = {name: {"samples": []} for name in (*places, ALONE)}
    for _ in range(repetitions):
        if PLAIN in places:
            found[ALONE]["samples"].append(
                _ask(places[PLAIN].python, SAMPLE.format(imports="import seqoria_runtime"))
            )
        for name, place in places.items():
            found[name]["samples"].append(_ask(place.python, SAMPLE.format(imports=place.imports)))
    for name, place in places.items():
        size = _ask(place.python, SIZE)
        if name == PLAIN:
            size["distributions"] += 1
            size["megabytes"] += sum(path.stat().st_size for path in SOURCES.rglob("*.py")) / 1e6
        found[name]["samples"] = [{**sample, **size} for sample in found[name]["samples"]]
    return found


def _compile_sources(python: str) -> None:
    subprocess.run([python, "-m", "compileall", "-q", str(SOURCES)], check=True)


def _places(contestants: Sequence[Contestant]) -> dict[str, Environment]:
    places: dict[str, Environment] = {}
    for contestant in contestants:
        name = PLAIN if contestant.environment == OWN else contestant.environment
        try:
            places[name] = places.get(name) or environment(name)
        except CannotInstallError:
            continue
    return places
