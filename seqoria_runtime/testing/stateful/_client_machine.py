"""The random life of a client: turns that are read, cut short, closed and dropped; blocked tools; time."""

import warnings
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio import move_on_after
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from hypothesis import strategies as st
from hypothesis.stateful import Bundle

from seqoria_runtime._execution.streams.stream import Stream
from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.mcp._config.server_config import require_sdk
from seqoria_runtime.models import AssistantMessage, ToolCallRequest, ToolMessages, ToolOutcome
from seqoria_runtime.models.errors import ClientClosedError, LLMError, MissingExtraError, TurnInProgressError
from seqoria_runtime.providers import AsyncBaseProvider, ModelRequest
from seqoria_runtime.testing._leaks import check_no_leaks, lost_slots
from seqoria_runtime.testing._model.script import Reply, says
from seqoria_runtime.testing._model.scripted_provider import ScriptedProvider
from seqoria_runtime.testing._trace.trace import InvariantError
from seqoria_runtime.testing._virtual_time import wait_for_abandoned_threads
from seqoria_runtime.testing.invariants import check_history
from seqoria_runtime.testing.mcp import ScriptedMCPServer, ServerDeath
from seqoria_runtime.testing.strategies import batches, provider_scripts
from seqoria_runtime.testing.tools import (
    ScriptedTool,
    ToolDag,
    blocks_thread,
    fails,
    hangs,
    ignores_cancel,
    sleeps,
)
from seqoria_runtime.toolbox import LocalToolbox
from seqoria_runtime.toolbox._tool import FunctionTool

from ._machine import initialize, invariant, rule
from ._server_life import ServerLife

_LONG = 600.0
_ROUNDS = 50
_WAITS = st.sampled_from([0.0, 0.5, 1.0, 1.5, 5.0])


@dataclass(eq=False)
class Conversation:
    """A history, and its live turn if there is one."""

    name: str
    history: list[Any] = field(default_factory=list)
    turn: Stream[Any] | None = None
    streams: bool = False
    outcomes: int = 0
    """How many outcomes of the live turn's round have come so far."""
    started: bool = False
    answered: bool = False
    """Whether the live turn's last event has come, so that another turn may follow."""
    closing: bool = False

    def __repr__(self) -> str:
        return self.name


