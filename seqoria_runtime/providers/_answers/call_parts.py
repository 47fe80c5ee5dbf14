"""Turns the calls that a format put together into the tool call requests of one response.

Whatever the server sent, each request has a name and an id that no other of its response has, and
its arguments are an object or are kept as bounded raw text.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from seqoria_runtime._base.redaction import bounded
from seqoria_runtime.models import UNNAMED_TOOL, ToolCallRequest
from seqoria_runtime.models._arguments import read_arguments
from seqoria_runtime.providers._json import join_surrogates

_MAX_NAME = 256


class CallParts:
    """A tool call as far as it is known; `arguments` are the fragments of its JSON.

    `cut` marks the call that was being written when the response ended.
    """

    __slots__ = ("arguments", "cut", "id", "name")

    def __init__(self, call_id: str = "", name: str = "") -> None:
        self.id = call_id
        self.name = name
        self.arguments: list[str] = []
        self.cut = False

    @property
    def text(self) -> str:
        return "".join(self.arguments)


def arguments_text(value: Any) -> str:
    """Return the JSON of arguments, which some servers send as text and others as an object."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def tool_call_requests(
    calls: Iterable[CallParts],
    *,
    response_id: str,
    new_id: Callable[[], str],
    real_name: Callable[[str], str],
    limited: bool,
) -> list[ToolCallRequest]:
    """Make the requests, in order.

    With `limited`, the output limit (or the like) ended the response: the call that was being
    written, and any other with broken arguments, is marked as truncated.
    """
    taken: set[str] = set()
    requests = []
    for call in calls:
        call_id = call.id if call.id and call.id not in taken else f"call_{new_id()}"
        taken.add(call_id)
        arguments = read_arguments(join_surrogates(call.text))
        request = ToolCallRequest(
            id=join_surrogates(call_id),
            name=real_name(bounded(join_surrogates(call.name), _MAX_NAME)) or UNNAMED_TOOL,
            arguments=arguments.values,
            invalid_arguments=arguments.invalid,
            truncated=limited and (call.cut or arguments.broken),
            response_id=response_id,
        )
        requests.append(request)
    return requests
