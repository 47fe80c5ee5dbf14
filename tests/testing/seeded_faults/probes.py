"""The properties that the kit checks a runtime against; each is a scenario with Hypothesis's choices."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from seqoria_runtime import AsyncAIClient, LocalToolbox
from seqoria_runtime.models import ToolCallRequest, ToolCallResult
from seqoria_runtime.models.errors import LLMError
from seqoria_runtime.testing import Backend, Reply, Schedule, ScriptedProvider, call, calls, run_virtual, says
from seqoria_runtime.testing._trace.recorded import RecordedToolbox, record_batch, record_turn
from seqoria_runtime.testing.invariants import InvariantError, check_fallback, check_history, check_trace
from seqoria_runtime.testing.strategies import fault_plans, provider_scripts, schedules, tool_dags
from seqoria_runtime.testing.tools import FaultPlan, ScriptedTool, ToolDag, blocks_thread, sleeps

BACKENDS = st.sampled_from(["asyncio", "trio"])
HALVES = st.integers(0, 12).map(lambda halves: halves / 2)


@dataclass(frozen=True)
class Workload:
    """Batches of one graph's tools that start at various times and share a client."""

    dag: ToolDag
    starts: list[float]
    times: int
    limit: int
    timeout: float | None
    repeat_ids: bool
    faults: FaultPlan = field(default_factory=FaultPlan)
    schedule: Schedule | None = None

    def calls(self) -> list[ToolCallRequest]:
        requested = self.dag.calls(self.times)
        if self.repeat_ids:
            return [request.model_copy(update={"id": "again"}) for request in requested]
        return requested

    def client(self, tools: LocalToolbox) -> AsyncAIClient:
        return AsyncAIClient(
            [ScriptedProvider([])],
            local_toolbox=tools,
            max_concurrency=self.limit,
            tool_timeout=self.timeout,
            abandoned_grace=1000,
            system_prompt="",
        )


WORKLOADS = st.builds(
    Workload,
    dag=tool_dags(cycles=True, max_tools=5),
    starts=st.lists(HALVES, min_size=1, max_size=3),
    times=st.integers(1, 3),
    limit=st.integers(1, 3),
    timeout=st.sampled_from([1.0, 2.5, 4.0]),
    repeat_ids=st.booleans(),
)
SLEEPING = st.builds(sleeps, HALVES)
THREADS = st.builds(
    Workload,
    dag=tool_dags(min_tools=2, behaviour=st.builds(blocks_thread, HALVES)),
    starts=st.just([0.0]),
    times=st.integers(1, 2),
    limit=st.integers(1, 2),
    timeout=st.just(1.0),
    repeat_ids=st.just(False),
)
CROWDS = st.builds(
    Workload,
    dag=tool_dags(max_tools=2, behaviour=st.just(sleeps(1))),
    starts=st.lists(HALVES, min_size=2, max_size=3),
    times=st.integers(2, 3),
    limit=st.integers(1, 2),
    timeout=st.none(),
    repeat_ids=st.just(False),
)
SHORT = st.builds(
    Workload,
    dag=tool_dags(max_tools=3, behaviour=st.just(sleeps(0))),
    starts=st.lists(st.just(0.0), min_size=1, max_size=2),
    times=st.integers(1, 2),
    limit=st.integers(1, 3),
    timeout=st.none(),
    repeat_ids=st.just(False),
    schedule=schedules(),
)
GRAPHS = st.builds(
    Workload,
    dag=tool_dags(min_tools=2, behaviour=SLEEPING),
    starts=st.just([0.0]),
    times=st.integers(1, 2),
    limit=st.integers(2, 4),
    timeout=st.just(7.0),
    repeat_ids=st.just(False),
    faults=fault_plans("ab", max_number=2, behaviour=SLEEPING),
)


def batches(backend: Backend, load: Workload) -> None:
    """For any batches and any order of tasks, the trace of the calls breaks no rule."""

    async def main() -> None:
        tools = RecordedToolbox(load.dag.toolbox(), faults=load.faults)
        async with load.client(tools) as client, anyio.create_task_group() as group:
            for start in load.starts:
                group.start_soon(run, client, tools, start)
        check_trace(tools.trace(client))

    async def run(client: AsyncAIClient, tools: RecordedToolbox, start: float) -> None:
        await anyio.sleep(start)
        await record_batch(client, tools, load.calls())

    run_virtual(main, backend=backend, schedule=load.schedule)


def cancelled_batches(backend: Backend, load: Workload, cancel_at: float) -> None:
    """A cancelled batch leaves nothing running, and all slots free once its threads have ended."""

    async def main() -> None:
        tools = RecordedToolbox(load.dag.toolbox())
        async with load.client(tools) as client:
            with anyio.move_on_after(cancel_at):
                await record_batch(client, tools, load.calls())
            check_trace(tools.trace(client))
            await anyio.sleep(100)
            free = client.stats().free_slots
            if free != load.limit:
                raise InvariantError(f"{free} of {load.limit} slots are free when nothing runs any more")

    run_virtual(main, backend=backend)


