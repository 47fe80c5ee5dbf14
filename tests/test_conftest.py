"""The tests' own snapshot: what they must catch is caught, in a run of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CAUGHT = """
import asyncio
import threading

import anyio
import pytest
from hypothesis import given, strategies as st

async def test_hang_in_a_thread():
    ended = threading.Event()
    try:
        await anyio.to_thread.run_sync(ended.wait, 30, abandon_on_cancel=True)
    finally:
        ended.set()

@pytest.mark.real_time
async def test_hang_in_real_time():
    await anyio.sleep(30)

def test_hang_in_plain_code():
    threading.Event().wait(30)

async def test_deadlock():
    await anyio.Event().wait()

@given(st.integers())
async def test_deadlock_in_a_property(value):
    await anyio.Event().wait()

def test_left_thread():
    threading.Thread(target=threading.Event().wait, args=(4,)).start()

@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_left_task(anyio_backend):
    global task
    task = asyncio.create_task(anyio.sleep(30))
    await anyio.sleep(1)

async def test_warning():
    async def never_awaited():
        pass
    never_awaited()

async def test_good():
    await anyio.sleep(3600)
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("caught")
    (folder / "test_caught.py").write_text(CAUGHT)
    (folder / "conftest.py").write_text((HERE / "conftest.py").read_text())
    (folder / "pyproject.toml").write_text((HERE.parent / "pyproject.toml").read_text())
    (folder / "tests").mkdir()
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "test_caught.py", "-v", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, "TEST_LIMIT": "0.5", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    return run.stdout + run.stderr


@pytest.mark.parametrize(
    ("test", "phase", "reason"),
    [
        ("test_hang_in_a_thread[asyncio]", "FAILED", "still running after 0.5 s"),
        ("test_hang_in_a_thread[trio]", "FAILED", "still running after 0.5 s"),
        ("test_hang_in_real_time[asyncio-real]", "FAILED", "still running after 0.5 s"),
        ("test_hang_in_real_time[uvloop-real]", "FAILED", "still running after 0.5 s"),
        ("test_hang_in_real_time[trio-real]", "FAILED", "still running after 0.5 s"),
        ("test_hang_in_plain_code", "FAILED", "still running after 0.5 s"),
        ("test_deadlock[asyncio]", "FAILED", "VirtualTimeDeadlock"),
        ("test_deadlock[trio]", "FAILED", "VirtualTimeDeadlock"),
        ("test_deadlock_in_a_property[asyncio]", "FAILED", "VirtualTimeDeadlock"),
        ("test_deadlock_in_a_property[trio]", "FAILED", "VirtualTimeDeadlock"),
        ("test_left_thread", "ERROR", "threads still run"),
        ("test_left_task[asyncio]", "FAILED", "tasks still run"),
        ("test_warning[asyncio]", "FAILED", "never awaited"),
        ("test_warning[trio]", "FAILED", "never awaited"),
    ],
)
def test_what_no_test_may_do_is_reported(report: str, test: str, phase: str, reason: str) -> None:
    lines = [line for line in report.splitlines() if line.startswith(f"{phase} test_caught.py::{test} - ")]
    assert len(lines) == 1, report
    name = re.escape(test.partition("[")[0])
    assert re.search(rf"_ .*{name}.* _[\s\S]*{reason}", report), report


def test_a_hang_shows_where_every_thread_is(report: str) -> None:
    assert re.search(r'File ".*test_caught.py", line \d+ in test_hang_in_plain_code', report), report


def test_a_good_test_passes_on_both_backends_after_all_that(report: str) -> None:
    for backend in ("asyncio", "trio"):
        assert f"test_good[{backend}] PASSED" in report, report
