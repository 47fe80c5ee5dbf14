import gc
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from seqoria_runtime.testing import call, calls, says
from tests.support.talk import Talk


@contextmanager
def left_to_the_garbage_collector() -> Generator[list[str]]:
    """The names of the package's classes of which objects can be freed by a garbage collection alone."""
    found: list[str] = []
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        kinds = [type(item) for item in gc.garbage]
        found += [kind.__qualname__ for kind in kinds if kind.__module__.startswith("seqoria_runtime.")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("names", [["work"], ["work"] * 5], ids=["one call", "several calls"])
async def test_a_turn_is_freed_without_the_garbage_collector(names: list[str]) -> None:
    batch = [call(name, tag=str(number), seconds=number) for number, name in enumerate(names)]
    talk = Talk(*[reply for _ in range(3) for reply in (calls(*batch), says("done"))])
    await talk.chat()
    with left_to_the_garbage_collector() as found:
        await talk.chat()
    assert not found


async def test_the_search_for_what_is_left_sees_a_circle_of_the_packages_objects() -> None:
    with left_to_the_garbage_collector() as found:
        reply = says("on and on")
        object.__setattr__(reply, "ending", [reply])
        del reply
    assert "Reply" in found
