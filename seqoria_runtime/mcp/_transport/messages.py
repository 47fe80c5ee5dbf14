"""Reads messages leniently, so that a malformed answer does not leave its call waiting."""

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter

from seqoria_runtime._base.redaction import bounded, redact

from .connection_end import Log

Inbox: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]

_MAX_SHOWN = 300


async def deliver(data: bytes | str, inbox: Inbox, log: Log, action: str) -> None:
    """Send the messages in a line or an event to the session; log anything else, after `action`."""
    messages = messages_in(data)
    if not messages:
        text = data if isinstance(data, str) else data.decode(errors="replace")
        log.debug("%s that is not a message: %s", action, bounded(redact(text), _MAX_SHOWN))
    for message in messages:
        await inbox.send(SessionMessage(message))


def messages_in(data: bytes | str) -> list[JSONRPCMessage]:
    """Return the messages in a line or an event, which may be a batch; none for anything else.

    Lone surrogates are replaced. An answer that breaks the protocol becomes an error answer to the same
    request.
    """
    message = strict_message(data)
    if message is not None:
        return [message]
    found = _parsed(data if isinstance(data, str) else data.decode(errors="replace"))
    return list(_lenient(found if isinstance(found, list) else [found]))


def strict_message(data: bytes | str) -> JSONRPCMessage | None:
    """Return the one message that `data` holds by the letter of the protocol; `None` for anything else."""
    try:
        return jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValueError:
        return None


def _parsed(text: str) -> Any:
    text = text.removeprefix("\ufeff")
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(json.dumps(json.loads(text), ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def _lenient(found: list[Any]) -> Iterator[JSONRPCMessage]:
    for item in found:
        if not isinstance(item, dict) or item.get("jsonrpc") != "2.0":
            continue
        try:
            yield jsonrpc_message_adapter.validate_python(item, by_name=False)
        except ValueError:
            request = item.get("id")
            if "method" not in item and isinstance(request, (int, str)):
                error = ErrorData(code=INTERNAL_ERROR, message=_fault(item))
                yield JSONRPCError(jsonrpc="2.0", id=request, error=error)


def _fault(answer: dict[str, Any]) -> str:
    error = answer.get("error")
    if isinstance(error, dict):
        error = error.get("message")
    return error if isinstance(error, str) else "the answer is neither a result nor an error of the protocol"
