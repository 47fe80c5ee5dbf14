"""The kit's markers in projects where pytest-asyncio or pytest-trio runs asynchronous tests by itself."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from .test_pytest_plugin import ended, run

pytestmark = pytest.mark.clause("C120")

TESTS = """
import anyio
import pytest
import sniffio
from hypothesis import given, settings, strategies as st


async def test_of_the_other_plugin():
    await anyio.sleep(0)


@pytest.fixture
async def opened():
    await anyio.sleep(0)


@pytest.mark.virtual_time
async def test_an_hour(request):
    await anyio.sleep(3600)
    assert anyio.current_time() == 3600
    assert sniffio.current_async_library() in request.node.name


class TestInAClass:
    @pytest.mark.virtual_time
    async def test_a_method(self):
        await anyio.sleep(3600)
        assert anyio.current_time() == 3600

    @pytest.mark.explore(schedules=3)
    async def test_explored(self):
        await anyio.sleep(3600)
        assert anyio.current_time() == 3600


@pytest.mark.virtual_time
@settings(max_examples=5)
@given(st.integers(1, 5))
async def test_a_property(hours):
    begun = anyio.current_time()
    await anyio.sleep(3600 * hours)
    assert anyio.current_time() == begun + 3600 * hours


@pytest.mark.explore(schedules=3)
async def test_a_day():
    await anyio.sleep(86400)
    assert anyio.current_time() == 86400


@pytest.mark.virtual_time
async def test_fails_in_a_deadlock():
    await anyio.Event().wait()


@pytest.mark.explore(schedules=50, seed=1)
async def test_fails_in_some_order():
    seen = []

    async def note(number):
        await anyio.sleep(0)
        seen.append(number)

    async with anyio.create_task_group() as group:
        group.start_soon(note, 1)
        group.start_soon(note, 2)
    assert seen == [1, 2]


@pytest.mark.cancel_everywhere(forms=["scope"])
async def test_fails_when_cancelled(interruption):
    done = []
    async with interruption.region():
        await anyio.sleep(1)
        done.append(1)
    assert done


@pytest.mark.virtual_time
async def test_fails_with_the_fixture_of_another_loop(opened):
    pass
"""

WHOLE_SUITE = """
import anyio


async def test_fails_in_real_time():
    await anyio.sleep(0)
"""

CONFTEST = """
import pytest


@pytest.fixture
def anyio_backend(virtual_time_backend):
    return virtual_time_backend
"""

PROJECTS = {
    "pytest_asyncio": "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n",
    "pytest_trio": "[pytest]\ntrio_mode = true\n",
}


@pytest.fixture(params=PROJECTS)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    plugin = str(request.param)
    if find_spec(plugin) is None:
        pytest.skip(f"{plugin} is not installed")
    (tmp_path / "pytest.ini").write_text(PROJECTS[plugin])
    return plugin, tmp_path


def test_marked_tests_run_as_their_markers_say(project: tuple[str, Path]) -> None:
    plugin, folder = project
    (folder / "test_marked.py").write_text(TESTS)
    output = run(folder, "-p", f"{plugin}.plugin")
    results = ended(output)
    plain = results.pop("test_of_the_other_plugin")
    assert (plain, len(results)) == ("PASSED", 18), output
    wrong = {
        name for name, result in results.items() if (result == "FAILED") is not name.startswith("test_fails")
    }
    assert not wrong, output
    assert "VirtualTimeDeadlock" in output
    assert "cannot use the asynchronous fixture 'opened', which runs in another one" in output
    assert "replay it with: pytest" in output


def test_a_suite_that_a_fixture_puts_into_virtual_time_does_not_run_in_real_time_unseen(
    project: tuple[str, Path],
) -> None:
    plugin, folder = project
    with (folder / "pytest.ini").open("a") as ini:
        ini.write("anyio_mode = auto\n")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_whole.py").write_text(WHOLE_SUITE)
    output = run(folder, "-p", f"{plugin}.plugin")
    assert "PASSED" not in output
    assert "in real time: mark it 'virtual_time'" in output
