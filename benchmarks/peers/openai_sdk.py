"""The openai SDK alone; several peers read streams with it."""

from openai import AsyncOpenAI

from benchmarks.worker.adapter import Adapter
from benchmarks.worker.loop import Run

DISTRIBUTIONS = ("openai",)


class OpenAISDKAdapter(Adapter):
    async def stream(self, url: str) -> Run:
        client = AsyncOpenAI(base_url=url, api_key="none")

        async def run() -> int:
            stream = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "q"}], stream=True
            )
            return sum([1 async for _ in stream])

        return run


ADAPTER = OpenAISDKAdapter
