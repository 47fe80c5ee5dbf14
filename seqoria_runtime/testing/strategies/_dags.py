"""Strategies for graphs of scripted tools, for their toolboxes, and for plans of faults."""

from collections.abc import Iterable

from hypothesis import strategies as st

from seqoria_runtime.testing._tools.behaviours import (
    Behaviour,
    blocks_thread,
    fails,
    hangs,
    ignores_cancel,
    returns,
    sleeps,
)
from seqoria_runtime.testing._tools.dag import FaultPlan, ScriptedTool, ToolDag
from seqoria_runtime.toolbox import LocalToolbox

_NAMES = "abcdefghijklmnopqrstuvwxyz"
_MAX_AFTER = 3


def behaviours(
    *, max_seconds: float = 4.0, threads: bool = True, hanging: bool = True
) -> st.SearchStrategy[Behaviour]:
    """What a scripted tool may do: sleep, fail, both, ignore its cancellation, block a thread, hang.

    All times are multiples of half a second, up to `max_seconds`. `threads` includes the behaviours
    that need a worker thread, and `hanging` those that need a timeout to end.
    """
    seconds = st.integers(0, int(max_seconds * 2)).map(lambda halves: halves / 2)
    sleeping = st.builds(sleeps, seconds)
    failing = st.builds(fails, st.builds(ValueError, st.just("planned")))
    parts = [sleeping, failing, st.builds(lambda a, b: a.then(b), sleeping, failing)]
    parts.append(st.builds(ignores_cancel, seconds))
    if threads:
        parts.append(st.builds(blocks_thread, seconds))
    if hanging:
        parts.append(st.builds(hangs))
    return st.one_of(parts)


@st.composite
def tool_dags(
    draw: st.DrawFn,
    *,
    min_tools: int = 1,
    max_tools: int = 6,
    behaviour: st.SearchStrategy[Behaviour] | None = None,
    timeouts: bool = False,
    cycles: bool = False,
) -> ToolDag:
    """Graphs of scripted tools of any shape: chains, diamonds, forests, stars.

    They shrink to few tools with few dependencies and short times. `behaviour` is what the tools do, by
    default anything. `timeouts` gives some tools a timeout. `cycles` allows tools to depend on
    themselves, on each other, and on tools that do not exist.
    """
    if not 0 < min_tools <= max_tools <= len(_NAMES):
        raise ValueError(
            f"'min_tools' and 'max_tools' must be from 1 to {len(_NAMES)} and in order, "
            f"not {min_tools} and {max_tools}"
        )
    does = behaviours() if behaviour is None else behaviour
    place = st.integers(0, max_tools - 1)
    limit = st.none() | st.sampled_from([0.5, 1.5, 3.0]) if timeouts else st.none()
    drawn = draw(
        st.lists(
            st.tuples(does, st.lists(place, max_size=_MAX_AFTER, unique=True), limit),
            min_size=min_tools,
            max_size=max_tools,
        )
    )
    return ToolDag(
        *(
            ScriptedTool(
                _NAMES[number],
                does,
                after=[_NAMES[other] for other in after if cycles or other < number],
                timeout=timeout,
            )
            for number, (does, after, timeout) in enumerate(drawn)
        )
    )


@st.composite
def toolboxes(draw: st.DrawFn, dag: ToolDag) -> LocalToolbox:
    """Toolboxes with the tools of a graph, registered in any order."""
    return dag.toolbox(order=draw(st.permutations(dag.names)))


def fault_plans(
    toolbox: LocalToolbox | Iterable[str],
    *,
    max_faults: int = 3,
    max_number: int = 3,
    behaviour: st.SearchStrategy[Behaviour] | None = None,
) -> st.SearchStrategy[FaultPlan]:
    """Plans of at most `max_faults` faults among the first `max_number` calls of each tool.

    `toolbox` may also be the names of asynchronous tools. `behaviour` is what goes wrong.
    """
    names = [tool.name for tool in toolbox.tools] if isinstance(toolbox, LocalToolbox) else list(toolbox)
    wrong = _faults() if behaviour is None else behaviour
    calls = st.tuples(st.sampled_from(names), st.integers(1, max_number))
    return st.builds(FaultPlan, st.dictionaries(calls, wrong, max_size=max_faults))


def _faults() -> st.SearchStrategy[Behaviour]:
    return st.one_of(
        st.builds(fails, st.builds(OSError, st.just("planned"))),
        st.builds(returns, st.just("")),
        st.builds(hangs),
        st.builds(sleeps, st.sampled_from([0.5, 10.0])),
        st.builds(ignores_cancel, st.sampled_from([0.5, 10.0])),
    )
