"""Graphs of scripted tools, and plans of faults. They print as the Python that makes them."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from seqoria_runtime._base import checks as _checks
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.toolbox import LocalToolbox

from .behaviours import Behaviour, PrintsAsProgram


class ScriptedTool(PrintsAsProgram):
    """A tool without parameters that does what its `behaviour` says.

    `after` names the tools whose calls have to settle first; `timeout` is the tool's own, in seconds.
    """

    __slots__ = ("after", "behaviour", "name", "timeout")

    def __init__(
        self, name: str, behaviour: Behaviour, *, after: Iterable[str] = (), timeout: float | None = None
    ) -> None:
        if not isinstance(behaviour, Behaviour):
            raise TypeError(f"the behaviour of {name!r} must be one, such as sleeps(1), not {behaviour!r}")
        self.name: str = name
        self.behaviour: Behaviour = behaviour
        self.after: tuple[str, ...] = tuple(sorted(_checks.names("after", after)))
        self.timeout: float | None = timeout

    def __repr__(self) -> str:
        after = f", after={list(self.after)}" if self.after else ""
        timeout = f", timeout={self.timeout:g}" if self.timeout is not None else ""
        return f"ScriptedTool({self.name!r}, {self.behaviour!r}{after}{timeout})"


class ToolDag(PrintsAsProgram):
    """Scripted tools that depend on each other; its `repr` is the Python that makes it.

    Despite its name it accepts cycles, and dependencies on tools that do not exist: the runtime
    answers both with errors.
    """

    __slots__ = ("tools",)

    def __init__(self, *tools: ScriptedTool) -> None:
        names = [tool.name for tool in tools]
        if len(set(names)) < len(names):
            raise ValueError(f"the tools of a graph need different names, not {names}")
        self.tools: tuple[ScriptedTool, ...] = tools

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools)

    def toolbox(self, *, order: Iterable[str] | None = None) -> LocalToolbox:
        """Return the tools, registered in this `order` of names, by default that of the graph."""
        by_name = {tool.name: tool for tool in self.tools}
        names = self.names if order is None else tuple(order)
        toolbox = _ScriptedToolbox(self, names)
        for name in names:
            tool = by_name[name]
            toolbox.add(
                _function(tool),
                name=name,
                description=f"Scripted: {tool.behaviour!r}.",
                depends_on=tool.after,
                timeout=tool.timeout,
            )
        return toolbox

    def calls(self, times: int = 1) -> list[ToolCallRequest]:
        """Return `times` calls of each tool, in the order of the graph."""
        numbers = itertools.count(1)
        return [
            ToolCallRequest(id=f"call-{next(numbers)}", name=name)
            for _ in range(times)
            for name in self.names
        ]

    def __iter__(self) -> Iterator[ScriptedTool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    def __repr__(self) -> str:
        return f"ToolDag({', '.join(map(repr, self.tools))})"


class _ScriptedToolbox(LocalToolbox):
    """A graph's tools; its `repr` is the Python that makes it, as long as no tools are added."""

    def __init__(self, dag: ToolDag, names: tuple[str, ...]) -> None:
        super().__init__()
        self._dag = dag
        self._names = names

    def __repr__(self) -> str:
        order = "" if self._names == self._dag.names else f"order={list(self._names)}"
        return f"{self._dag!r}.toolbox({order})"


class FaultPlan(PrintsAsProgram):
    """Which calls of which tools go wrong, and how: `FaultPlan({("search", 2): hangs()})`.

    Calls of a tool are counted from 1, over all batches, in the order in which they start. Such a call
    does what the plan says instead of calling the tool's function.
    """

    __slots__ = ("faults",)

    def __init__(self, faults: Mapping[tuple[str, int], Behaviour] | None = None) -> None:
        self.faults: dict[tuple[str, int], Behaviour] = dict(faults or {})
        for (name, number), behaviour in self.faults.items():
            _checks.positive_int(f"call number of {name}", number)
            if not isinstance(behaviour, Behaviour):
                raise TypeError(
                    f"the fault of {name!r} must be a behaviour, such as hangs(), not {behaviour!r}"
                )

    def of(self, tool: str, number: int) -> Behaviour | None:
        """Return what the call of this number does, or `None` if it calls the function as usual."""
        return self.faults.get((tool, number))

    def check_against(self, toolbox: LocalToolbox) -> None:
        """Raise `ValueError` for a tool that does not exist, or a blocked thread of an asynchronous tool."""
        blocking = {tool.name: tool.blocking for tool in toolbox.tools}
        for (name, _), behaviour in self.faults.items():
            if name not in blocking:
                raise ValueError(f"the fault plan names a tool {name!r} that the toolbox does not have")
            if behaviour.blocking and not blocking[name]:
                raise ValueError(f"the tool {name!r} is asynchronous: it has no thread to block")

    def __repr__(self) -> str:
        return f"FaultPlan({self.faults!r})" if self.faults else "FaultPlan()"


def _function(tool: ScriptedTool) -> Callable[[], Any]:
    numbers = itertools.count(1)

    def text() -> str:
        return f"{tool.name} {next(numbers)}"

    if tool.behaviour.blocking:
        return lambda: tool.behaviour.play_in_thread(text())

    async def play() -> Any:
        return await tool.behaviour.play(text())

    return play
