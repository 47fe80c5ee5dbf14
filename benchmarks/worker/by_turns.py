"""Run a batch as a turn of one round and a text, for contestants that run tool calls only in a turn."""

from .adapter import CAP, Adapter
from .loop import Run
from .script import Script


class ByTurnsAdapter(Adapter):
    how_batches_run = "a turn of one round, and its text"

    async def batch(self, tool: str, count: int, cap: int | None = CAP) -> Run:
        turn = await self.turn(Script(self.loop, tool=tool, calls=count, rounds=1), tool, cap)

        async def run() -> int:
            return await turn() - 1

        return run

    async def turn(self, script: Script, tool: str = "add", cap: int | None = CAP) -> Run:
        raise self.refuse("turn")
