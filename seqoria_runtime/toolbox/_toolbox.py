"""`LocalToolbox`: registers functions as tools, lists them, and calls one directly."""

import copy
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypedDict, TypeVar, Unpack, overload

from seqoria_runtime._base import checks as _checks
from seqoria_runtime._base.tools import ConcurrencyCap, Tool, ToolFailure
from seqoria_runtime._execution.calls.threads import run_in_thread
from seqoria_runtime.models.errors import ToolExecutionError, ToolNotFoundError

from ._compile import compile_signature
from ._hidden.arguments import HiddenValuesError
from ._reading.signature import own_name_of, read
from ._tool import FunctionTool

_Function = TypeVar("_Function", bound=Callable[..., Any])

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolOptions(TypedDict, total=False):
    """Options of a tool.

    `description` is what the model reads; the default is the first line of the docstring.
    `server_populated` names the hidden parameters and fields: the model does not see them, and trusted
    sources fill them. `depends_on` names the tools whose calls in the same batch must settle first.
    `timeout` limits one call, in seconds; the default is the client's `tool_timeout`. `max_concurrency`
    limits how many of its calls run at once in one client, in addition to the client's limit.
    """

    description: str | None
    server_populated: Iterable[str]
    depends_on: Iterable[str]
    timeout: float | None
    max_concurrency: int | None


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """The description of a tool; `annotations` has `server_populated` and `depends_on` if they are set."""

    name: str
    description: str
    input_schema: dict[str, Any]
    annotations: dict[str, Any]

    @property
    def inputSchema(self) -> dict[str, Any]:
        """An older name for `input_schema`."""
        return self.input_schema


@dataclass(frozen=True, slots=True)
class TextContent:
    """A piece of the result of a direct call."""

    text: str
    type: str = "text"


