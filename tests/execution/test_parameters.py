"""Where hidden values come from, in which order, and what is said when they do not."""

import contextvars
import functools
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio import get_cancelled_exc_class
from pydantic import BaseModel

from seqoria_runtime._base.tools import HiddenParameter, ToolFailure
from seqoria_runtime._execution.calls.hidden_parameters import resolve_hidden
from seqoria_runtime._execution.calls.threads import run_in_thread
from seqoria_runtime.client.parameters import ParameterRegistry

USER = HiddenParameter("user_id", required=True)
TENANT = HiddenParameter("tenant", required=True)
LOCALE = HiddenParameter("locale", required=False)
SECRET = "secret-" + str(731)

request_id = contextvars.ContextVar("request_id", default="none")


async def resolve(
    *parameters: HiddenParameter,
    context: Mapping[str, Any] | None = None,
    registry: Mapping[Any, Any] | None = None,
    run_sync: Callable[[Callable[[], Any]], Awaitable[Any]] = run_in_thread,
) -> dict[str, Any]:
    return await resolve_hidden(
        parameters,
        context=context or {},
        registry=None if registry is None else ParameterRegistry(registry),
        run_sync=run_sync,
        tool_name="pay",
    )


class AddressInfo(BaseModel):
    street: str


class Session:
    def __init__(self, user_id: str) -> None:
        self.user_id = user_id

    def current(self, tenant: str) -> str:
        return f"{self.user_id}@{tenant}"

    def __call__(self, tenant: str) -> str:
        return f"{self.user_id} called by {tenant}"


class AsyncSession:
    async def __call__(self, tenant: str) -> str:
        return f"async {tenant}"


@pytest.mark.clause("C71", "C72")
async def test_the_context_beats_the_registry_and_its_none_is_a_value() -> None:
    asked: list[str] = []

    def callback() -> str:
        asked.append("callback")
        return "registry"

    registry = {"user_id": callback, "tenant": "literal"}
    assert await resolve(USER, TENANT, context={"user_id": None}, registry=registry) == {
        "user_id": None,
        "tenant": "literal",
    }
    assert asked == []
    assert await resolve(USER, registry=registry) == {"user_id": "registry"}


@pytest.mark.clause("C71")
async def test_values_arrive_as_the_objects_that_their_sources_gave() -> None:
    given, literal, made = object(), [object()], Session("u1")
    registry = {"tenant": literal, "locale": lambda: made}
    values = await resolve(USER, TENANT, LOCALE, context={"user_id": given}, registry=registry)
    assert values["user_id"] is given
    assert values["tenant"] is literal
    assert values["locale"] is made


async def later(tenant: str) -> str:
    await anyio.sleep(3600)
    return f"later {tenant}"


def returns_awaitable(tenant: str) -> Any:
    return later(tenant)


@pytest.mark.clause("C71", "C76")
@pytest.mark.parametrize(
    ("callback", "value"),
    [
        (lambda tenant: f"lambda {tenant}", "lambda t1"),
        (later, "later t1"),
        (functools.partial(later, tenant="bound"), "later t1"),
        (functools.partial(later, "bound"), "later bound"),
        (returns_awaitable, "later t1"),
        (Session("u1").current, "u1@t1"),
        (Session("u1"), "u1 called by t1"),
        (AsyncSession(), "async t1"),
        (lambda **context: sorted(context), ["secret", "tenant"]),
        (lambda *args: len(args), 0),
        (lambda tenant, *, other="default": f"{tenant} {other}", "t1 default"),
        (lambda tenant="own", secret=None, /: f"{tenant}", "own"),
        (dict, dict),
        (Session, Session),
        (AddressInfo, AddressInfo),
        (0, 0),
        ("", ""),
    ],
)
async def test_a_callback_gets_the_context_that_it_names_and_anything_else_is_a_literal(
    callback: Any, value: Any
) -> None:
    context = {"tenant": "t1", "secret": 1}
    assert await resolve(USER, context=context, registry={"user_id": callback}) == {"user_id": value}
    assert await ParameterRegistry({"user_id": callback}).resolve("user_id", context=context) == value


@pytest.mark.clause("C71")
async def test_a_model_class_as_key_stands_for_its_name_with_a_small_letter() -> None:
    address = AddressInfo(street="Main")
    registry = ParameterRegistry({AddressInfo: lambda: address})
    assert "addressInfo" in registry
    assert await registry.resolve("addressInfo", context={}) is address


