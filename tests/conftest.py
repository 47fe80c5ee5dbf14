"""What every test runs under: two backends in virtual time, a watchdog, leak checks, Hypothesis profiles."""

import faulthandler
import functools
import inspect
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import anyio
import pytest
from anyio.lowlevel import current_token
from hypothesis import HealthCheck, settings

from seqoria_runtime.testing import fail_on_deadlock, virtual_backend

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev")
TEST_LIMIT = float(os.environ.get("TEST_LIMIT") or (1200 if PROFILE == "thorough" else 60))
"""Real seconds that one test (one Hypothesis example of an asynchronous one) may take."""

REAL_BACKENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "asyncio-real": ("asyncio", {}),
    "uvloop-real": ("asyncio", {"use_uvloop": True}),
    "trio-real": ("trio", {}),
}

settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50, print_blob=True)
settings.register_profile("dev", deadline=None, max_examples=30)
settings.register_profile(
    "thorough", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(PROFILE)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "anyio_backend" not in metafunc.fixturenames:
        return
    if any("anyio_backend" in marker.args[0] for marker in metafunc.definition.iter_markers("parametrize")):
        return
    real = metafunc.definition.get_closest_marker("real_time") is not None
    metafunc.parametrize("anyio_backend", list(REAL_BACKENDS) if real else ["asyncio", "trio"], indirect=True)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """A backend as anyio's pytest plugin takes it; the clock is new for each test."""
    return REAL_BACKENDS.get(request.param) or virtual_backend(request.param)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Fail a test whose threads outlive it; daemons are trio's own, and anyio's stop with their loop."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:
            thread.join(2)
    left = [thread.name for thread in set(threading.enumerate()) - before if not thread.daemon]
    if left:
        pytest.fail(f"threads still run after the test: {left}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    test = pyfuncitem.obj
    given = getattr(test, "hypothesis", None)
    inner = given.inner_test if given else test
    if inspect.iscoroutinefunction(inner):
        if given is None:
            pyfuncitem.obj = guarded(test)
        elif not hasattr(inner, "_anyio_original_func"):
            given.inner_test = guarded(inner)
        return (yield)
    if hasattr(inner, "_anyio_original_func"):  # an asynchronous property, on its second backend
        return (yield)
    with alarm(lambda: pytest.fail(f"still running after {TEST_LIMIT:g} s", pytrace=True)):
        return (yield)


def guarded(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Fail a test that hangs, in virtual or in real time, and one that leaves tasks behind."""
    watched = fail_on_deadlock(test)

    @functools.wraps(test)
    async def run(**arguments: Any) -> None:
        before = {task.id for task in anyio.get_running_tasks()}
        native: Any = current_token().native_token
        post = getattr(native, "call_soon_threadsafe", None) or native.run_sync_soon
        with anyio.CancelScope() as scope, alarm(lambda: post(scope.cancel)):
            await watched(**arguments)
        if scope.cancelled_caught:
            pytest.fail(f"still running after {TEST_LIMIT:g} s")
        left = [
            task.name
            for task in anyio.get_running_tasks()
            # Trio ends collected generators in tasks of its own, and warns of them, which says it already.
            if task.id not in before and not str(task.name).startswith("close asyncgen")
        ]
        if left:
            pytest.fail(f"tasks still run after the test: {left}")

    return run


@contextmanager
def alarm(action: Callable[[], object]) -> Generator[None, None, None]:
    """Dump all stacks and do `action` after `TEST_LIMIT`.

    Where that does not help, pytest's faulthandler ends the run (see pyproject.toml).
    """
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        faulthandler.dump_traceback()
        action()

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, TEST_LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
