"""The base of the adapters, through which the harness uses a contestant.

A method prepares a piece of work and returns a function that runs it once. A contestant cannot do
what its adapter does not override; `cannot` says why, in the words of the report.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from .dags import CAP, Dag
from .loop import Loop, Run
from .script import Script

TIMEOUT = 30.0

__all__ = ["CAP", "TIMEOUT", "Adapter", "CannotDo"]


class CannotDo(Exception):
    """The contestant has no way to do this; the text is the reason."""


class Adapter:
    """Open it once, and close it in the same task."""

    cannot: Mapping[str, str] = {}
    how_batches_run: str = ""

    def __init__(self, loop: Loop, variant: str) -> None:
        self.loop = loop
        self.variant = variant
        self.stack = AsyncExitStack()
        self._dags: dict[str, Run] = {}
        self._streams: dict[str, Run] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stack.__aexit__(kind, error, trace)

    def refuse(self, what: str) -> CannotDo:
        return CannotDo(self.cannot.get(what, f"its adapter has no {what}"))

    async def batch(self, tool: str, count: int, cap: int | None = CAP) -> Run:
        """Prepare `count` calls of a tool, at most `cap` at once if set; a run returns the number of results.

        A contestant without a cap runs them all at once if `cap` is the default.
        """
        raise self.refuse("batch")

    async def capped_batch(self, tool: str, count: int) -> Run:
        """Prepare the same with a cap that holds."""
        if "cap" in self.cannot:
            raise self.refuse("cap")
        return await self.batch(tool, count)

    async def known_dag(self, dag: Dag) -> Run:
        """Return the run of a DAG, prepared once: registering a thousand tools is not measured."""
        if dag.name not in self._dags:
            self._dags[dag.name] = await self.dag(dag)
        return self._dags[dag.name]

    async def dag(self, dag: Dag) -> Run:
        """Prepare the calls of a DAG, at most `CAP` at once; a run returns the number of results."""
        raise self.refuse("dag")

    async def turn(self, script: Script) -> Run:
        """Prepare a turn of a new conversation; a run returns the number of its calls and answers."""
        raise self.refuse("turn")

    async def known_stream(self, url: str) -> Run:
        """Return the run of a stream, connected and warmed up at the first request."""
        if url not in self._streams:
            run = await self.stream(url)
            await run()
            self._streams[url] = run
        return self._streams[url]

    async def stream(self, url: str) -> Run:
        """Prepare a stream from the Chat Completions server at `url`; a run returns the number of deltas."""
        raise self.refuse("stream")
