"""The script of every contestant's model: a number of rounds of calls, then a text.

An adapter turns it into a model of its library. The number of results in the messages says which
round it is, so one model serves many conversations.
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
    """Holds models at their second request, after one round, and counts them."""

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
        """Return the number of a turn's answers: the calls of all rounds and the text."""
        return sum(len(calls) for calls in self._rounds) + 1

    async def answer(self, results: int) -> list[Call]:
        """Return the calls that follow so many results; none when the text is due."""
        turn = results // self._calls
        if self.gate is not None and turn == 1:
            self.gate.waiting += 1
            await self.gate.open.wait()
        else:
            await self._loop.sleep(self.delay)
        return self._rounds[turn] if turn < len(self._rounds) else []
