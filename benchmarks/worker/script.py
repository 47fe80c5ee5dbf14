"""What every contestant's model does: a number of rounds of calls, then a text.

An adapter puts it into the form of its own model. The round is found by counting the results in the
messages that the model is shown, so that one model serves many conversations.
"""

from dataclasses import dataclass

import anyio

from .loop import Loop

TEXT = "All done."
TURN_ROUNDS = 3
TURN_CALLS = 5


@dataclass(frozen=True)
class Call:
    id: str
    name: str
    arguments: dict[str, int]
    json: str


class Gate:
    """Where models wait when they are asked a second time, after one round; it counts those that came."""

    def __init__(self) -> None:
        self.waiting = 0
        self.open = anyio.Event()


class Script:
    """`rounds` times `calls` calls of one tool; the model takes `delay` seconds, or waits at a gate."""

    def __init__(
        self, loop: Loop, *, tool: str = "add", calls: int = TURN_CALLS, rounds: int = TURN_ROUNDS
    ) -> None:
        self._loop = loop
        self.delay = 0.0
        self.gate: Gate | None = None
        self._calls = calls
        self._rounds = [
            [Call(f"c{turn}_{n}", tool, {"a": n, "b": 2}, f'{{"a": {n}, "b": 2}}') for n in range(calls)]
            for turn in range(rounds)
        ]

    @property
    def total(self) -> int:
        """How many messages a whole turn's answers come to: calls of all rounds and the text."""
        return sum(len(calls) for calls in self._rounds) + 1

    async def answer(self, results: int) -> list[Call]:
        """The calls of the round after so many results of calls; none where the text is due."""
        turn = results // self._calls
        if self.gate is not None and turn == 1:
            self.gate.waiting += 1
            await self.gate.open.wait()
        else:
            await self._loop.sleep(self.delay)
        return self._rounds[turn] if turn < len(self._rounds) else []
