"""The demo's tools and the script of its model: a weekend in Lisbon, planned by eight calls."""

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial, wraps
from typing import Annotated, Any, ParamSpec, TypeVar

from anyio.lowlevel import EventLoopToken

from seqoria_runtime._execution.streams.hosted import post_to_loop
from seqoria_runtime.models import LLMUsage, ToolCallError, ToolCallResult
from seqoria_runtime.providers import ModelRequest
from seqoria_runtime.testing import Reply, call, calls, says
from seqoria_runtime.toolbox import HIDDEN, LocalToolbox

from .board import Board, DemoCall

P = ParamSpec("P")
T = TypeVar("T")

QUESTION = "Can I have a weekend in Lisbon from Friday, for under 400 dollars?"
USER_ID = "u-1041"
SLOTS = 4

_THOUGHT = (
    "The plan needs the flight, the hotel and the profile; the budget needs the rates. The rest is free."
)
_PLAN = "I will look everything up at once, and put the plan together as soon as its parts are there."

_REQUESTED = (
    call("weather", city="Lisbon"),
    call("flights", to="Lisbon", day="Friday"),
    call("hotels", city="Lisbon", nights=2),
    call("profile", topic="travel"),
    call("rates", base="EUR", to="USD"),
    call("seats", flight="TP 531"),
    call("budget", limit=400),
    call("plan", city="Lisbon"),
)
# In the model's order; the runtime starts calls with dependents first.
_WAITS_FOR = {"budget": ("rates",), "plan": ("flights", "hotels", "profile")}


def planned_calls() -> list[DemoCall]:
    return [DemoCall(one.name, _WAITS_FOR.get(one.name, ())) for one in _REQUESTED]


def script(every: float) -> Sequence[Reply | Callable[[ModelRequest], Reply]]:
    """Return the model's replies; a word takes `every` seconds."""
    asks = calls(
        *_REQUESTED,
        text=_PLAN,
        chunks=_words(_PLAN),
        thinking=_THOUGHT,
        usage=LLMUsage(prompt_tokens=412, completion_tokens=138, total_tokens=550),
        delay=every,
        every=every,
    )
    return [asks, partial(_answer, every)]


def _answer(every: float, request: ModelRequest) -> Reply:
    results = {one.name: one.result for one in request.messages if isinstance(one, ToolCallResult)}
    failures = {one.name: one.kind for one in request.messages if isinstance(one, ToolCallError)}
    if "plan" in results:
        plan = json.loads(results["plan"])
        text = f"{plan['flight']} and {plan['hotel']} come to {plan['eur']} euros, {plan['seat']} seat. "
    else:
        text = "I could not put a plan together. "
    if failures:
        listed = ", ".join(f"{name} ({kind.replace('_', ' ')})" for name, kind in failures.items())
        text += f"I have no answer from {listed}, so check these yourself."
    usage = LLMUsage(prompt_tokens=871, completion_tokens=49, total_tokens=920)
    return says(text, chunks=_words(text), usage=usage, delay=4 * every, every=every)


def _words(text: str) -> list[str]:
    words = text.split(" ")
    return [f"{word} " for word in words[:-1]] + [words[-1]]


class Weekend:
    """The functions behind the tools. `sleep` suspends a task, and `block` a thread, for some seconds."""

    def __init__(self, sleep: Callable[[float], Awaitable[object]], block: Callable[[float], object]) -> None:
        self._sleep = sleep
        self._block = block
        self._parts: dict[str, Any] = {}

    async def weather(self, city: str) -> str:
        """Tell the weather of the weekend."""
        await self._sleep(0.5)
        return f"{city}: 18 degrees, showers on Sunday"

    async def flights(self, to: str, day: str) -> dict[str, Any]:
        """Find a flight."""
        await self._sleep(1.1)
        self._parts |= {"flight": "TP 531", "flight_eur": 146}
        return {"flight": "TP 531", "to": to, "day": day, "leaves": "17:50", "eur": 146}

    async def hotels(self, city: str, nights: int) -> dict[str, Any]:
        """Find a hotel."""
        await self._sleep(0.8)
        self._parts |= {"hotel": "Casa do Largo", "hotel_eur": 89 * nights}
        return {"hotel": "Casa do Largo", "city": city, "eur": 89 * nights}

    async def profile(self, topic: str, user_id: Annotated[str, HIDDEN]) -> dict[str, str]:
        """Look up what the user likes."""
        await self._sleep(0.4)
        self._parts["seat"] = {USER_ID: "aisle"}.get(user_id, "any")
        return {"topic": topic, "seat": self._parts["seat"]}

    async def rates(self, base: str, to: str) -> float:
        """Tell an exchange rate."""
        await self._sleep(0.6)
        raise ConnectionError(f"the {base}/{to} service closed the connection")

    def seats(self, flight: str) -> str:
        """Draw the seat map, by a library that blocks its thread."""
        self._block(2.0)
        return f"{flight}: 12C is free"

    async def budget(self, limit: int) -> str:
        """Check the budget, which is in dollars."""
        return f"within {limit} dollars"

    async def plan(self, city: str) -> dict[str, Any]:
        """Put together what flights, hotels and profile found."""
        await self._sleep(0.7)
        parts = self._parts
        total = parts["flight_eur"] + parts["hotel_eur"]
        return {"city": city, "flight": parts["flight"], "hotel": parts["hotel"], "eur": total} | {
            "seat": parts["seat"]
        }


def make_toolbox(weekend: Weekend, board: Board, token: EventLoopToken, *, timeout: float) -> LocalToolbox:
    """Return the tools, which report to `board`. `timeout` is that of the blocking one, in seconds."""
    tools = LocalToolbox()
    functions: Sequence[Callable[..., Awaitable[Any]]] = (
        *(weekend.weather, weekend.flights, weekend.hotels, weekend.profile, weekend.rates),
        *(weekend.budget, weekend.plan),
    )
    for function in functions:
        tools.add(_reporting(function, board), depends_on=_WAITS_FOR.get(function.__name__, ()))
    tools.add(_reporting_thread(weekend.seats, board, token), timeout=timeout)
    return tools


def _reporting(function: Callable[P, Awaitable[T]], board: Board) -> Callable[P, Awaitable[T]]:
    @wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        board.started(run.__name__, kwargs, in_thread=False)
        return await function(*args, **kwargs)

    return run


def _reporting_thread(function: Callable[P, T], board: Board, token: EventLoopToken) -> Callable[P, T]:
    variables = copy_context()  # in the thread's own, the board's clock would not know the loop

    def post(report: Callable[[], None]) -> None:
        post_to_loop(token, partial(variables.run, _call, report), otherwise=_nothing)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        post(partial(board.started, run.__name__, kwargs, in_thread=True))
        try:
            return function(*args, **kwargs)
        finally:
            post(partial(board.thread_ended, run.__name__))

    return run


def _call(report: Callable[[], None]) -> None:
    # Nothing could catch it here, and it would end a trio program; the next line of the turn raises it again.
    with suppress(BrokenPipeError):
        report()


def _nothing() -> None:
    pass
