"""Interrupts a scenario at one point of its run: by a cancellation, an action, or a failure."""

import asyncio
import inspect
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import wraps
from typing import Any, Final, TypeVar

import anyio
from anyio import CancelScope, Event, TaskInfo, get_current_task

from seqoria_runtime.providers import AsyncBaseProvider, ModelRequest, ProviderEvent
from seqoria_runtime.testing._clock.deadlock import place

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

FAIL = "fail"
CANCELLATIONS = ("scope", "deadline", "native")


class InjectedError(Exception):
    """What `fail_everywhere` raises by default."""


class SwallowedCancellationError(AssertionError):
    """The code under test swallowed a native cancellation of its task."""


class Interruption:
    """The argument of a scenario of `cancel_everywhere` or `fail_everywhere`.

    The scenario puts the code under test into `async with interruption.region():`, names the actions
    that can end it (`on`), and marks the places where its own parts may fail (`passing`, `faulty`,
    `provider`). `fired` is whether it has been interrupted by now.
    """

    def __init__(
        self,
        form: str | None = None,
        at: float = math.inf,
        *,
        error: Callable[[], BaseException] = InjectedError,
    ) -> None:
        self.form: Final = form
        """How this run is interrupted; `None` for the run that counts the points."""
        self._at = at
        self._error = error
        self._counting = False
        self._strike: Callable[[], object] | None = None
        self._actions: dict[str, Callable[[], object]] = {}
        self._task: TaskInfo | None = None
        self._acted = Event()
        self._waiting_action: Awaitable[object] | None = None
        self.points: int = 0
        self.times: list[float] = []
        self.passages: list[str] = []
        self.fired: bool = False
        self.where: str = ""

    @asynccontextmanager
    async def region(self) -> AsyncGenerator[None]:
        """Count the points of the body, and interrupt it at one of them.

        Swallows its own cancellation, as a cancel scope does; any other passes through. Use one region
        at a time, in one task.
        """
        self._task = get_current_task()
        self._counting = True
        try:
            if self.form == "native":
                async with self._natively():
                    yield
            else:
                with CancelScope(deadline=self._deadline()) as scope:
                    self._strike = scope.cancel if self.form == "scope" else None
                    yield
                self.fired = self.fired or scope.cancel_called
        finally:
            self._counting = False

    def on(self, **actions: Callable[[], object]) -> None:
        """Name an action that ends the code under test: `on(aclose=turn.aclose)` for the form "aclose".

        It is called at the point, between two tasks. If it returns an awaitable, a new task awaits that,
        and goes next. A repeated name replaces the action.
        """
        self._actions.update(actions)

    def passing(self, words: str) -> None:
        """Mark a place, described by `words`, where the scenario may fail; raises if it is to fail here."""
        self.passages.append(words)
        if self.form is not None and fails(self.form) and len(self.passages) == self._at:
            self.fired = True
            self.where = f"as it passed {words!r}"
            raise self._error()

    def faulty(self, function: F) -> F:
        """Return a function, sync or async, that may fail before it starts and after its end."""
        name = getattr(function, "__name__", type(function).__name__)

        @wraps(function)
        def in_thread(*args: Any, **kwargs: Any) -> Any:
            self.passing(f"{name} starts")
            value = function(*args, **kwargs)
            self.passing(f"{name} ends")
            return value

        @wraps(function)
        async def in_loop(*args: Any, **kwargs: Any) -> Any:
            self.passing(f"{name} starts")
            value = await function(*args, **kwargs)
            self.passing(f"{name} ends")
            return value

        wrapped: Any = in_loop if inspect.iscoroutinefunction(function) else in_thread
        return wrapped  # type: ignore[no-any-return]

    def provider(self, model: AsyncBaseProvider) -> AsyncBaseProvider:
        """Return a model that may fail on a request, at each of its events, and at its end."""
        return _FaultyProvider(model, self.passing)

    def at_step(self, now: float) -> bool:
        """Count a step, for the event loop, and interrupt if this is the point.

        Returns whether the task that it woke has to go first.
        """
        if not self._counting:
            return False
        self.points += 1
        if self.form is None:
            if not self.times or self.times[-1] != now:
                self.times.append(now)
            return False
        return self.points == self._at and self._fire(now)

    async def run(self, scenario: Callable[["Interruption"], Awaitable[T]]) -> T:
        """Run the scenario, and the action that ends it if that takes a task. Passes a cancellation on."""
        failures: list[BaseException] = []
        async with anyio.create_task_group() as group:

            async def act() -> None:
                try:
                    await self._act()
                except Exception as exc:  # noqa: BLE001 - the group must not wrap it
                    failures.append(exc)
                    group.cancel_scope.cancel()

            if self.form is not None and not is_own_form(self.form):
                group.start_soon(act, name="the action")
            try:
                value = await scenario(self)
            except BaseException as exc:  # noqa: BLE001 - the group must not wrap it
                failures.append(exc)
            if self._waiting_action is None:
                group.cancel_scope.cancel()
        if failures:
            raise failures[0]
        return value

    def _deadline(self) -> float:
        return self._at if self.form == "deadline" else math.inf

    def _fire(self, now: float) -> bool:
        strike = self._strike or self._actions.get(self.form or "")
        if strike is None or self._task is None:
            return False
        self.fired = True
        self.where = f"at {now:g} s, as the scenario waited in {place(self._task.coro)}"
        result = strike()
        if not inspect.isawaitable(result):
            return False
        self._waiting_action = result
        self._acted.set()
        return True

    async def _act(self) -> None:
        await self._acted.wait()
        assert self._waiting_action is not None
        await self._waiting_action

    @asynccontextmanager
    async def _natively(self) -> AsyncGenerator[None]:
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        self._strike = task.cancel
        raised: BaseException | None = None
        try:
            yield
        except BaseException as exc:  # noqa: BLE001 - raised again below, unless it is our cancellation
            raised = exc
        self._counting = False
        if not self.fired:
            if raised is not None:
                raise raised
            return
        while task.cancelling() > before:
            task.uncancel()
        # The next step after the request raised it in the task, so it has to have come out of the code.
        if raised is None:
            raise SwallowedCancellationError(
                f"the task was cancelled natively {self.where}, and the code went on as if it was not"
            )
        if not isinstance(raised, anyio.get_cancelled_exc_class()):
            raise raised


class _FaultyProvider(AsyncBaseProvider):
    """Passes on the events of `model`; calls `passing` with each place, which may raise."""

    def __init__(self, model: AsyncBaseProvider, passing: Callable[[str], None]) -> None:
        self._model = model
        self._passing = passing

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        self._passing(f"{self.name} is asked")
        async with aclosing(self._events(request)) as events:
            async for event in events:
                self._passing(f"{self.name} sends {type(event).__name__}")
                yield event  # noqa: ASYNC119 - the runtime closes a provider's stream in the task that reads it
        self._passing(f"{self.name} has answered")

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        events = self._model.stream(request)
        try:
            async for event in events:
                yield event
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()


def fails(form: str) -> bool:
    """Return whether a form is an injected failure: "fail", or "fail2" for the second kind of error, ..."""
    return form.startswith(FAIL) and (form == FAIL or form.removeprefix(FAIL).isdecimal())


def is_own_form(form: str) -> bool:
    """Return whether a form is built in, and not the name of an action."""
    return form in CANCELLATIONS or fails(form)
