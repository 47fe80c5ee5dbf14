"""What a contestant is to the harness: the form its adapter gives it.

A method prepares a piece of work and gives back what runs it once. What an adapter does not
override its contestant cannot do; `cannot` tells why, in the words of the report.
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
    """Opened once in the worker's task, and closed by it."""

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
        """`count` calls of a tool, at most `cap` at once (or no limit of them); gives the number of results.

        A contestant without a cap of its own runs them all at once where `cap` is the default.
        """
        raise self.refuse("batch")

    async def capped_batch(self, tool: str, count: int) -> Run:
        """The same with a cap that holds."""
        if "cap" in self.cannot:
            raise self.refuse("cap")
        return await self.batch(tool, count)

    async def known_dag(self, dag: Dag) -> Run:
        """A DAG's thousand tools are registered once, not once for each repetition."""
        if dag.name not in self._dags:
            self._dags[dag.name] = await self.dag(dag)
        return self._dags[dag.name]

    async def dag(self, dag: Dag) -> Run:
        """All calls of a DAG, in its order and at most `CAP` at once; gives the number of results."""
        raise self.refuse("dag")

    async def turn(self, script: Script) -> Run:
        """A turn of a new conversation; gives the number of calls and answers that it came to."""
        raise self.refuse("turn")

    async def known_stream(self, url: str) -> Run:
        """Connected and warmed up when it is first asked for."""
        if url not in self._streams:
            run = await self.stream(url)
            await run()
            self._streams[url] = run
        return self._streams[url]

    async def stream(self, url: str) -> Run:
        """One streamed answer of the Chat Completions server at `url`; gives the number of deltas."""
        raise self.refuse("stream")
