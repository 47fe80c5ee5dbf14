"""The pytest plugin, in separate runs of pytest."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import ROOT

pytest_plugins = ["pytester"]

TESTS = """
import anyio
import pytest
from hypothesis import given, strategies as st

from seqoria_runtime.testing import InjectedError


@pytest.fixture
async def started():
    return anyio.current_time()


@pytest.mark.virtual_time
async def test_an_hour(started):
    await anyio.sleep(3600)
    assert anyio.current_time() == started + 3600


@pytest.mark.virtual_time(backends=["trio"])
@given(st.integers(1, 5))
async def test_a_property(hours):
    await anyio.sleep(3600 * hours)


@pytest.mark.virtual_time
async def test_a_deadlock():
    await anyio.Event().wait()


def test_a_plain_one():
    pass


async def both(work):
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        group.start_soon(work)


@pytest.mark.explore(schedules=50, seed=1)
async def test_an_order_that_loses_an_update():
    total = 0

    async def add():
        nonlocal total
        seen = total
        await anyio.lowlevel.checkpoint()
        total = seen + 1

    await both(add)
    assert total == 2


@pytest.mark.explore(schedules=20)
async def test_an_order_that_does_not_matter():
    await both(anyio.lowlevel.checkpoint)


@pytest.mark.cancel_everywhere
async def test_a_slot_that_is_lost():
    free = 1
    free -= 1
    try:
        await anyio.sleep(1)
    except Exception:
        pass
    finally:
        free += 1


@pytest.mark.fail_everywhere
async def test_a_failure_that_is_told(interruption):
    with pytest.raises(InjectedError) if interruption.form else anyio.CancelScope():
        interruption.passing("the only place")
"""

CONFTEST = """
import pytest


@pytest.fixture
def anyio_backend(virtual_time_backend):
    return virtual_time_backend
"""

WHOLE_SUITE = """
import anyio


async def test_a_day():
    await anyio.sleep(24 * 3600)
"""


PLUGINS = ["-p", "anyio", "-p", "seqoria_runtime._pytest_plugin"]


def run(folder: Path, *arguments: str) -> str:
    """Run pytest in a folder, with the plugin and anyio's, and return its result."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-W", "error", "--strict-markers", "-rA", *PLUGINS, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    return done.stdout + done.stderr


