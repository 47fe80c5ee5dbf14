"""Tools that record what they did, so that a test can compare a history with the truth."""

import threading
from dataclasses import dataclass, field

import anyio

from seqoria_runtime.toolbox import LocalToolbox


@dataclass
class Deeds:
    """What tools did, as they saw it; each call has its own `tag`."""

    begun: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    cleaned: list[str] = field(default_factory=list)


def recording_toolbox(deeds: Deeds) -> LocalToolbox:
    """`work(tag, seconds)`, `after(tag, seconds)` that depends on it, `fail(tag, seconds)`, `block(tag)` in a
    thread, and `lingers(tag, seconds)`, with a slow cleanup.
    """
    tools = LocalToolbox()

    @tools.tool()
    async def work(tag: str, seconds: float = 1.0) -> str:
        return await _work(deeds, tag, seconds)

    @tools.tool(depends_on=["work"])
    async def after(tag: str, seconds: float = 1.0) -> str:
        return await _work(deeds, tag, seconds)

    @tools.tool()
    async def fail(tag: str, seconds: float = 1.0) -> str:
        await _work(deeds, tag, seconds)
        raise ValueError(f"{tag} failed")

    @tools.tool()
    def block(tag: str) -> str:
        deeds.begun.append(tag)
        deeds.done.append(tag)
        return f"{tag} done"

    @tools.tool()
    async def lingers(tag: str, seconds: float = 1.0) -> str:
        try:
            return await _work(deeds, tag, seconds)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.25)
            deeds.cleaned.append(tag)

    return tools


async def _work(deeds: Deeds, tag: str, seconds: float) -> str:
    deeds.begun.append(tag)
    if seconds:
        await anyio.sleep(seconds)
    deeds.done.append(tag)
    return f"{tag} done"


class Gate:
    """Something that a sync tool waits for in its thread; `entered` is set once it waits."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.open.wait(10), "the test never opened the gate"
