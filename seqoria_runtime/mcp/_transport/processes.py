"""Ends a server's process, and everything that it started, within a fixed time."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio

from .pipes import Child

EXIT_SECONDS = 2.0
TERMINATE_SECONDS = 1.0
KILL_SECONDS = 1.0
"""How long to wait for a process at the end of its input, after SIGTERM, and after SIGKILL.

Their sum is the longest time that ending a server takes.
"""

_POLL_SECONDS = 0.005
_PROC = Path("/proc")


async def end_process_tree(process: Child) -> None:
    """Close a process's input, wait for its exit, then terminate and at last kill what is left of its tree.

    The process must lead its process group. On Linux, descendants in other groups are found as well. Call
    it under a shield: a cancelled caller would leave processes running. It takes at most the sum of the
    limits above.
    """
    others = list(_descendants(process.pid)) if process.exit_code is None else []
    process.stdin.close()
    await wait_until(lambda: process.exit_code is not None, EXIT_SECONDS)
    if _alive(process, others):
        _signal_tree(process, others, signal.SIGTERM)
        await wait_until(lambda: not _alive(process, others), TERMINATE_SECONDS)
    if _alive(process, others):
        _signal_tree(process, others, getattr(signal, "SIGKILL", signal.SIGTERM))
        await wait_until(lambda: not _alive(process, others), KILL_SECONDS)


async def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until the condition holds, at most this long.

    Not `process.wait()`: on asyncio it also waits for the end of pipes that a child may have inherited.
    """
    with anyio.move_on_after(seconds):
        while not condition():  # noqa: ASYNC110 - no event reports the end of a process
            await anyio.sleep(_POLL_SECONDS)


def _alive(process: Child, others: "list[_Descendant]") -> bool:
    return process.exit_code is None or _group_alive(process.pid) or any(other.alive for other in others)


def _group_alive(group: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # `killpg` succeeds for zombies too; only /proc tells whether a process of the group still runs.
    return not _PROC.is_dir() or any(
        fields[2] == str(group) and fields[0] != "Z" for _, fields in _processes()
    )


def _signal_tree(process: Child, others: "list[_Descendant]", number: signal.Signals) -> None:
    if sys.platform == "win32":
        if process.exit_code is None:
            process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
    for other in others:
        other.send(number)


class _Descendant:
    """A process outside the group, identified by its start time as well, since ids are reused."""

    __slots__ = ("_pid", "_started")

    def __init__(self, pid: int, started: str) -> None:
        self._pid = pid
        self._started = started

    @property
    def alive(self) -> bool:
        fields = _stat(self._pid)
        return fields is not None and fields[19] == self._started and fields[0] != "Z"

    def send(self, number: signal.Signals) -> None:
        if self.alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, number)


def _descendants(root: int) -> Iterator[_Descendant]:
    """Yield what `root` started, directly or not; nothing where there is no /proc."""
    children: dict[int, list[tuple[int, str]]] = {}
    for pid, fields in _processes():
        children.setdefault(int(fields[1]), []).append((pid, fields[19]))
    found = [root]
    while found:
        for pid, started in children.get(found.pop(), ()):
            found.append(pid)
            yield _Descendant(pid, started)


def _processes() -> Iterator[tuple[int, list[str]]]:
    for entry in _PROC.glob("[0-9]*"):
        fields = _stat(int(entry.name))
        if fields is not None:
            yield int(entry.name), fields


def _stat(pid: int) -> list[str] | None:
    """Return the fields of a process's /proc entry, starting with its state (field 3 in proc(5))."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
