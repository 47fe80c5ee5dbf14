"""Reads a file of calls: JSON lines, each a call or a batch of calls.

A call is an object with the `name` of a tool, its `arguments` (default: none) and how often to
`repeat` it in its batch (default: 1); a batch is a list of such objects.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

_KEYS = ("name", "arguments", "repeat")
_MOST_CALLS = 1_000_000


class PlannedCall(NamedTuple):
    """A call of a workload, made once in each run."""

    name: str
    arguments: dict[str, Any]


class CallsFileError(ValueError):
    """A line is invalid; the text names its number."""


def read_calls(lines: Iterable[str], tools: Collection[str]) -> tuple[tuple[PlannedCall, ...], ...]:
    """Return the batches in these lines, for a toolbox with these tools; raises `CallsFileError`."""
    batches = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                batches.append(tuple(_batch(line, tools)))
            except ValueError as error:
                raise CallsFileError(f"line {number}: {error}") from None
    if not batches:
        raise CallsFileError("there are no calls in it")
    return tuple(batches)


def _batch(line: str, tools: Collection[str]) -> Iterator[PlannedCall]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    calls = value if isinstance(value, list) else [value]
    if not calls:
        raise ValueError("is a batch of no calls")
    for call in calls:
        yield from _repeated(call, tools)


def _repeated(call: Any, tools: Collection[str]) -> Iterator[PlannedCall]:
    if not isinstance(call, dict):
        raise ValueError(f"a call must be an object with the name of a tool, not {json.dumps(call)[:60]}")
    unknown = next((key for key in call if key not in _KEYS), None)
    if unknown is not None:
        raise ValueError(f"a call has no {unknown!r}; it has {', '.join(_KEYS)}")
    name, arguments, repeat = call.get("name"), call.get("arguments", {}), call.get("repeat", 1)
    if not isinstance(name, str) or name not in tools:
        raise ValueError(f"there is no tool {name!r}; there are {', '.join(sorted(tools)) or 'none'}")
    if not isinstance(arguments, dict):
        raise ValueError(f"'arguments' must be an object, not {json.dumps(arguments)[:60]}")
    if isinstance(repeat, bool) or not isinstance(repeat, int) or not 1 <= repeat <= _MOST_CALLS:
        raise ValueError(
            f"'repeat' must be a positive integer of at most {_MOST_CALLS}, not {json.dumps(repeat)[:60]}"
        )
    for _ in range(repeat):
        yield PlannedCall(name, arguments)