def ended(output: str) -> dict[str, str]:
    """The outcome of each test, by its name without its module."""
    return {
        name: result
        for result, name in re.findall(r"^(PASSED|FAILED|SKIPPED|ERROR) \S+::(\S+)", output, re.MULTILINE)
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_marked.py").write_text(TESTS)
    return folder


@pytest.fixture(scope="module")
def output(folder: Path) -> str:
    return run(folder)


@pytest.mark.clause("C120")
def test_marked_tests_run_on_both_backends_as_their_markers_say(output: str) -> None:
    passed = {name for name, result in ended(output).items() if result == "PASSED"}
    both = ["an_hour", "an_order_that_does_not_matter", "a_slot_that_is_lost", "a_failure_that_is_told"]
    assert passed == {f"test_{name}[{backend}]" for name in both for backend in ("asyncio", "trio")} | {
        "test_a_property[trio]",
        "test_a_plain_one",
    }, output


def test_a_deadlock_in_virtual_time_is_told_with_the_place(output: str) -> None:
    assert ended(output)["test_a_deadlock[trio]"] == "FAILED"
    assert "VirtualTimeDeadlock: no timer and no thread can wake the tasks any more" in output


INTERRUPTED = """
from contextlib import suppress

import anyio
import pytest

from seqoria_runtime.testing import InjectedError


async def lose(interruption):
    free = 1
    with anyio.CancelScope() as scope:
        interruption.on(stop=scope.cancel)
        async with interruption.region():
            free -= 1
            await anyio.sleep(1)
            free += 1
    assert free == 1


@pytest.mark.cancel_everywhere(forms=["scope"])
async def test_scope(interruption):
    await lose(interruption)


@pytest.mark.cancel_everywhere(forms=["deadline"])
async def test_deadline(interruption):
    await lose(interruption)


@pytest.mark.cancel_everywhere(forms=["native"], backends=["asyncio"])
async def test_native(interruption):
    await lose(interruption)


@pytest.mark.cancel_everywhere(forms=["stop"])
async def test_stop(interruption):
    await lose(interruption)


@pytest.mark.fail_everywhere(errors=[InjectedError, OSError])
async def test_fail2(interruption):
    free = 1
    with suppress(InjectedError, OSError):
        free -= 1
        try:
            interruption.passing("the only place")
        except InjectedError:
            free += 1
            raise
        free += 1
    assert free == 1


@pytest.mark.explore(schedules=20, seed=1)
class TestOrders:
    @pytest.mark.parametrize("amount", [1, 2])
    async def test_update(self, amount):
        total = 0

        async def add_in_two_steps():
            nonlocal total
            seen = total
            await anyio.lowlevel.checkpoint()
            total = seen + amount

        async def add_late():
            nonlocal total
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            total += amount

        async with anyio.create_task_group() as group:
            group.start_soon(add_late)
            group.start_soon(add_in_two_steps)
        assert total == 2 * amount
"""


def commands_in(result: pytest.RunResult) -> list[list[str]]:
    """The arguments of pytest that repeat the failures; in CI, its summary has them once more."""
    commands = re.findall(r"replay it with: pytest (.*)", result.stdout.str())
    return [shlex.split(command) for command in dict.fromkeys(commands)]


@pytest.mark.clause("C120")
def test_every_form_of_failure_is_replayed_by_the_command_that_its_report_ends_with(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_interrupted=INTERRUPTED)
    plain = ["-p", "no:cacheprovider", "-W", "error", *PLUGINS]
    first = pytester.runpytest_inprocess(*plain)
    first.assert_outcomes(failed=13)
    commands = commands_in(first)
    told = {
        (name.rpartition("::")[2], token.partition("/")[2].partition("@")[0]) for name, _, token in commands
    }
    both = ("asyncio", "trio")
    assert told == {
        *(
            (f"test_{form}[{backend}]", form)
            for form in ("scope", "deadline", "stop", "fail2")
            for backend in both
        ),
        ("test_native[asyncio]", "native"),
        *((f"test_update[{amount}-{backend}]", "") for backend in both for amount in (1, 2)),
    }
    orders = [token.partition(":")[2] for name, _, token in commands if "TestOrders" in name]
    assert all(orders), "the default order is fine"
    for command in commands:
        again = pytester.runpytest_inprocess(*plain, *command)
        again.assert_outcomes(failed=1)
        again.stdout.re_match_lines([r"E .*assert \d == "])
        again.stdout.no_fnmatch_line("*replay it with*")


GUIDE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")


def block(first_line: str) -> str:
    """A block of the guide to testing, by its first words."""
    [found] = re.findall(
        rf"^```(?:python)?\n({re.escape(first_line)}\n.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL
    )
    return str(found)


@pytest.mark.clause("C120")
def test_the_project_of_the_guide_finds_its_fault_and_replays_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(my_app=block("from typing import Annotated"))
    pytester.makepyfile(test_seats=block("import pytest\nfrom my_app import Theatre, make_tools"))
    pytester.makepyfile(test_markers=block("import anyio\nimport pytest\n\n\n@pytest.mark.virtual_time"))
    pytester.syspathinsert()
    plain = ["-p", "no:cacheprovider", "-W", "error", *PLUGINS]
    found = pytester.runpytest_inprocess(*plain)
    found.assert_outcomes(failed=2, passed=6)
    found.stdout.no_fnmatch_line("*async_backend.run*")
    command, _ = commands_in(found)
    pytester.runpytest_inprocess(*plain, *command).assert_outcomes(failed=1)


MISTAKES = [
    ("explore(100)", "async def test(): ...", "takes its options by name, not (100,)"),
    ("explore(backends='trio')", "async def test(): ...", "a list of 'asyncio' and 'trio', not 'trio'"),
    ("virtual_time(backends=['curio'])", "async def test(): ...", "'asyncio' and 'trio', not ['curio']"),
    ("explore", "def test(): ...", "test is marked 'explore', but is not an asynchronous function"),
    ("explore", "async def test(loop): ...", "the asynchronous fixture 'loop'"),
    ("fail_everywhere", "async def test(): ...", "marks no place at which it could fail"),
    ("cancel_everywhere", "async def test(interruption): ...", "enter `async with interruption.region():`"),
]


@pytest.mark.parametrize(("marker", "test", "words"), MISTAKES)
def test_a_mistake_with_a_marker_is_told(
    marker: str, test: str, words: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    fixture = "@pytest.fixture\nasync def loop(): ..."
    pytester.makepyfile(f"import pytest\n{fixture}\n@pytest.mark.{marker}\n{test}")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *PLUGINS)
    assert result.ret != 0
    assert words in result.stdout.str()


CLASSES = """
import anyio
import pytest


def test_unmarked(): ...


@pytest.mark.explore(schedules=3)
class TestMarked:
    def test_synchronous(self): ...

    @pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.xfail(strict=True))])
    async def test_asynchronous(self, n, tmp_path):
        await anyio.sleep(n)
        assert n == 1

    async def test_skipped(self):
        pytest.skip("not now")
"""


def test_classes_may_be_marked_and_other_marks_stand_beside_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(CLASSES)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error", *PLUGINS)
    result.assert_outcomes(passed=4, xfailed=2, skipped=2)


OPEN_RUNNER = """
import anyio
import pytest


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture(scope="module")
async def kept(anyio_backend):
    yield 5


@pytest.mark.anyio
async def test_first(kept): ...


@pytest.mark.explore(schedules=3)
async def test_explored():
    await anyio.sleep(1)


@pytest.mark.anyio
async def test_last(kept): ...
"""


def test_exploring_goes_well_beside_the_event_loop_of_the_fixtures_of_other_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(OPEN_RUNNER)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error", *PLUGINS)
    result.assert_outcomes(passed=6)


def test_a_fixture_puts_a_whole_suite_into_virtual_time(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_whole.py").write_text(WHOLE_SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nanyio_mode = auto\n")
    assert set(ended(run(tmp_path))) == {"test_a_day[asyncio]", "test_a_day[trio]"}


def test_the_plugin_loads_nothing_of_the_kit_by_itself() -> None:
    program = "import sys, seqoria_runtime._pytest_plugin; print('seqoria_runtime.testing' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
