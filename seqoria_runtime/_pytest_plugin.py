"""The pytest plugin of the testing kit: its markers, its fixtures and `--replay`.

It loads nothing of the kit before a test uses it, and leaves all other tests alone.
"""

import functools
import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from seqoria_runtime.testing import Backend, Interruption

VIRTUAL_TIME = "virtual_time"
EXPLORE = "explore"
CANCEL = "cancel_everywhere"
FAIL = "fail_everywhere"

_BACKEND = "anyio_backend"
_BACKENDS = ("asyncio", "trio")
_INSTALLED = _BACKENDS if find_spec("trio") else _BACKENDS[:1]
_MARKERS = {
    VIRTUAL_TIME: "(backends=('asyncio', 'trio')): run the asynchronous test in virtual time, on each",
    EXPLORE: "(schedules=100, backends=..., ...): run it in many orders of its tasks; options of `explore`",
    CANCEL: "(backends=..., ...): cancel it at each of its steps; options of `cancel_everywhere`",
    FAIL: "(backends=..., ...): fail it at each marked place; options of `fail_everywhere`",
}
_USES = pytest.mark.usefixtures(_BACKEND).mark
_DEFAULT_SCHEDULES = 100
_OTHERS = {"asyncio": "pytest-asyncio", "trio": "pytest-trio"}
_TEST: pytest.StashKey[Callable[..., Any]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("seqoria_runtime")
    with suppress(ValueError):  # another plugin has an option of this name, and keeps it
        group.addoption(
            "--replay",
            metavar="TOKEN",
            default=None,
            help="run explored or interrupted tests only once, as the token of a failure says",
        )


def pytest_configure(config: pytest.Config) -> None:
    for name, text in _MARKERS.items():
        config.addinivalue_line("markers", f"{name}{text}")


@pytest.fixture(params=_INSTALLED)
def virtual_time_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """asyncio and, if it is installed, trio, in virtual time, as `anyio_backend` takes them."""
    from seqoria_runtime.testing import virtual_backend

    return virtual_backend(request.param)


@pytest.fixture
def interruption() -> "Interruption":
    """The interruption of a test marked `cancel_everywhere` or `fail_everywhere`; no effect elsewhere."""
    from seqoria_runtime.testing import Interruption

    return Interruption()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: Any) -> None:
    if not collector.istestfunction(obj, name):
        return
    own = list(getattr(obj, "pytestmark", ()))
    mark = next((mark for mark in (*own, *collector.iter_markers()) if mark.name in _MARKERS), None)
    if mark is None or _USES in own:  # a function may be collected for several classes
        return
    if not _is_asynchronous(obj):
        if mark in own:
            pytest.fail(f"{name} is marked {mark.name!r}, but is not an asynchronous function", pytrace=False)
        return
    # anyio's plugin runs asynchronous tests, and their fixtures, that use this one.
    pytest.mark.usefixtures(_BACKEND)(obj)
    pytest.mark.parametrize(_BACKEND, _backends_of(mark), scope="function")(obj)


def _is_asynchronous(test: Any) -> bool:
    given = getattr(test, "hypothesis", None)
    return inspect.iscoroutinefunction(test if given is None else given.inner_test)


