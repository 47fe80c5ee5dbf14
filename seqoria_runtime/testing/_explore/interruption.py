"""Owns what happens to a scenario at one point of its run: a cancellation, an action, or a failure.

Knows nothing of which points there are; `_everywhere` goes through them.
"""

import inspect
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, TypeVar

import anyio
from anyio import CancelScope, Event, TaskInfo, get_current_task

from seqoria_runtime.providers import AsyncBaseProvider
from seqoria_runtime.testing._clock.deadlock import place

from .faulty_provider import FaultyProvider
from .token import Site

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

FAIL = "fail"
CANCELLATIONS = ("scope", "deadline", "native")


class InjectedError(Exception):
    """What `fail_everywhere` raises unless it is told otherwise."""


class SwallowedCancellationError(AssertionError):
    """The code under test kept a native cancellation of its task to itself."""


class Interruption:
    """What a scenario of `cancel_everywhere` or `fail_everywhere` is given.

    The scenario puts the code under test into `async with interruption.region():`, names the actions
    by which it can be ended (`on`), and passes the places where its own parts may fail (`passing`,
    `faulty`, `provider`). `fired` tells whether it has been interrupted by now.
    """

    def __init__(self, site: Site | None, *, error: Callable[[], BaseException] = InjectedError) -> None:
        self._site = site
        self._error = error
        self._counting = False
        self._strike: Callable[[], object] | None = None
        self._actions: dict[str, Callable[[], object]] = {}
        self._task: TaskInfo | None = None
        self._acted = Event()
        self._waiting_action: Awaitable[object] | None = None
        self.points = 0
        self.times: list[float] = []
        self.passages: list[str] = []
        self.fired = False
        self.where = ""

    @property
    def form(self) -> str | None:
        """In which way this run is interrupted; `None` for the run that counts the points."""
        return None if self._site is None else self._site.form

    @asynccontextmanager
    async def region(self) -> AsyncGenerator[None]:
        """The code to interrupt: the points in it are counted, and at one of them it happens.

        Swallows the cancellation that it makes, as a cancel scope does. One at a time, and in one task.
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
        """Name what ends the code under test: `interruption.on(aclose=turn.aclose)` for the form "aclose".

        An action is called at the point, between two tasks. What it returns is awaited, if it can be,
        in a task of its own, which goes next. A name that is given again replaces the action.
        """
        self._actions.update(actions)

    def passing(self, words: str) -> None:
        """Say that the scenario comes to a place where a part of it may fail; raises if it has to here."""
        self.passages.append(words)
        if self._site is not None and fails(self._site.form) and len(self.passages) == self._site.at:
            self.fired = True
            self.where = f"as it passed {words!r}"
            raise self._error()

    def faulty(self, function: F) -> F:
        """A function, sync or async, that may fail before it begins and after its end."""
        name = getattr(function, "__name__", type(function).__name__)

        @wraps(function)
        def in_thread(*args: Any, **kwargs: Any) -> Any:
            self.passing(f"{name} begins")
            value = function(*args, **kwargs)
            self.passing(f"{name} ends")
            return value

        @wraps(function)
        async def in_loop(*args: Any, **kwargs: Any) -> Any:
            self.passing(f"{name} begins")
            value = await function(*args, **kwargs)
            self.passing(f"{name} ends")
            return value

        wrapped: Any = in_loop if inspect.iscoroutinefunction(function) else in_thread
        return wrapped  # type: ignore[no-any-return]

    def provider(self, model: AsyncBaseProvider) -> AsyncBaseProvider:
        """A model that may fail as it is asked, at each of its events, and at its end."""
        return FaultyProvider(model, self.passing)

    def at_step(self, now: float) -> bool:
        """Take note that a step comes (called by the event loop); strike if this is the point.

        Gives whether the task that was woken has to go first.
        """
        if not self._counting:
            return False
        self.points += 1
        if self._site is None:
            if not self.times or self.times[-1] != now:
                self.times.append(now)
            return False
        return self.points == self._site.at and self._fire(now)

    async def run(self, scenario: Callable[["Interruption"], Awaitable[T]]) -> T:
        """Run the scenario, and the action that ends it, if that takes a task."""
        failures: list[BaseException] = []
        async with anyio.create_task_group() as group:

            async def act() -> None:
                try:
                    await self._act()
                except Exception as exc:  # noqa: BLE001 - the group must not wrap it
                    failures.append(exc)
                    group.cancel_scope.cancel()

            if self._site is not None and not is_own_form(self._site.form):
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
        return self._site.at if self._site is not None and self.form == "deadline" else math.inf

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
        from .native_cancellation import NativeCancellation

        native = NativeCancellation()
        self._strike = native.strike
        raised: BaseException | None = None
        try:
            yield
        except BaseException as exc:  # noqa: BLE001 - it is looked at, and raised again if it is not ours
            raised = exc
        self._counting = False
        if not self.fired:
            if raised is not None:
                raise raised
            return
        if native.was_swallowed(raised):
            raise SwallowedCancellationError(
                f"the task was cancelled natively {self.where}, and the code went on as if it was not"
            )
        if raised is not None and not isinstance(raised, anyio.get_cancelled_exc_class()):
            raise raised


def fails(form: str) -> bool:
    """Whether a form is an injected failure: "fail", or "fail2" for the second kind of error, and so on."""
    return form.startswith(FAIL) and (form == FAIL or form.removeprefix(FAIL).isdecimal())


def is_own_form(form: str) -> bool:
    """Whether a form is one of the kit's own, and not the name of an action."""
    return form in CANCELLATIONS or fails(form)
