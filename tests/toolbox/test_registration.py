"""What a toolbox accepts as a tool, what it refuses, and what it leaves unchanged."""

import functools
import math
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from seqoria_runtime._base.tools import Tool
from seqoria_runtime.toolbox import LocalToolbox


class Shop:
    def __init__(self, city: str) -> None:
        self.city = city

    def visit(self, days: int) -> str:
        """Visit the shop."""
        return f"{self.city} {days}"

    async def phone(self, days: int) -> str:
        return f"{self.city} {days}"

    @classmethod
    def found(cls, days: int) -> str:
        return f"{cls.__name__} {days}"

    @staticmethod
    def rate(days: int) -> str:
        return str(days)


class Greeter:
    """A class that greets."""

    def __call__(self, name: str) -> str:
        """Greet somebody."""
        return f"hello {name}"


class AsyncGreeter:
    """A class that greets later."""

    async def __call__(self, name: str) -> str:
        return f"hello {name}"


def add(a: int, b: int = 2) -> int:
    """Add numbers."""
    return a + b


async def slow_add(a: int, b: int = 2) -> int:
    return a + b


def plain_decorator(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def run(tool: Tool, **arguments: Any) -> Any:
    return tool.call(tool.validate(arguments))


@pytest.mark.clause("C60")
def test_the_decorator_returns_the_very_function_with_and_without_parentheses() -> None:
    tools = LocalToolbox()
    assert tools.tool(add) is add
    assert tools.tool("sum")(add) is add
    assert tools.tool(name="total", description="Sums up.")(add) is add
    assert tools.tool()(slow_add) is slow_add
    assert add(1) == 3
    assert [tool.name for tool in tools.tools] == ["add", "sum", "total", "slow_add"]
    assert [tool.description for tool in tools.tools] == ["Add numbers.", "Add numbers.", "Sums up.", ""]


@pytest.mark.clause("C60")
@pytest.mark.parametrize(
    ("function", "name", "description", "blocking", "arguments", "result"),
    [
        (add, "add", "Add numbers.", True, {"a": 1}, 3),
        (Shop("Rome").visit, "visit", "Visit the shop.", True, {"days": 2}, "Rome 2"),
        (Shop.found, "found", "", True, {"days": 2}, "Shop 2"),
        (Shop.rate, "rate", "", True, {"days": 2}, "2"),
        (staticmethod(add), "add", "Add numbers.", True, {"a": 1}, 3),
        (functools.partial(add, 40), "add", "Add numbers.", True, {"b": 2}, 42),
        (functools.partial(functools.partial(add, b=1), a=5), "add", "Add numbers.", True, {}, 6),
        (Greeter(), "Greeter", "Greet somebody.", True, {"name": "Bo"}, "hello Bo"),
        (functools.partial(Greeter(), name="Bo"), "Greeter", "Greet somebody.", True, {}, "hello Bo"),
        (plain_decorator(add), "add", "Add numbers.", True, {"a": 1}, 3),
    ],
    ids=["function", "method", "class method", "static method", "static method object", "partial",
         "partial of a partial", "callable object", "partial of an object", "decorated"],
)  # fmt: skip
def test_every_kind_of_callable_can_be_a_tool(
    function: Callable[..., Any],
    name: str,
    description: str,
    blocking: bool,
    arguments: dict[str, Any],
    result: Any,
) -> None:
    tools = LocalToolbox()
    assert tools.add(function) is function
    (tool,) = tools.tools
    assert isinstance(tool, Tool)
    assert (tool.name, tool.description, tool.blocking) == (name, description, blocking)
    assert run(tool, **arguments) == result


@pytest.mark.clause("C60")
@pytest.mark.parametrize(
    "function",
    [slow_add, functools.partial(slow_add, b=1), Shop("Rome").phone, AsyncGreeter(),
     functools.partial(AsyncGreeter(), name="Bo")],
    ids=["function", "partial", "method", "callable object", "partial of an object"],
)  # fmt: skip
async def test_async_callables_of_every_kind_run_in_the_event_loop(function: Callable[..., Any]) -> None:
    tools = LocalToolbox()
    tools.add(function, name="it")
    (tool,) = tools.tools
    assert not tool.blocking
    given = {"a": 1, "days": 1, "name": "Bo"}
    assert await run(tool, **{key: given[key] for key in tool.parameters["properties"] if key in given})


def test_a_sync_wrapper_around_an_async_function_is_run_in_a_thread_since_it_may_block() -> None:
    tools = LocalToolbox()
    tools.add(plain_decorator(slow_add))
    assert tools.tools[0].blocking


@pytest.mark.clause("C60")
def test_what_a_partial_has_bound_is_not_a_parameter_and_cannot_be_overridden() -> None:
    tools = LocalToolbox()
    tools.add(functools.partial(add, b=1))
    (tool,) = tools.tools
    assert list(tool.parameters["properties"]) == ["a"]
    with pytest.raises(Exception, match="Extra inputs"):
        tool.validate({"a": 1, "b": 7})


@pytest.mark.clause("C60")
def test_options_reach_the_tool() -> None:
    tools = LocalToolbox()

    @tools.tool(depends_on=["login", "log"], timeout=2, server_populated=("b",))
    def use(a: int, b: int) -> None:
        """Use it."""

    (tool,) = tools.tools
    assert tool.depends_on == {"login", "log"}
    assert (tool.timeout, type(tool.timeout)) == (2.0, float)
    assert [(item.name, item.required) for item in tool.hidden] == [("b", True)]


def generate(x: int) -> Iterator[int]:
    yield x


async def generate_later(x: int) -> AsyncIterator[int]:
    yield x


def positional(x: int, /) -> None: ...
def variable(*values: int) -> None: ...
def keywords(x: int, **options: int) -> None: ...


@pytest.mark.clause("C61")
@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (positional, TypeError, "'it'.*'x' is positional-only.*keyword arguments"),
        (variable, TypeError, r"'it'.*'\*values'.*must be explicitly named"),
        (keywords, TypeError, r"'it'.*'\*\*options'.*must be explicitly named"),
        (generate, TypeError, "'it' is a generator function"),
        (generate_later, TypeError, "'it' is a generator function"),
        (functools.partial(generate, 1), TypeError, "'it' is a generator function"),
        (Shop, TypeError, "'it' must be a function or a callable object, not <class"),
        (functools.partial(Shop), TypeError, "'it' must be a function or a callable object"),
        (Shop.visit, TypeError, "'it': 'self' has no value yet"),
        (iter, TypeError, "'it' has no signature"),
        ("visit", TypeError, "'it' must be a function or a callable object, not 'visit'"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_by_name_and_nothing_is_registered(
    function: Any, error: type[Exception], message: str
) -> None:
    tools = LocalToolbox()
    with pytest.raises(error, match=message):
        tools.add(function, name="it")
    assert tools.tools == ()


@pytest.mark.clause("C61")
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"server_populated": ["c", "d"]}, ValueError, "Unknown server-populated parameters: c, d .*'it'"),
        ({"server_populated": "ab"}, TypeError, "'it': 'server_populated' must be a collection of names"),
        ({"depends_on": "ab"}, TypeError, "'it': 'depends_on' must be a collection of names"),
        ({"depends_on": [1]}, TypeError, "'it': 'depends_on' must hold non-empty names"),
        ({"timeout": 0}, ValueError, "'it': 'timeout' must be a positive"),
        ({"timeout": True}, ValueError, "'timeout'"),
        ({"timeout": math.inf}, ValueError, "'timeout'"),
        ({"description": 3}, TypeError, "'it': 'description' must be a string, not 3"),
        ({"name": ""}, ValueError, "1 to 64 letters.*not ''"),
        ({"name": "a b"}, ValueError, "not 'a b'"),
        ({"name": 3}, ValueError, "not 3"),
        ({"name": "x" * 65}, ValueError, "1 to 64 letters"),
        (
            {"retries": 3},
            TypeError,
            r"'it': add\(\) has no option 'retries'; it has name, description, .*timeout",
        ),
    ],
)
def test_wrong_options_are_refused_by_name_and_nothing_is_registered(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    tools = LocalToolbox()
    with pytest.raises(error, match=message):
        tools.add(add, **{"name": "it", **options})
    assert tools.tools == ()


@pytest.mark.clause("C60")
def test_a_second_tool_of_one_name_is_refused_and_the_first_stays() -> None:
    tools = LocalToolbox()
    tools.tool(add)
    with pytest.raises(ValueError, match="already has a tool 'add'"):
        tools.tool(name="add")(slow_add)
    assert [tool.blocking for tool in tools.tools] == [True]


def test_a_function_without_a_name_needs_one() -> None:
    tools = LocalToolbox()
    with pytest.raises(ValueError, match="not '<lambda>'"):
        tools.tool(lambda x: x)
    tools.add(lambda x: x, name="same")
    assert tools.tools[0].parameters["title"] == "sameArguments"


def test_the_tools_are_a_snapshot() -> None:
    tools = LocalToolbox()
    before = tools.tools
    tools.tool(add)
    assert before == ()


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "many"])
def test_a_wrong_bound_for_results_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="'max_result_chars' must be a positive integer"):
        LocalToolbox(max_result_chars=value)