def _backends_of(mark: pytest.Mark) -> list[str]:
    backends = mark.kwargs.get("backends", _INSTALLED)
    if mark.args:
        pytest.fail(f"the marker {mark.name!r} takes its options by name, not {mark.args!r}", pytrace=False)
    if isinstance(backends, str) or not set(backends) <= set(_BACKENDS) or not backends:
        pytest.fail(
            f"'backends' of the marker {mark.name!r} is a list of 'asyncio' and 'trio', not {backends!r}",
            pytrace=False,
        )
    return list(backends)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if not isinstance(item, pytest.Function):
        return
    given = getattr(item.obj, "hypothesis", None)
    # Other plugins replace it when the test is called.
    item.stash[_TEST] = item.obj if given is None else given.inner_test
    mark, other = _mark_of(item), _other_plugin(item)
    if mark is None and other and "virtual_time_backend" in item.fixturenames:
        pytest.fail(
            f"{other} runs {item.name}, in real time: mark it {VIRTUAL_TIME!r}, or turn off {other}'s "
            "automatic mode",
            pytrace=False,
        )
    if mark is None or mark.name != VIRTUAL_TIME:
        return
    from seqoria_runtime.testing import virtual_backend

    # Made here, since its clock must be new for each test.
    item.callspec.params[_BACKEND] = virtual_backend(_name(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    __tracebackhide__ = True
    mark = _mark_of(pyfuncitem)
    if mark is None:
        return (yield)
    given = getattr(pyfuncitem.obj, "hypothesis", None)
    try:
        _prepare(pyfuncitem, mark, given)
        return (yield)
    finally:
        if given is not None:  # it is the same on every backend
            given.inner_test = pyfuncitem.stash[_TEST]


def _prepare(item: pytest.Function, mark: pytest.Mark, given: Any) -> None:
    test = item.stash[_TEST]
    if not inspect.iscoroutinefunction(test):  # in a marked class, and it uses the backend itself
        return
    if mark.name != VIRTUAL_TIME or _other_plugin(item):
        _refuse_asynchronous_fixtures(item, mark)
    if mark.name != VIRTUAL_TIME:
        if given is not None:
            raise TypeError(f"{item.name}: draw from schedules() instead of marking a property {mark.name!r}")
        item.obj = _scenario_runner(item, mark)
        return
    from seqoria_runtime.testing import fail_on_deadlock

    if given is None:
        item.obj = fail_on_deadlock(test)
    else:
        given.inner_test = fail_on_deadlock(test)


def _other_plugin(item: pytest.Item) -> str:
    """Return the name of another plugin that runs the asynchronous test, in its automatic mode say."""
    if inspect.iscoroutinefunction(item.stash.get(_TEST, None)):
        loaded = item.config.pluginmanager.hasplugin
        for name, plugin in _OTHERS.items():
            if item.get_closest_marker(name) and (loaded(name) or loaded(f"pytest_{name}.plugin")):
                return plugin
    return ""


def _refuse_asynchronous_fixtures(item: pytest.Function, mark: pytest.Mark) -> None:
    definitions: dict[str, Any] = item._fixtureinfo.name2fixturedefs  # noqa: SLF001 - pytest has no public way
    for name in item.fixturenames:
        function = definitions[name][-1].func if name in definitions else None
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            other = _other_plugin(item)
            pytest.fail(
                f"{item.name} is marked {mark.name!r}, so each of its runs has a new event loop, and it "
                f"cannot use the asynchronous fixture {name!r}, which runs in another one"
                + (f" (that of {other})" if other else ""),
                pytrace=False,
            )


def _scenario_runner(item: pytest.Function, mark: pytest.Mark) -> Callable[..., None]:
    """Return a synchronous test that explores the asynchronous one, or replays one run of it."""
    test: Callable[..., Awaitable[Any]] = item.stash[_TEST]
    options = {name: value for name, value in mark.kwargs.items() if name != "backends"}
    token = item.config.getoption("--replay", None)
    backend = _name(item)

    # Not `wraps`: pytest and anyio would look through it and see a coroutine function.
    def run(**arguments: Any) -> None:
        __tracebackhide__ = True
        if mark.name == EXPLORE:
            _explore(functools.partial(test, **arguments), backend, options, token)
        else:
            _interrupt(mark.name, test, arguments, backend, options, token)

    @functools.wraps(run)
    def noted(**arguments: Any) -> None:
        __tracebackhide__ = True
        from seqoria_runtime.testing import ScheduleFailure

        try:
            run(**arguments)
        except ScheduleFailure as failure:
            failure.add_note(f"replay it with: pytest '{item.nodeid}' --replay '{failure.token}'")
            raise

    return noted


def _explore(
    scenario: Callable[[], Awaitable[Any]], backend: "Backend", options: dict[str, Any], token: str | None
) -> None:
    __tracebackhide__ = True
    from seqoria_runtime.testing import explore, replay

    if token is None:
        explore(scenario, backend=backend, **{"schedules": _DEFAULT_SCHEDULES, **options})
    elif _is_for(token, backend, interrupted=False):
        replay(scenario, token)


def _interrupt(
    name: str,
    test: Callable[..., Awaitable[Any]],
    arguments: dict[str, Any],
    backend: "Backend",
    options: dict[str, Any],
    token: str | None,
) -> None:
    __tracebackhide__ = True
    from seqoria_runtime import testing

    async def scenario(interruption: "Interruption") -> Any:
        if "interruption" in arguments:
            return await test(**{**arguments, "interruption": interruption})
        async with interruption.region():
            return await test(**arguments)

    if token is not None:
        if _is_for(token, backend, interrupted=True):
            kept = {key: value for key, value in options.items() if key in {"checks", "errors"}}
            testing.replay_interruption(scenario, token, **kept)
        return
    go_through = testing.cancel_everywhere if name == CANCEL else testing.fail_everywhere
    go_through(scenario, backend=backend, **options)


def _is_for(token: str, backend: str, *, interrupted: bool) -> bool:
    """Skip a test if the token is for another kind of test, or another backend."""
    from .testing._explore.token import Token

    read = Token.read(token)
    if read.backend != backend:
        pytest.skip(f"the token {token!r} is for {read.backend}")
    if (read.site is not None) is not interrupted:
        pytest.skip(f"the token {token!r} is for another kind of test")
    return True


def _mark_of(node: pytest.Item) -> pytest.Mark | None:
    """Return the nearest of the kit's markers, or `None` for a synchronous test of a marked class."""
    if _BACKEND not in getattr(getattr(node, "callspec", None), "params", ()):
        return None
    return next((mark for mark in node.iter_markers() if mark.name in _MARKERS), None)


def _name(item: pytest.Function) -> "Backend":
    value: Any = item.callspec.params[_BACKEND]
    return cast("Backend", value if isinstance(value, str) else value[0])
