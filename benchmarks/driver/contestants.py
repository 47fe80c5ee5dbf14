"""The contestants: pinned peers, floors and the runtime, each with its module and event loop."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["runtime", "floor", "peer", "reader"]
LOOPS = ("asyncio", "uvloop", "trio")
OWN = "own"  # The environment that the driver itself runs in.
PLAIN = "seqoria_runtime"  # What the package requires and no more.

_PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]

# What each environment installs, and the import of an application that is weighed.
ENVIRONMENTS: dict[str, tuple[tuple[str, ...], str]] = {
    PLAIN: (tuple(_PROJECT["dependencies"]), "from seqoria_runtime import AsyncAIClient, LocalToolbox"),
    "seqoria-agent": (("seqoria-agent==0.9.2",), "from seqoria_agent import AsyncAIClient, LocalToolbox"),
    "openai-agents": (("openai-agents==0.24.0",), "from agents import Agent, Runner"),
    "pydantic-ai": (("pydantic-ai-slim[openai]==2.68.0",), "from pydantic_ai import Agent"),
    "langgraph": (
        ("langgraph==1.2.22", "langchain-openai==1.7.4"),
        "from langgraph.graph import StateGraph; from langgraph.prebuilt import ToolNode",
    ),
    "strands": (("strands-agents[openai]==1.62.0",), "from strands import Agent"),
    "google-adk": (
        ("google-adk==2.13.0",),
        "from google.adk.agents import LlmAgent; from google.adk.runners import InMemoryRunner",
    ),
    "agno": (("agno==3.1.10", "openai==3.57.0"), "from agno.agent import Agent"),
}


@dataclass(frozen=True)
class Contestant:
    """`family` is its name without the event loop."""

    family: str
    loop: str
    kind: Kind
    module: str
    variant: str = "-"
    environment: str = OWN

    @property
    def name(self) -> str:
        return self.family if self.kind == "peer" else f"{self.family}, {self.loop}"


def _peer(family: str, module: str) -> Contestant:
    return Contestant(family, "asyncio", "peer", f"benchmarks.peers.{module}", environment=family)


CONTESTANTS: tuple[Contestant, ...] = (
    *(Contestant("seqoria_runtime", loop, "runtime", "benchmarks.contestants.runtime") for loop in LOOPS),
    *(
        Contestant(family, loop, "floor", "benchmarks.contestants.floors", variant)
        for family, variant in (("task group", "tasks"), ("workers", "workers"), ("anyio", "anyio"))
        for loop in LOOPS
    ),
    _peer("seqoria-agent", "seqoria_agent"),
    _peer("openai-agents", "openai_agents"),
    _peer("pydantic-ai", "pydantic_ai"),
    _peer("langgraph", "langgraph"),
    _peer("strands", "strands"),
    _peer("google-adk", "google_adk"),
    _peer("agno", "agno"),
    *(
        Contestant(f"httpx {variant}", loop, "reader", "benchmarks.contestants.lines", variant)
        for variant in ("lines", "bytes")
        for loop in LOOPS
    ),
    Contestant("openai SDK", "asyncio", "reader", "benchmarks.peers.openai_sdk", environment="openai-agents"),
)
