"""Reads the arguments of a tool call as models write them, in live answers and in stored histories.

Nothing and blank text are `{}`. JSON text that holds an object encoded once more is unwrapped, once.
Anything else that is not a JSON object is kept as bounded raw text. Of that only `null` is ever run,
and only by a tool that takes no arguments.
"""

import json
from typing import Any, NamedTuple

from pydantic_core import from_json

from seqoria_runtime._base.redaction import bounded

NULL = "null"
_MAX_RAW = 2_000


class CallArguments(NamedTuple):
    """The arguments of one call; `invalid` is the raw text of what was not a JSON object."""

    values: dict[str, Any]
    invalid: str | None = None

    @property
    def broken(self) -> bool:
        """Whether the text is not what a model writes as whole arguments; `null` is, for no arguments."""
        return self.invalid not in {None, NULL}


def read_arguments(text: str) -> CallArguments:
    """Read the JSON text of a call's arguments."""
    if not text.strip():
        return CallArguments({})
    try:
        value = _parse(text)
        if isinstance(value, str):
            value = _parse(value)
    except ValueError:
        return CallArguments({}, bounded(text, _MAX_RAW))
    if value is None:
        return CallArguments({}, NULL)
    if isinstance(value, dict):
        return CallArguments(value)
    return CallArguments({}, bounded(text, _MAX_RAW))


def _parse(text: str) -> Any:
    value = from_json(text)
    # 1e999 is read as infinity, which JSON cannot hold: such a call could not be sent back.
    json.dumps(value, allow_nan=False)
    return value
