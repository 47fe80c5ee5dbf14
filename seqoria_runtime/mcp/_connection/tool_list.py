"""The tools that one server offers: reads the whole list, and reads it again when it has changed.

The snapshot is replaced as a whole or not at all.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
from anyio import Event, Lock
from mcp import ClientSession, MCPError
from mcp_types import METHOD_NOT_FOUND, PaginatedRequestParams, PaginatedResult, Tool
from pydantic import ValidationError

from seqoria_runtime.mcp._transport.connection_end import Log
from seqoria_runtime.mcp._transport.failures import RequestFailed, describe

from .connection import SingleConnection
from .results import ANNOTATIONS_KEY

T = TypeVar("T")
R = TypeVar("R", bound=PaginatedResult)

DEPENDS_ON_META_KEY = "seqoria-runtime/depends_on"
"""The key in a remote tool's `_meta` that lists the tools whose calls must settle first."""

MAX_PAGES = 1_000
DEBOUNCE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class RemoteToolDefinition:
    """A tool as its server describes it; `repeatable` if the server says that a repeated call is harmless."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    depends_on: frozenset[str] = frozenset()
    repeatable: bool = False


class ToolList:
    """The tool list of one server.

    `tools` is the last complete list; `error` is why the last reading failed, if it did.
    """

    def __init__(self, timeout: float, on_change: Callable[[], None], log: Log) -> None:
        self._timeout = timeout
        self._on_change = on_change
        self._log = log
        self._stale = Event()
        self._reading = Lock()
        self.tools: tuple[RemoteToolDefinition, ...] = ()
        self.error: str | None = None

    def changed(self) -> None:
        """Mark the list as out of date."""
        self._stale.set()

    async def read(self, session: ClientSession) -> None:
        """Read the list and replace the snapshot.

        Raises `RequestFailed` if it cannot be read to its end. The snapshot then stays, as it does for a
        cancelled caller.
        """
        # Without the lock, a slow reading that started before a change could end after the reading that saw
        # it, and put the old list back.
        async with self._reading:
            # Before the reading, not after: a change while pages are read has to cause another reading.
            self._stale = Event()
            try:
                tools = await _read_tools(session, self._log)
            except (MCPError, ValidationError, RuntimeError) as exc:
                failure = _listing_failure(exc)
                self.error = failure.cause
                raise failure from exc
        self.error = None
        if tools != self.tools:
            # An equal list keeps its identity: the catalogue and compiled schemas stay as they are.
            self.tools = tools
            self._on_change()

    async def refresh(self, connection: SingleConnection) -> None:
        """Read the list over an open connection; a failure is kept in `error`, and logged."""
        try:
            with anyio.fail_after(self._timeout):
                await connection.request(self.read)
            return
        except TimeoutError:
            self.error = f"did not list its tools within {self._timeout:g} s"
        except RequestFailed as failure:
            self.error = failure.cause
        self._log.warning("kept the old list of tools: %s", self.error)

    async def follow(self, connection: SingleConnection) -> None:
        """Read the list again after each change, once for a burst; run until cancelled."""
        while True:
            await self._stale.wait()
            # A server that registers 100 tools sends 100 notices.
            await anyio.sleep(DEBOUNCE_SECONDS)
            # `refresh_tools` may have read the list during the pause.
            if self._stale.is_set():
                await self.refresh(connection)


async def _read_tools(session: ClientSession, log: Log) -> tuple[RemoteToolDefinition, ...]:
    """Return all tools of a server, in its order; none if it does not offer tools."""
    try:
        tools = await all_pages(lambda page: session.list_tools(params=page), lambda found: found.tools)
    except MCPError as refusal:
        if (
            refusal.code == METHOD_NOT_FOUND
            and not isinstance(refusal, RequestFailed)
            and not _has_tools(session)
        ):
            return ()
        raise
    definitions: dict[str, RemoteToolDefinition] = {}
    for tool in tools:
        if tool.execution is not None and tool.execution.task_support == "required":
            log.debug("left out the tool %r, which works only as a task", tool.name)
        elif tool.name in definitions:
            log.warning("lists the tool %r twice; the first one counts", tool.name)
        else:
            definitions[tool.name] = _definition(tool)
    return tuple(definitions.values())


async def all_pages(
    ask: Callable[[PaginatedRequestParams | None], Awaitable[R]], items_of: Callable[[R], Iterable[T]]
) -> list[T]:
    """Return the items of all pages, in order; `ask` requests one page.

    Raises `RequestFailed` for a list without an end.
    """
    items: list[T] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await ask(None if cursor is None else PaginatedRequestParams(cursor=cursor))
        items.extend(items_of(page))
        cursor = page.next_cursor
        if not cursor:
            return items
        if cursor in seen:
            raise RequestFailed("lists its tools in a circle: a page's cursor came twice", ran=False)
        seen.add(cursor)
    raise RequestFailed(f"lists its tools on more than {MAX_PAGES} pages", ran=False)


def _definition(tool: Tool) -> RemoteToolDefinition:
    meta = tool.meta or {}
    annotations = meta.get(ANNOTATIONS_KEY)
    if not isinstance(annotations, Mapping):
        annotations = {}
    return RemoteToolDefinition(
        name=tool.name,
        description=tool.description or "",
        parameters=tool.input_schema,
        depends_on=_names(meta.get(DEPENDS_ON_META_KEY)) | _names(annotations.get("depends_on")),
        repeatable=annotations.get("readOnlyHint") is True or annotations.get("idempotentHint") is True,
    )


def _names(value: object) -> frozenset[str]:
    """Return the names in what a server sent, which may be anything."""
    listed = value if isinstance(value, list) else [value]
    return frozenset(name for name in listed if isinstance(name, str) and name)


def _has_tools(session: ClientSession) -> bool:
    return session.server_capabilities is not None and session.server_capabilities.tools is not None


def _listing_failure(exc: Exception) -> RequestFailed:
    if isinstance(exc, RequestFailed):
        return exc
    return RequestFailed(f"did not list its tools: {describe(exc)}", ran=False, about="refusal")
