"""A client that is entered, used and left, and cancelled at every scheduling step of that."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.client._root import _entered
from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.testing import ScriptedProvider, call, calls, says
from tests.support.mcp_fakes import FakeServer
from tests.support.steps import Steps, every_step, run_stepped
from tests.support.tools import Deeds, recording_toolbox

NEVER = 10**9


class Own(Exception):
    """An application's exception."""


class Use:
    """A client with a local and a remote tool, and one whole use of it."""

    def __init__(self) -> None:
        server = FakeServer()
        server.tool("remote")
        self.deeds = Deeds()
        self.ended = False
        self.client = AsyncAIClient(
            [ScriptedProvider(lambda request: self.reply(len(request.messages)))],
            local_toolbox=recording_toolbox(self.deeds),
            mcp_servers=[MCPServerConfig(server=server)],
            system_prompt="",
            refresh_interval=1.0,
        )

    def reply(self, messages: int) -> Any:
        return calls(call("remote"), call("lingers", tag="a", seconds=0.5)) if messages == 1 else says("done")

    async def whole(self, error: BaseException | None = None) -> None:
        async with self.client:
            async with self.client.chat("q", history=[]) as turn:
                async for _ in turn:
                    pass
            if error is not None:
                raise error
        self.ended = True

    async def check(self, tasks: set[int]) -> None:
        """Nothing is left, and the client can be used again."""
        assert {task.id for task in anyio.get_running_tasks()} <= tasks
        assert not _entered
        assert self.deeds.cleaned == self.deeds.begun
        assert self.client.list_tools() == []
        self.deeds.begun.clear()
        self.deeds.cleaned.clear()
        await self.whole()
        assert self.deeds.done[-1:] == ["a"]


def task_ids() -> set[int]:
    return {task.id for task in anyio.get_running_tasks()}


async def cancelled_by_scope(steps: Steps) -> bool:
    use, tasks = Use(), task_ids()
    with anyio.CancelScope() as scope:
        steps.action = scope.cancel
        steps.counting = True
        await use.whole()
        steps.counting = False
    steps.counting = False
    ended = use.ended
    assert ended or scope.cancelled_caught
    await use.check(tasks)
    return ended


async def cancelled_natively(steps: Steps) -> bool:
    use, tasks = Use(), task_ids()
    task = asyncio.ensure_future(use.whole())
    steps.action = task.cancel
    steps.counting = True
    with suppress(asyncio.CancelledError):
        await task
    steps.counting = False
    ended = use.ended
    assert ended or task.cancelled()
    await use.check(tasks)
    return ended


@pytest.mark.clause("C3", "C31", "C53")
@pytest.mark.parametrize(
    ("way", "backend"),
    [
        (cancelled_by_scope, "asyncio"),
        (cancelled_by_scope, "trio"),
        (cancelled_natively, "asyncio"),
    ],
)
def test_wherever_a_client_is_cancelled_it_closes_what_it_opened(
    way: Callable[[Steps], Any], backend: str
) -> None:
    ended, steps = run_stepped(way, backend, NEVER)
    assert ended
    assert steps.count > 40
    ends = [ended for _, ended in every_step(way, backend)]
    assert ends.count(False) >= 40


@pytest.mark.clause("C3", "C32")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_wherever_a_client_is_cancelled_an_exception_of_its_body_leaves_as_itself(backend: str) -> None:
    async def main(steps: Steps) -> None:
        use, tasks, error = Use(), task_ids(), Own("mine")
        caught: BaseException | None = None
        with anyio.CancelScope() as scope:
            steps.action = scope.cancel
            try:
                async with use.client:
                    turn = use.client.chat("q", history=[])
                    with anyio.move_on_after(0.25):
                        await anext(turn)
                    steps.counting = True
                    raise error
            except BaseException as exc:
                steps.counting = False
                caught = exc
        assert caught is error
        await use.check(tasks)

    acted = [at for at, _ in every_step(main, backend)]
    assert len(acted) >= 5
