import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from seqoria_runtime._execution.calls.threads import run_in_thread
from seqoria_runtime.client import AsyncAIClient, ClientStats
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.providers import ModelRequest
from seqoria_runtime.testing import (
    LeakError,
    ScriptedProvider,
    check_no_leaks,
    no_leaks,
    says,
    snapshot,
    wait_for_abandoned_threads,
)
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.tools import Gate

pytestmark = pytest.mark.clause("C120")


@pytest.mark.parametrize("begun", [True, False])
async def test_a_task_that_is_left_is_named_with_the_place_where_it_waits(begun: bool) -> None:
    waits = anyio.Event()

    async def forgotten() -> None:
        waits.set()
        await anyio.Event().wait()

    async def leave(group: TaskGroup) -> None:
        with no_leaks():
            group.start_soon(forgotten, name="forgotten one")
            if begun:
                await waits.wait()

    line = forgotten.__code__.co_firstlineno + (2 if begun else 0)
    async with anyio.create_task_group() as group:
        with pytest.raises(LeakError) as caught:
            await leave(group)
        group.cancel_scope.cancel()
    named = f"{forgotten.__qualname__} ({__file__}:{line})"
    assert str(caught.value) == f"left behind:\n  the task 'forgotten one', in {named}"


async def test_a_task_that_is_left_in_a_librarys_function_is_named_with_that_function() -> None:
    async with anyio.create_task_group() as group:
        with pytest.raises(LeakError, match=r"'anyio.sleep_forever', in sleep_forever \("), no_leaks():
            group.start_soon(anyio.sleep_forever)
        group.cancel_scope.cancel()


async def test_what_was_there_before_is_no_leak() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        await checkpoint()
        with no_leaks():
            await checkpoint()
        group.cancel_scope.cancel()


async def test_what_the_body_raises_comes_out_as_it_is() -> None:
    async def leave(group: TaskGroup) -> None:
        with no_leaks():
            group.start_soon(anyio.sleep_forever)
            raise ZeroDivisionError

    async with anyio.create_task_group() as group:
        with pytest.raises(ZeroDivisionError):
            await leave(group)
        group.cancel_scope.cancel()


async def test_calls_that_run_and_wait_are_named() -> None:
    tools = LocalToolbox()
    began = anyio.Event()

    @tools.tool()
    async def hangs() -> None:
        began.set()
        await anyio.sleep_forever()

    client = AsyncAIClient([ScriptedProvider([])], local_toolbox=tools, max_concurrency=1)
    async with client, anyio.create_task_group() as group:
        check_no_leaks(client)
        calls = [ToolCallRequest(id=str(number), name="hangs") for number in range(3)]
        group.start_soon(client.run_tool_calls, calls)
        await began.wait()
        with pytest.raises(LeakError, match=r"1 call of 'hangs' running\n  2 calls of 'hangs' waiting$"):
            check_no_leaks(client)
        group.cancel_scope.cancel()
    check_no_leaks(client)


async def test_an_abandoned_thread_is_named_with_its_tool_and_as_a_thread() -> None:
    tools = LocalToolbox()
    gate = Gate()

    @tools.tool()
    def blocks() -> None:
        gate()

    client = AsyncAIClient([ScriptedProvider([])], local_toolbox=tools)
    async with client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.run_tool_calls, [ToolCallRequest(id="1", name="blocks")])
            await run_in_thread(gate.entered.wait)
            group.cancel_scope.cancel()
        with pytest.raises(LeakError, match=r"1 abandoned thread of 'blocks', .*\n  a worker thread"):
            check_no_leaks(client)
        gate.open.set()
        await wait_for_abandoned_threads()
        check_no_leaks(client)


def test_a_slot_that_no_call_holds_is_told() -> None:
    class Lossy(AsyncAIClient):
        def stats(self) -> ClientStats:
            return ClientStats({"a": 1}, {}, {}, free_slots=1, max_concurrency=4, tool_timeout=None)

    with pytest.raises(LeakError, match="1 call of 'a' running\n  2 of 4 slots held by no call"):
        check_no_leaks(Lossy([ScriptedProvider([])]))


async def test_a_models_stream_that_is_left_open_is_told() -> None:
    model = ScriptedProvider([says("hello", chunks=2)], name="model")
    check_no_leaks(providers=[model])
    await anyio.sleep(3)
    await anext(aiter(model.stream(ModelRequest([]))))
    with pytest.raises(LeakError, match="the stream of request 1 to 'model', open since 3 s"):
        check_no_leaks(providers=[model])


def test_a_thread_is_told_by_its_name_unless_it_is_about_to_end() -> None:
    end = threading.Event()
    with no_leaks():
        threading.Timer(0.01, lambda: None).start()
    thread = threading.Thread(target=end.wait, args=(20,), name="the waiter")
    try:
        with pytest.raises(LeakError, match="the thread 'the waiter'"), no_leaks():
            thread.start()
    finally:
        end.set()
        thread.join()


async def test_an_idle_pool_of_threads_is_no_leak() -> None:
    with no_leaks():
        await anyio.to_thread.run_sync(lambda: None)
        await run_in_thread(lambda: None)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="child processes are seen through /proc")
def test_a_child_process_is_told_with_its_command_until_it_was_waited_for() -> None:
    before = snapshot()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        with pytest.raises(LeakError, match=rf"the child process {child.pid}, .*python.* -c input\(\)"):
            check_no_leaks(before=before)
        child.communicate(b"\n")
    check_no_leaks(before=before)
