"""Workloads to measure: calls of an application's toolbox, or synthetic calls on a resource."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, Protocol

from seqoria_runtime._base import checks as _checks
from seqoria_runtime.toolbox import LocalToolbox

from ._calls_file import PlannedCall
from ._durations import Durations
from ._resource import Resource, ResourceSpec, open_resource


class Load(NamedTuple):
    """The tools and the batches of calls of one run."""

    toolbox: LocalToolbox
    batches: Sequence[Sequence[PlannedCall]]
    context: Mapping[str, Any]


class Workload(Protocol):
    """Calls to run under each limit; those of one repetition are the same under every limit."""

    @property
    def size(self) -> int:
        """The number of calls in a run."""

    def open(self, repetition: int) -> AbstractAsyncContextManager[Load]:
        """Open what a run needs; leaving it closes everything, also for a cancelled caller."""


@dataclass(frozen=True)
class ToolboxWorkload:
    """The calls of an application: each item of `batches` is a batch, or a single call.

    A call is the name of a tool with its arguments; see `PlannedCall`. All batches start at once.
    `context` has the trusted values for hidden parameters. Raises `ValueError` or `TypeError`.
    """

    toolbox: LocalToolbox
    batches: Iterable[Sequence[PlannedCall] | PlannedCall]
    context: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.toolbox, LocalToolbox):
            raise TypeError(f"'toolbox' must be a LocalToolbox, not {type(self.toolbox).__name__}")
        batches = tuple(
            (one,) if isinstance(one, PlannedCall) else tuple(PlannedCall(*call) for call in one)
            for one in self.batches
        )
        known = {tool.name for tool in self.toolbox.tools}
        for name in (call.name for batch in batches for call in batch):
            if name not in known:
                raise ValueError(f"the toolbox has no tool {name!r}")
        if not any(batches):
            raise ValueError("'batches' must hold at least one call")
        object.__setattr__(self, "batches", batches)

    @property
    def size(self) -> int:
        return sum(len(batch) for batch in self.batches)

    @asynccontextmanager
    async def open(self, repetition: int) -> AsyncGenerator[Load, None]:
        batches: Any = self.batches
        yield Load(self.toolbox, batches, self.context)


@dataclass(frozen=True)
class SyntheticWorkload:
    """`calls` calls of a synthetic tool, which use a resource for durations drawn with `seed`."""

    durations: Durations
    resource: ResourceSpec = field(default_factory=ResourceSpec)
    calls: int = 400
    seed: int = 0

    def __post_init__(self) -> None:
        _checks.positive_int("calls", self.calls)

    @property
    def size(self) -> int:
        return self.calls

    @asynccontextmanager
    async def open(self, repetition: int) -> AsyncGenerator[Load, None]:
        random = Random(f"{self.seed}/{repetition}")
        batch = [PlannedCall("use", {"seconds": self.durations.draw(random)}) for _ in range(self.calls)]
        async with open_resource(self.resource) as resource:
            yield Load(_toolbox(resource), [batch], {})


def _toolbox(resource: Resource) -> LocalToolbox:
    tools = LocalToolbox()

    @tools.tool()
    async def use(seconds: float) -> None:
        await resource.use(seconds)

    return tools