class ClientMachine(ServerLife):
    """The life of one client and its conversations. Subclass it to use your own toolbox.

    Override `toolbox`, `servers` and `make_client`. After each rule it checks that no slot is lost, that
    the servers are those that were added, and that a model accepts each history without a live turn; at
    the end, that nothing is left behind. `ClientMachine.on("trio").TestCase` is the test on trio.
    """

    conversations: Bundle[Conversation] = Bundle("conversations")

    def __init__(self) -> None:
        super().__init__()
        self.tools: LocalToolbox = self.toolbox()
        self._callable = _Joined([self.tools, *(server.toolbox for server in self.mcp_servers)])
        self._scripts: dict[str, list[Reply]] = {}
        self._known: list[Conversation] = []
        self._answered: list[tuple[list[ToolCallRequest], int]] = []

    def toolbox(self) -> LocalToolbox:
        """Return the tools; called once for each example."""
        return ToolDag(
            ScriptedTool("quick", sleeps(0.5)),
            ScriptedTool("slow", sleeps(1)),
            ScriptedTool("after", sleeps(0.5), after=["slow", "broken"]),
            ScriptedTool("broken", fails(ValueError("broken"))),
            ScriptedTool("deaf", ignores_cancel(1)),
            ScriptedTool("thread", blocks_thread(1)),
            ScriptedTool("late", blocks_thread(5)),
        ).toolbox()

    def servers(self) -> Sequence[ScriptedMCPServer]:
        """Return the servers that come and go; none without the SDK. Called once for each example."""
        try:
            require_sdk()
        except MissingExtraError:
            return ()
        dying = ScriptedTool("dying", sleeps(0.5).then(fails(ServerDeath())))
        remote = ToolDag(ScriptedTool("remote", sleeps(0.5)), ScriptedTool("hanging", hangs()), dying)
        old = ScriptedMCPServer(
            "old", ToolDag(ScriptedTool("past", sleeps(1))).toolbox(), protocol="2025-11-25"
        )
        return ScriptedMCPServer("new", remote.toolbox()), old

    def make_client(self, model: AsyncBaseProvider) -> AsyncAIClient:
        """Return a client of `model` and `self.tools` that is not open yet."""
        return AsyncAIClient([model], local_toolbox=self.tools, max_concurrency=2, tool_timeout=2.5)

    async def start(self) -> None:
        """Open the client. Never cancelled."""
        self.model: ScriptedProvider = ScriptedProvider(self._reply)
        self.client: AsyncAIClient = self.make_client(self.model)
        self._stack = AsyncExitStack()
        self._background: TaskGroup = await self._stack.enter_async_context(anyio.create_task_group())
        self._open = await self._stack.enter_async_context(AsyncExitStack())
        await self._open.enter_async_context(self.client)

    async def stop(self) -> None:
        """Close the client, and check that nothing is left behind. Never cancelled."""
        await self._stack.aclose()
        for conversation in self._known:
            self._drop(conversation)
        await anyio.sleep(_LONG)
        await wait_for_abandoned_threads()
        if self.failed:
            return
        check_no_leaks(self.client, providers=[self.model], servers=self.mcp_servers)
        for conversation in self._known:
            check_history(conversation.history)
        for batch, outcomes in self._answered:
            if outcomes != len(batch):
                raise InvariantError(f"{len(batch)} calls were answered with {outcomes} outcomes")

    @initialize(target=conversations)
    def start_first_conversation(self) -> Conversation:
        return self._new_conversation()

    @rule(target=conversations)
    def start_conversation(self) -> Conversation:
        """Start a conversation with an empty history."""
        return self._new_conversation()

    @rule(conversation=conversations, data=st.data(), events=st.integers(1, 6))
    async def read(self, conversation: Conversation, data: st.DataObject, events: int) -> None:
        """The consumer takes some events of its turn, however long they take; it starts a turn if needed."""
        self._have_a_turn(conversation, data)
        for _ in range(events):
            with move_on_after(_LONG):
                await self._take(conversation)

    @rule(conversation=conversations, data=st.data(), seconds=_WAITS)
    async def cut_short(self, conversation: Conversation, data: st.DataObject, seconds: float) -> None:
        """The consumer is cancelled while it waits for the next event."""
        self._have_a_turn(conversation, data)
        with move_on_after(seconds):
            while conversation.turn is not None:
                await self._take(conversation)

    @rule(conversation=conversations)
    async def ask_twice(self, conversation: Conversation) -> None:
        """A second turn on the same history is refused while one is live."""
        if conversation.turn is None or not conversation.started or conversation.answered:
            return
        try:
            async with self.client.chat("too early", history=conversation.history):
                raise InvariantError(f"{conversation} took a second turn while one was live")
        except TurnInProgressError:
            pass

    @rule(conversation=conversations, dropped=st.booleans())
    async def leave(self, conversation: Conversation, dropped: bool) -> None:
        """The consumer closes its turn, or forgets it."""
        if dropped:
            self._drop(conversation)
        elif conversation.turn is not None:
            await conversation.turn.aclose()
            conversation.turn = None

    @rule(seconds=_WAITS)
    async def let_time_pass(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    @rule(data=st.data(), stream=st.booleans())
    def run_batch(self, data: st.DataObject, stream: bool) -> None:
        """A batch runs at the same time as the turns."""
        calls = data.draw(batches(self._callable, max_calls=4))
        self._background.start_soon(self._run_batch, calls, stream)

    @rule(data=st.data(), blocked=st.booleans())
    async def block_or_unblock(self, data: st.DataObject, blocked: bool) -> None:
        """A tool is blocked or unblocked; a live turn keeps the tools that its round started with."""
        name = data.draw(st.sampled_from(sorted(tool.name for tool in self._callable.tools)))
        await (self.client.block_tools if blocked else self.client.unblock_tools)([name])

    @rule()
    async def reopen(self) -> None:
        """The client is closed while turns run, and opened again."""
        await self._open.aclose()
        for conversation in self._known:
            if conversation.turn is not None and conversation.started:
                await self._take(conversation)
            conversation.turn = None
        if any(server.connections for server in self.mcp_servers):
            raise InvariantError("an MCP session is still open, though its client is closed")
        if self.model.open_streams:
            raise InvariantError("a model's stream is still open, though its client is closed")
        await self._open.enter_async_context(self.client)

    @invariant()
    async def no_slot_is_lost(self) -> None:
        for _ in range(_ROUNDS):
            if not lost_slots(self.client.stats()):
                return
            await checkpoint()  # a call that has its slot may have to wait for its task to start
        stats = self.client.stats()
        raise InvariantError(f"{lost_slots(stats)} slots are held by no call: {stats}")

    @invariant()
    def settled_histories_are_true(self) -> None:
        for conversation in self._known:
            if conversation.turn is None and not conversation.closing:
                check_history(conversation.history)

    def _new_conversation(self) -> Conversation:
        conversation = Conversation(f"conversation {len(self._known) + 1}")
        self._known.append(conversation)
        return conversation

    def _have_a_turn(self, conversation: Conversation, data: st.DataObject) -> None:
        if conversation.turn is not None:
            return
        query = f"question {len(self._scripts) + 1}"
        self._scripts[query] = data.draw(provider_scripts(self._callable, failing=True))
        history, stream = conversation.history, data.draw(st.booleans())
        conversation.turn = (
            self.client.stream_chat(query, history=history, tool_events=True)
            if stream
            else self.client.chat(query, history=history)
        )
        conversation.streams, conversation.outcomes = stream, 0
        conversation.started = conversation.answered = conversation.closing = False

    async def _take(self, conversation: Conversation) -> None:
        turn = conversation.turn
        if turn is None:
            return
        conversation.started = True
        try:
            event = await anext(turn)
        except (StopAsyncIteration, LLMError, ClientClosedError):
            conversation.turn = None
            return
        conversation.answered = isinstance(event, AssistantMessage)
        if isinstance(event, ToolOutcome):
            conversation.outcomes += 1
        if isinstance(event, ToolMessages):
            self._check_round(conversation, event)
        if isinstance(event, (ToolMessages, AssistantMessage)):
            added = event if isinstance(event, ToolMessages) else [event]
            if not all(any(one is message for message in conversation.history) for one in added):
                raise InvariantError(f"{conversation} got {event!r} before it was in the history")

    def _check_round(self, conversation: Conversation, messages: ToolMessages) -> None:
        calls = sum(isinstance(message, ToolCallRequest) for message in messages)
        if conversation.streams and conversation.outcomes != calls:
            raise InvariantError(
                f"{conversation} got {conversation.outcomes} outcomes in a round of {calls} calls"
            )
        conversation.outcomes = 0

    def _drop(self, conversation: Conversation) -> None:
        if conversation.turn is None:
            return
        conversation.closing = conversation.started
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            conversation.turn = None

    async def _run_batch(self, calls: list[ToolCallRequest], stream: bool) -> None:
        with suppress(ClientClosedError):
            if not stream:
                self._answered.append((calls, len(await self.client.run_tool_calls(calls))))
                return
            async with self.client.run_call_stream(calls) as settled:
                self._answered.append((calls, len([outcome async for outcome in settled])))

    def _reply(self, request: ModelRequest) -> Reply:
        asked = [message for message in request.messages if message.role == "user"]
        script = self._scripts.get(str(asked[-1].content)) if asked else None
        return script.pop(0) if script else says("done")


class _Joined(LocalToolbox):
    """All tools that a model may call, of all toolboxes; of each name the last one."""

    def __init__(self, toolboxes: Iterable[LocalToolbox]) -> None:
        super().__init__()
        self._tools = {
            tool.name: tool
            for toolbox in toolboxes
            for tool in toolbox.tools
            if isinstance(tool, FunctionTool)
        }