@pytest.mark.parametrize(
    ("mapping", "error", "message"),
    [
        ({AddressInfo: 1, "addressInfo": 2}, ValueError, "two keys for the parameter 'addressInfo'"),
        ({1: 1}, TypeError, "a name or a pydantic model class, not 1"),
        ({"": 1}, TypeError, "a name or a pydantic model class, not ''"),
        ({Session: 1}, TypeError, "a name or a pydantic model class, not <class"),
        ([("user_id", 1)], TypeError, "takes a mapping, not list"),
        (
            {"user_id": lambda tenant, /: tenant},
            TypeError,
            "'user_id' needs the positional argument 'tenant'",
        ),
    ],
)
def test_wrong_keys_and_callbacks_are_refused_at_construction(
    mapping: dict[Any, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ParameterRegistry(mapping)


async def test_the_registry_keeps_to_the_mapping_as_it_was() -> None:
    mapping: dict[Any, Any] = {"user_id": "u1"}
    registry = ParameterRegistry(mapping)
    mapping.clear()
    assert await registry.resolve("user_id", context={}) == "u1"
    assert await registry.resolve("user_id", context={"user_id": "context"}) == "context"
    assert await registry.resolve("nothing", context={}) is None


@pytest.mark.clause("C73", "C42")
async def test_missing_values_fail_the_call_with_all_their_names_before_any_callback_is_asked() -> None:
    asked: list[str] = []
    registry = {"role": lambda: asked.append("role")}
    with pytest.raises(ToolFailure) as caught:
        await resolve(USER, HiddenParameter("role", required=True), TENANT, LOCALE, registry=registry)
    assert caught.value.kind == "missing_parameter"
    assert str(caught.value) == (
        "Tool 'pay' failed: Missing server-populated parameters for tool 'pay': tenant, user_id"
    )
    assert asked == []
    with pytest.raises(ToolFailure, match=r"parameters for tool 'pay': user_id$"):
        await resolve(USER)


@pytest.mark.clause("C72")
async def test_a_literal_none_is_a_value_as_in_the_context() -> None:
    assert await resolve(USER, LOCALE, registry={"user_id": None}) == {"user_id": None}
    assert await ParameterRegistry({"user_id": None}).resolve("user_id", context={}) is None


@pytest.mark.clause("C73")
async def test_a_callback_that_says_none_has_no_value() -> None:
    registry = {"user_id": lambda: None, "locale": lambda: None}
    assert await resolve(LOCALE, registry=registry) == {}
    with pytest.raises(ToolFailure, match="Missing server-populated parameters for tool 'pay': user_id"):
        await resolve(LOCALE, USER, registry=registry)


def fail(tenant: str) -> str:
    raise PermissionError(f"{tenant} is not allowed")


async def fail_later(tenant: str) -> str:
    await anyio.sleep(1)
    raise PermissionError(f"{tenant} is not allowed")


def want_more(tenant: str, role: str) -> str:
    return tenant + role


@pytest.mark.clause("C73")
@pytest.mark.parametrize(
    ("callback", "kind"),
    [(fail, "PermissionError"), (fail_later, "PermissionError"), (want_more, "TypeError")],
)
@pytest.mark.parametrize(
    "parameter", [USER, HiddenParameter("user_id", required=False)], ids=["required", "optional"]
)
async def test_a_failing_callback_fails_the_call_by_name_and_class_and_never_by_value(
    callback: Any, kind: str, parameter: HiddenParameter, caplog: pytest.LogCaptureFixture
) -> None:
    context = {"tenant": SECRET}
    with pytest.raises(ToolFailure) as caught:
        await resolve(parameter, context=context, registry={"user_id": callback})
    assert caught.value.kind == "missing_parameter"
    assert str(caught.value) == f"Tool 'pay' failed: Parameter 'user_id' failed to resolve: {kind}"
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"'user_id' failed to resolve: {kind} at /" in record.getMessage()
    assert SECRET not in caplog.text
    assert await ParameterRegistry({"user_id": callback}).resolve("user_id", context=context) is None


@pytest.mark.clause("C76", "C37")
@pytest.mark.case("D1")
async def test_sync_callbacks_run_in_a_thread_with_the_callers_context_and_async_ones_in_its_task() -> None:
    def sync_callback() -> Any:
        seen = request_id.get(), threading.current_thread() is threading.main_thread()
        request_id.set("changed")
        return seen

    async def async_callback() -> Any:
        return (
            request_id.get(),
            threading.current_thread() is threading.main_thread(),
            anyio.get_current_task().id,
        )

    request_id.set("r1")
    values = await resolve(USER, TENANT, registry={"user_id": sync_callback, "tenant": async_callback})
    assert values == {"user_id": ("r1", False), "tenant": ("r1", True, anyio.get_current_task().id)}
    assert request_id.get() == "r1"


@pytest.mark.clause("C76")
async def test_sync_callbacks_alone_are_run_by_what_the_executor_gives_one_after_the_other() -> None:
    running: list[str] = []
    most: list[int] = []

    async def run_sync(function: Callable[[], Any]) -> Any:
        running.append("one")
        most.append(len(running))
        await anyio.lowlevel.checkpoint()
        running.pop()
        return function()

    registry = {"user_id": lambda: 1, "tenant": lambda: 2, "locale": lambda: 3}
    values = await resolve(USER, TENANT, LOCALE, registry=registry, run_sync=run_sync)
    assert values == {"user_id": 1, "tenant": 2, "locale": 3}
    assert most == [1, 1, 1]
    assert await resolve(USER, context={"tenant": "t1"}, registry={"user_id": later}, run_sync=run_sync)
    assert len(most) == 3


@pytest.mark.clause("C53", "C76")
async def test_a_cancellation_goes_through_a_callback_untouched_and_unlogged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended: list[type[BaseException]] = []

    async def hang() -> None:
        try:
            await anyio.sleep_forever()
        except BaseException as error:
            ended.append(type(error))
            raise

    with anyio.move_on_after(5) as scope:
        await resolve(USER, registry={"user_id": hang})
    assert scope.cancelled_caught
    assert ended == [get_cancelled_exc_class()]
    assert caplog.records == []


@pytest.mark.clause("C53")
async def test_what_is_no_exception_goes_through_a_callback_untouched() -> None:
    def stop() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await resolve(USER, registry={"user_id": stop})


@pytest.mark.clause("C5", "C71")
async def test_requests_with_different_contexts_never_mix() -> None:
    registry = ParameterRegistry({"user_id": later})
    results: dict[str, Any] = {}

    async def one(tenant: str) -> None:
        results[tenant] = await resolve_hidden(
            [USER], context={"tenant": tenant}, registry=registry, run_sync=run_in_thread, tool_name="pay"
        )

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, f"t{number}")
    assert results == {f"t{number}": {"user_id": f"later t{number}"} for number in range(20)}