def nested_calls(backend: Backend, limit: int, depth: int) -> None:
    """Tools that use the client finish, at any limit."""

    async def main() -> None:
        box = LocalToolbox()

        @box.tool()
        async def nest(levels: int) -> str:
            if levels:
                request = ToolCallRequest(id="nested", name="nest", arguments={"levels": levels - 1})
                await client.run_tool_calls([request])
            await anyio.sleep(1)
            return f"level {levels}"

        tools = RecordedToolbox(box)
        client = Workload(ToolDag(), [], 1, limit, None, False).client(tools)
        request = ToolCallRequest(id="outermost", name="nest", arguments={"levels": depth})
        async with client:
            await record_batch(client, tools, [request])
        check_trace(tools.trace(client))

    run_virtual(main, backend=backend)


def failing_consumers(backend: Backend, load: Workload, after: int) -> None:
    """A consumer's own error passes through the stream unchanged."""

    async def main() -> None:
        async with load.client(load.dag.toolbox()) as client:
            try:
                async with client.run_call_stream(load.calls()) as stream:
                    left = after
                    async for _ in stream:
                        if not left:
                            raise KeyError("the consumer's own")
                        left -= 1
            except KeyError:
                pass
            except BaseException as error:
                raise InvariantError(f"the consumer's error came as {error!r}") from error

    run_virtual(main, backend=backend)


TURN_TOOLS = ToolDag(
    ScriptedTool("quick", sleeps(0)),
    ScriptedTool("slow", sleeps(2)),
    ScriptedTool("late", sleeps(1), after=["slow"]),
).toolbox()


def cancelled_turns(backend: Backend, script: list[Reply], cancel_at: float) -> None:
    """A cancelled turn leaves a history that every provider accepts, with everything that was done."""

    async def main() -> None:
        history: list[Any] = []
        tools = RecordedToolbox(TURN_TOOLS)
        client = AsyncAIClient(
            [ScriptedProvider(script)], local_toolbox=tools, system_prompt="", max_concurrency=2
        )
        async with client:
            with anyio.move_on_after(cancel_at):
                await record_turn(client, tools, "q", history=history)
        check_history(history)
        trace = tools.trace(client)
        check_trace(trace)
        results = [message.result for message in history if isinstance(message, ToolCallResult)]
        for done in trace.calls:
            if done.returned is not None and done.returned not in results:
                raise InvariantError(f"what {done} returned is lost: it is not in the history")

    run_virtual(main, backend=backend)


def failing_models(backend: Backend, after: int, rounds: int) -> None:
    """No second model gets a request that a first one has started to answer."""

    async def main() -> None:
        failing = says("a long answer", chunks=4, every=1).fails(LLMError("down"), after=after)
        first = ScriptedProvider([calls(call("quick"))] * rounds + [failing], name="first")
        second = ScriptedProvider(lambda _: says("well"), name="second")
        async with AsyncAIClient([first, second], local_toolbox=TURN_TOOLS) as client:
            try:
                async with client.stream_chat("q", history=[]) as turn:
                    async for _ in turn:
                        pass
            except LLMError:
                pass
        check_fallback([first, second])

    run_virtual(main, backend=backend)


PROBES: Mapping[str, tuple[Callable[..., None], Mapping[str, st.SearchStrategy[Any]]]] = {
    "batches": (batches, {"load": WORKLOADS}),
    "graphs": (batches, {"load": GRAPHS}),
    "crowds": (batches, {"load": CROWDS}),
    "threads": (batches, {"load": THREADS}),
    "batches in any order": (batches, {"load": SHORT}),
    "cancelled batches": (cancelled_batches, {"load": WORKLOADS, "cancel_at": HALVES}),
    "nested calls": (nested_calls, {"limit": st.integers(1, 3), "depth": st.integers(0, 3)}),
    "consumers that fail": (failing_consumers, {"load": WORKLOADS, "after": st.integers(0, 3)}),
    "cancelled turns": (
        cancelled_turns,
        {"script": provider_scripts(TURN_TOOLS), "cancel_at": HALVES},
    ),
    "failing models": (failing_models, {"after": st.integers(0, 4), "rounds": st.integers(0, 2)}),
}


def hunt(probe: str, examples: int, *, shrink: bool = False) -> BaseException | None:
    """Try a probe on so many examples; return what it found."""
    check, choices = PROBES[probe]
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    search = settings(
        max_examples=examples,
        phases=phases,
        database=None,
        derandomize=True,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        search(given(backend=BACKENDS, **choices)(check))()
    except BaseException as error:
        return error
    return None
