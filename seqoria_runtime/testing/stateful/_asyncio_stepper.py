"""An asyncio event loop that runs only while its main task has a job."""

import asyncio
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from ._stepper import LoopStepper


class AsyncioStepper(LoopStepper):
    """A stepper on asyncio."""

    def __init__(self, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
        super().__init__()
        self._runner = asyncio.Runner(loop_factory=loop_factory)
        self._loop = self._runner.get_loop()
        self._waiting = self._loop.create_future()
        with _known_to_anyio():
            self._task = self._loop.create_task(self._main.serve(self._main_waits), name="main")
        self._step()

    def close(self) -> None:
        try:
            if self._main.waits:
                self._main.start(None)
                with _known_to_anyio():
                    self._loop.run_until_complete(self._task)
        finally:
            with _known_to_anyio():
                self._runner.close()

    def _step(self) -> None:
        self._waiting = self._loop.create_future()
        with _known_to_anyio():
            self._loop.run_until_complete(self._waiting)

    def _main_waits(self) -> None:
        self._waiting.set_result(None)


@contextmanager
def _known_to_anyio() -> Generator[None]:
    # Outside of a task, as in the loop's own selector, anyio could not tell what runs.
    sniffio = sys.modules.get("sniffio")
    if sniffio is None:  # anyio asks asyncio itself then
        yield
        return
    token = sniffio.current_async_library_cvar.set("asyncio")
    try:
        yield
    finally:
        sniffio.current_async_library_cvar.reset(token)
