"""Detects what a test left behind: tasks, slots, threads, processes, streams and sessions."""

import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.lowlevel import current_token

from seqoria_runtime.client import AsyncAIClient, ClientStats

from ._clock.deadlock import place
from ._clock.worker_threads import running_threads
from ._model.scripted_provider import ScriptedProvider
from ._trace.trace import InvariantError

if TYPE_CHECKING:
    from .mcp import ScriptedMCPServer

_POOLS = ("AnyIO worker thread", "Trio thread ", "asyncio_", "ThreadPoolExecutor-")
_GRACE = 1.0
_PROCESSES = Path("/proc")


class LeakError(InvariantError):
    """Something outlived what made it; the text names each such thing on its own line."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What existed at one moment: the tasks of the running event loop, threads and child processes."""

    tasks: frozenset[int]
    threads: frozenset[threading.Thread]
    processes: frozenset[int]


def snapshot() -> Snapshot:
    """Return what exists now, for `check_no_leaks(before=...)`."""
    return Snapshot(
        tasks=frozenset(task.id for task in _tasks()),
        threads=frozenset(threading.enumerate()),
        processes=frozenset(_processes()),
    )


def check_no_leaks(
    *clients: AsyncAIClient,
    before: Snapshot | None = None,
    providers: Iterable[ScriptedProvider] = (),
    servers: Iterable["ScriptedMCPServer"] = (),
) -> None:
    """Raise `LeakError` if something is left that should have ended by now. The error names each.

    Checks that the clients have no call that runs or waits, and no slot that is not free (not even for
    an abandoned thread that still runs); that the runtime has no worker thread in this event loop; that
    the streams of scripted models and the sessions of scripted MCP servers are closed; and, compared
    with `before`, that there are no new tasks in this event loop, no new threads (except for idle pools
    of libraries) and, on Linux, no new child processes. Outside of an event loop there are no tasks or
    worker threads to check. Threads and processes that are about to end get a second to do so.
    """
    found = [leak for client in clients for leak in _of_client(client)]
    found += (leak for provider in providers for leak in _of_provider(provider))
    found += (leak for server in servers for leak in _of_server(server))
    found += _worker_threads()
    if before is not None:
        found += _new_tasks(before)
        found += _new_threads(before)
        found += _new_processes(before)
    if found:
        raise LeakError("\n".join(["left behind:", *(f"  {leak}" for leak in found)]))


@contextmanager
def no_leaks(
    *clients: AsyncAIClient,
    providers: Iterable[ScriptedProvider] = (),
    servers: Iterable["ScriptedMCPServer"] = (),
) -> Generator[Snapshot]:
    """Check after the body of `with` that everything it started has ended; see `check_no_leaks`.

    An exception of the body passes through, and then nothing is checked.
    """
    before = snapshot()
    yield before  # noqa: RUF075 - an exception of the body matters more than its leaks
    check_no_leaks(*clients, before=before, providers=providers, servers=servers)


def _of_client(client: AsyncAIClient) -> list[str]:
    stats = client.stats()
    found = [
        f"{count} {'call' if count == 1 else 'calls'} of {tool!r} {state}"
        for state, counts in (("running", stats.running), ("waiting", stats.waiting))
        for tool, count in counts.items()
    ]
    found += (
        f"{count} abandoned {'thread' if count == 1 else 'threads'} of {tool!r}, with the slot"
        for tool, count in stats.abandoned.items()
    )
    if lost := lost_slots(stats):
        found.append(f"{lost} of {stats.max_concurrency} slots held by no call")
    return found


def lost_slots(stats: ClientStats) -> int:
    """Return the number of slots that are held by no call and no abandoned thread."""
    held = stats.max_concurrency - stats.free_slots
    return max(held - sum(stats.running.values()) - sum(stats.abandoned.values()), 0)


def _of_provider(provider: ScriptedProvider) -> list[str]:
    return [
        f"the stream of request {number} to {provider.name!r}, open since {stream.opened_at:g} s"
        for number, stream in enumerate(provider.streams, 1)
        if stream.end is None
    ]


def _of_server(server: "ScriptedMCPServer") -> list[str]:
    count = server.connections
    return [f"{count} MCP {'session' if count == 1 else 'sessions'} with {server.name!r}"] if count else []


def _worker_threads() -> list[str]:
    native = _native_token()
    if native is None:
        return []
    return [
        f"a worker thread of the runtime that runs {_name(thread.function)}"
        for thread in running_threads(native).values()
    ]


def _new_tasks(before: Snapshot) -> list[str]:
    return [
        f"the task {task.name!r}, in {place(task.coro)}"
        for task in _tasks()
        if task.id not in before.tasks and task.id != anyio.get_current_task().id
    ]


def _new_threads(before: Snapshot) -> list[str]:
    new = [thread for thread in set(threading.enumerate()) - before.threads if not _in_pool(thread)]
    for thread in new:
        if thread is not threading.current_thread():
            thread.join(_GRACE)
    return [f"the thread {thread.name!r}" for thread in new if thread.is_alive()]


def _new_processes(before: Snapshot) -> list[str]:
    patience = threading.Event()
    for _ in range(10):
        new = {pid: command for pid, command in _processes().items() if pid not in before.processes}
        if not new:
            return []
        patience.wait(_GRACE / 10)
    return [f"the child process {pid}, {command}" for pid, command in sorted(new.items())]


def _tasks() -> list[anyio.TaskInfo]:
    return [] if _native_token() is None else anyio.get_running_tasks()


def _native_token() -> object:
    try:
        return current_token().native_token
    except (anyio.NoEventLoopError, RuntimeError):
        return None


def _in_pool(thread: threading.Thread) -> bool:
    return thread.name.startswith(_POOLS)


def _processes() -> dict[int, str]:
    """Return the child processes with their command lines; none on systems without /proc."""
    children = " ".join(_read(path) for path in _PROCESSES.glob("self/task/*/children")).split()
    return {int(pid): _read(_PROCESSES / pid / "cmdline") or "which has ended" for pid in children}


def _read(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""  # the process has just ended


def _name(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__qualname__", function))
