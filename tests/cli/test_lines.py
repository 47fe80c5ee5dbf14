"""Reading lines in a thread: from a real pipe, in real time."""

import os
import select
from collections.abc import Iterator

import anyio
import pytest

from seqoria_runtime.cli._chat.lines import LineReader

pytestmark = pytest.mark.real_time


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:  # the test has closed it
            continue


async def test_lines_come_in_order_and_then_the_end(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0])
    os.write(pipe[1], b"one\ntwo\r\n\nlast")
    os.close(pipe[1])
    with anyio.fail_after(10):
        assert [await reader.line() for _ in range(6)] == ["one", "two", "", "last", None, None]


async def test_a_line_may_come_in_pieces_that_cut_characters(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0])
    lines: list[str | None] = []

    async def read() -> None:
        lines.append(await reader.line())

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            for byte in "grüß 😀\n".encode():
                os.write(pipe[1], bytes([byte]))
                while select.select([pipe[0]], [], [], 0)[0]:  # until the reader has taken it
                    await anyio.sleep(0)
    assert lines == ["grüß 😀"]


async def test_a_cancelled_reader_loses_no_line_and_holds_up_nothing(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0])
    with anyio.CancelScope() as scope:
        scope.cancel()
        await reader.line()
    assert scope.cancelled_caught
    os.write(pipe[1], b"late\n")
    with anyio.fail_after(10):
        assert await reader.line() == "late"
