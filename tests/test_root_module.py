"""The package's root module: what it exports, and that it loads nothing before it is used."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import seqoria_runtime
from seqoria_runtime import client, toolbox
from seqoria_runtime.client import parameters, settings

HOMES = {
    "HIDDEN": toolbox,
    "AdaptiveLimit": client,
    "AsyncAIClient": client,
    "ClientSettings": client,
    "ClientStats": client,
    "LocalToolbox": toolbox,
    "ParameterRegistry": parameters,
}


def test_the_root_module_exports_these_names() -> None:
    assert set(seqoria_runtime.__all__) == set(HOMES)


@pytest.mark.parametrize("name", HOMES)
def test_an_exported_name_is_the_one_of_its_own_module(name: str) -> None:
    assert getattr(seqoria_runtime, name) is getattr(HOMES[name], name)
    assert name in dir(seqoria_runtime)


def test_the_settings_have_the_module_that_users_of_seqoria_agent_know() -> None:
    assert settings.ClientSettings is client.ClientSettings


def test_the_version_is_that_of_the_installed_package() -> None:
    assert seqoria_runtime.__version__ == version("seqoria-runtime")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'seqoria_runtime' has no attribute 'Agent'"):
        _ = seqoria_runtime.Agent


def test_importing_the_root_module_loads_no_other() -> None:
    program = (
        "import sys, seqoria_runtime\n"
        "print(*[name for name in sys.modules if name.startswith('seqoria_runtime.')])\n"
        "print(*{'anyio', 'pydantic'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.stdout.split(), done.stderr) == ([], "")
