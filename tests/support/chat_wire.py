"""What the tests of Chat Completions share: streams, requests, and answers read without a server."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from seqoria_runtime.models import ChatMessage, UserMessage
from seqoria_runtime.providers import PROFILES, ModelRequest, Profile, ToolDefinition
from seqoria_runtime.providers._answers.encoded_request import EncodedRequest
from seqoria_runtime.providers._chat.request import encode_chat
from tests.support.wires import Read, ids, read_with

DATA = Path(__file__).parent.parent / "providers" / "data"
STREAMS = sorted(path.name for path in DATA.glob("*.sse"))
ADD = ToolDefinition("add", "Add two numbers.", {"type": "object", "properties": {"a": {}, "b": {}}})
NOW = ToolDefinition("now", "", {})


def recorded(name: str) -> bytes:
    return (DATA / name).read_bytes()


def exchange(
    request: ModelRequest | None = None,
    *,
    profile: str | Profile = "compatible",
    stream: bool = True,
    **options: Any,
) -> EncodedRequest:
    return encode_chat(
        request or ModelRequest([UserMessage(content="hi")]),
        model="m",
        options=options,
        profile=PROFILES[profile] if isinstance(profile, str) else profile,
        stream=stream,
        ids=ids(),
    )


def body(
    messages: Sequence[ChatMessage] = (UserMessage(content="hi"),),
    *,
    profile: str | Profile = "compatible",
    tools: Sequence[ToolDefinition] = (),
    tool_choice: str | None = None,
    stream: bool = True,
    **options: Any,
) -> dict[str, Any]:
    """The request's body as it goes over the wire."""
    request = ModelRequest(messages, tools=tools, tool_choice=tool_choice)
    made: dict[str, Any] = json.loads(exchange(request, profile=profile, stream=stream, **options).body)
    return made


def wire(messages: Sequence[ChatMessage], profile: str | Profile = "compatible") -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = body(messages, profile=profile)["messages"]
    return made


def sse(*events: Mapping[str, Any] | str, done: bool = True) -> bytes:
    """Events as a server sends them; a string stands for itself."""
    written = [event if isinstance(event, str) else f"data: {json.dumps(event)}" for event in events]
    if done:
        written.append("data: [DONE]")
    return "".join(f"{event}\n\n" for event in written).encode()


def delta(*, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def fragment(index: int | None = 0, **fields: Any) -> dict[str, Any]:
    """A delta with one fragment of a tool call."""
    function = {name: fields.pop(name) for name in ("name", "arguments") if name in fields}
    entry = fields | {"function": function}
    return delta(tool_calls=[entry if index is None else entry | {"index": index}])


def read(
    data: bytes | Iterable[bytes],
    *,
    content_type: str = "text/event-stream",
    request: ModelRequest | None = None,
    profile: str | Profile = "compatible",
) -> Read:
    """Read an answer that comes in these pieces, as the driver does."""
    pieces = [data] if isinstance(data, bytes) else data
    return read_with(exchange(request, profile=profile), pieces, content_type)


def read_whole(value: Any, **kwargs: Any) -> Read:
    return read(json.dumps(value).encode(), content_type="application/json; charset=utf-8", **kwargs)