class LocalToolbox:
    """The functions of an application that are its tools.

    The text of a result is cut, with a mark, at `max_result_chars` characters; `None`: no limit.
    """

    def __init__(self, *, max_result_chars: int | None = 1_000_000) -> None:
        if max_result_chars is not None:
            _checks.positive_int("max_result_chars", max_result_chars)
        self._max_result_chars = max_result_chars
        self._tools: dict[str, FunctionTool] = {}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools registered so far, in the order of registration."""
        return tuple(self._tools.values())

    @overload
    def tool(self, name: _Function, **options: Unpack[ToolOptions]) -> _Function: ...
    @overload
    def tool(
        self, name: str | None = None, **options: Unpack[ToolOptions]
    ) -> Callable[[_Function], _Function]: ...
    def tool(self, name: Any = None, **options: Unpack[ToolOptions]) -> Any:
        """Register the decorated function and return it unchanged. See `ToolOptions`.

        Works with and without parentheses, and on a function as its only positional argument. Raises
        `TypeError` or `ValueError`, which name the tool and the parameter, for a function that cannot be a
        tool; then nothing is registered.
        """
        if name is None or isinstance(name, str):
            return partial(self.add, name=name, **options)
        return self.add(name, **options)

    def add(
        self, function: _Function, *, name: str | None = None, **options: Unpack[ToolOptions]
    ) -> _Function:
        """Register a function, method, partial or callable object, as `tool` does, and return it."""
        own = own_name_of(function) if name is None else name
        unknown = sorted(options.keys() - ToolOptions.__annotations__.keys())
        if unknown:
            known = ", ".join(("name", *ToolOptions.__annotations__))
            raise TypeError(f"Tool {own!r}: add() has no option {unknown[0]!r}; it has {known}")
        self._register(function, own, options)
        return function

    def _register(self, function: Callable[..., Any], name: str, options: ToolOptions) -> None:
        self._check_name(name)
        description, timeout = options.get("description"), options.get("timeout")
        limit = options.get("max_concurrency")
        with _naming(name):
            if description is not None and not isinstance(description, str):
                raise TypeError(f"'description' must be a string, not {description!r}")
            server_populated = _checks.names("server_populated", options.get("server_populated", ()))
            depends_on = _checks.names("depends_on", options.get("depends_on", ()))
            if timeout is not None:
                timeout = _checks.positive_seconds("timeout", timeout)
            if limit is not None:
                _checks.positive_int("max_concurrency", limit)
        signature = read(function, name)
        compiled = compile_signature(signature, name, server_populated)
        self._tools[name] = FunctionTool(
            name=name,
            description=signature.description if description is None else description,
            parameters=compiled.parameters,
            arguments=compiled.arguments,
            function=signature.function,
            blocking=signature.blocking,
            hidden=compiled.arguments.hidden,
            depends_on=depends_on,
            timeout=timeout,
            cap=None if limit is None else ConcurrencyCap(f"tool {name!r}", limit),
            max_result_chars=self._max_result_chars,
        )

    def _check_name(self, name: Any) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"A tool's name must be 1 to 64 letters, digits, '_' or '-', not {name!r}")
        if name in self._tools:
            raise ValueError(f"This toolbox already has a tool {name!r}")

    def list_tools(self) -> list[ToolInfo]:
        """Return the descriptions of all tools, as copies."""
        return [_info(tool) for tool in self.tools]

    def get_tool_info(self, name: str) -> ToolInfo | None:
        """Return the description of one tool, or `None` if there is no such tool."""
        tool = self._tools.get(name)
        return None if tool is None else _info(tool)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        server_args: Mapping[str, Any] | None = None,
    ) -> list[TextContent]:
        """Call a tool with explicit values, `server_args` for its hidden parameters.

        No other source fills hidden parameters, and no limit or timeout applies. Raises
        `ToolNotFoundError`; `ValidationError` for invalid arguments; `ValueError` for a hidden name among
        `arguments` or any other name in `server_args`; `TypeError` for anything but mappings;
        `ToolExecutionError` for trusted values or a result that cannot be used; and the tool's own
        exception as it is. If the caller is cancelled, so is an async function; a sync function runs on in
        its worker thread, and its result is dropped.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise ToolNotFoundError(f"Tool {name!r} not found in LocalToolbox")
        ready = _prepared(tool, _mapping("arguments", arguments), _mapping("server_args", server_args))
        value = await run_in_thread(partial(tool.call, ready)) if tool.blocking else tool.call(ready)
        if isawaitable(value):
            value = await value
        try:
            return [TextContent(tool.render(value))]
        except ToolFailure as failure:
            raise ToolExecutionError(str(failure), kind=failure.kind) from failure


@contextmanager
def _naming(tool: str) -> Generator[None]:
    """Put the tool's name in front of an error about one of its options."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"Tool {tool!r}: {error}") from None


def _info(tool: Tool) -> ToolInfo:
    annotations: dict[str, Any] = {}
    if tool.hidden:
        annotations["server_populated"] = sorted(parameter.name for parameter in tool.hidden)
    if tool.depends_on:
        annotations["depends_on"] = sorted(tool.depends_on)
    return ToolInfo(tool.name, tool.description, copy.deepcopy(dict(tool.parameters)), annotations)


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{name!r} must be a mapping, not {type(value).__name__}")
    return value


def _prepared(
    tool: FunctionTool, arguments: Mapping[str, Any], server_args: Mapping[str, Any]
) -> dict[str, Any]:
    hidden = {parameter.name for parameter in tool.hidden}
    for key in server_args.keys() - hidden:
        raise ValueError(f"Unknown server parameter: {key}")
    for key in arguments.keys() & hidden:
        raise ValueError(f"Cannot override server-populated param: {key}")
    try:
        return tool.arguments.complete(tool.arguments.check(arguments, override=False), server_args)
    except HiddenValuesError as error:
        names = ", ".join(sorted(error.missing))
        text = str(error) or f"Missing server-populated parameters for {tool.name!r}: {names}"
        raise ToolExecutionError(text, kind=error.kind) from None
