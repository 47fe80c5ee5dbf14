"""Read a stream with httpx alone: the floor of streamed deltas."""

import httpx

from benchmarks.worker.adapter import Adapter
from benchmarks.worker.loop import Run

DISTRIBUTIONS = ("httpx",)


class LinesAdapter(Adapter):
    """`variant` is `lines`, or `bytes` for the raw pieces as httpx yields them."""

    async def stream(self, url: str) -> Run:
        http = await self.stack.enter_async_context(httpx.AsyncClient())

        async def run() -> int:
            async with http.stream("POST", f"{url}/chat/completions", json={}) as response:
                if self.variant == "bytes":
                    return sum([piece.count(b"data: ") async for piece in response.aiter_raw()])
                return sum([1 async for line in response.aiter_lines() if line])

        return run


ADAPTER = LinesAdapter
