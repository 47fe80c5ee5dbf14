"""The four wire formats as streams under construction, in the shapes that their servers send."""

import json
from collections.abc import Mapping
from typing import Any, Self

from seqoria_runtime.models import UserMessage
from seqoria_runtime.providers import (
    PROFILES,
    AsyncAnthropicProvider,
    AsyncOllamaProvider,
    AsyncOpenAICompatibleProvider,
    AsyncOpenAIProvider,
    ModelRequest,
)
from seqoria_runtime.providers._answers.encoded_request import EncodedRequest
from seqoria_runtime.providers._anthropic.request import encode_messages
from seqoria_runtime.providers._chat.request import encode_chat
from seqoria_runtime.providers._ollama.request import encode_ollama
from seqoria_runtime.providers._responses.request import encode_responses

from .wires import Body, Stream, ids, sse


class ChatShaped(Stream):
    """What Chat Completions and Ollama have in common."""

    def error(self, kind: str, message: str) -> Self:
        return self.event({"error": {"type": kind, "message": message}})

    @classmethod
    def answered(cls, body: Body) -> list[tuple[str, str]]:
        return [(one["tool_call_id"], one["content"]) for one in body["messages"] if one["role"] == "tool"]

    @classmethod
    def offered(cls, body: Body) -> list[tuple[str, dict[str, Any]]]:
        functions = [tool["function"] for tool in body.get("tools", [])]
        return [(function["name"], function["parameters"]) for function in functions]


class Chat(ChatShaped):
    name = "chat"
    provider = AsyncOpenAICompatibleProvider

    @classmethod
    def exchange(
        cls, request: ModelRequest | None = None, *, stream: bool = True, **options: Any
    ) -> EncodedRequest:
        asked = request or ModelRequest([UserMessage(content="hi")])
        profile = PROFILES["compatible"]
        return encode_chat(asked, model="m", options=options, profile=profile, stream=stream, ids=ids())

    def event(self, event: Mapping[str, Any]) -> Self:
        return self.raw(sse(event))

    def _delta(self, finish: str | None = None, **fields: Any) -> Self:
        return self.event({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})

    def start(self) -> Self:
        return self._delta(role="assistant", content="")

    def text(self, *pieces: str) -> Self:
        for piece in pieces:
            self._delta(content=piece)
        return self

    def call(self, call_id: str | None, name: str | None, *fragments: str) -> Self:
        self._place += 1
        opened = {"index": self._place, "id": call_id, "function": {"name": name, "arguments": ""}}
        self._delta(tool_calls=[opened])
        for fragment in fragments:
            self._delta(tool_calls=[{"index": self._place, "function": {"arguments": fragment}}])
        return self

    def end(self, why: str = "stop") -> Self:
        self._delta(finish={"calls": "tool_calls"}.get(why, why))
        return self.raw(b"data: [DONE]\n\n")

    @classmethod
    def called(cls, body: Body) -> list[tuple[str, str, dict[str, Any]]]:
        calls = [call for message in body["messages"] for call in message.get("tool_calls", [])]
        return [
            (one["id"], one["function"]["name"], json.loads(one["function"]["arguments"])) for one in calls
        ]


class Messages(Stream):
    name = "messages"
    provider = AsyncAnthropicProvider

    @classmethod
    def exchange(
        cls, request: ModelRequest | None = None, *, stream: bool = True, **options: Any
    ) -> EncodedRequest:
        asked = request or ModelRequest([UserMessage(content="hi")])
        return encode_messages(asked, model="m", options=options, stream=stream, ids=ids())

    def event(self, event: Mapping[str, Any]) -> Self:
        return self.raw(sse(event, event.get("type", "")))

    def start(self) -> Self:
        message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude"}
        usage = {"input_tokens": 7, "output_tokens": 1}
        return self.event({"type": "message_start", "message": message | {"usage": usage}})

    def open(self, block: Mapping[str, Any]) -> Self:
        self._place += 1
        return self.event({"type": "content_block_start", "index": self._place, "content_block": block})

    def delta(self, **delta: Any) -> Self:
        return self.event({"type": "content_block_delta", "index": self._place, "delta": delta})

    def close(self) -> Self:
        return self.event({"type": "content_block_stop", "index": self._place})

    def text(self, *pieces: str) -> Self:
        self.open({"type": "text", "text": ""})
        for piece in pieces:
            self.delta(type="text_delta", text=piece)
        return self.close()

    def thinking(self, *pieces: str, signature: str = "") -> Self:
        self.open({"type": "thinking", "thinking": "", "signature": ""})
        for piece in pieces:
            self.delta(type="thinking_delta", thinking=piece)
        if signature:
            self.delta(type="signature_delta", signature=signature)
        return self.close()

    def call(self, call_id: str | None, name: str | None, *fragments: str) -> Self:
        self.open({"type": "tool_use", "id": call_id, "name": name, "input": {}})
        self.delta(type="input_json_delta", partial_json="")
        for fragment in fragments:
            self.delta(type="input_json_delta", partial_json=fragment)
        return self.close()

    def end(self, why: str = "stop") -> Self:
        reason = {"stop": "end_turn", "calls": "tool_use", "length": "max_tokens"}.get(why, why)
        delta = {"stop_reason": reason, "stop_sequence": None}
        self.event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}})
        return self.event({"type": "message_stop"})

    def error(self, kind: str, message: str) -> Self:
        return self.event({"type": "error", "error": {"type": kind, "message": message}})

    @classmethod
    def _blocks(cls, body: Body, kind: str) -> list[Body]:
        contents = [one["content"] for one in body["messages"] if isinstance(one["content"], list)]
        return [block for content in contents for block in content if block["type"] == kind]

    @classmethod
    def called(cls, body: Body) -> list[tuple[str, str, dict[str, Any]]]:
        return [(one["id"], one["name"], one["input"]) for one in cls._blocks(body, "tool_use")]

    @classmethod
    def answered(cls, body: Body) -> list[tuple[str, str]]:
        return [(one["tool_use_id"], one["content"]) for one in cls._blocks(body, "tool_result")]

    @classmethod
    def offered(cls, body: Body) -> list[tuple[str, dict[str, Any]]]:
        return [(tool["name"], tool["input_schema"]) for tool in body.get("tools", [])]


class Responses(Stream):
    name = "responses"
    provider = AsyncOpenAIProvider

    def __init__(self) -> None:
        super().__init__()
        self._items: list[Body] = []

    @classmethod
    def exchange(
        cls, request: ModelRequest | None = None, *, stream: bool = True, **options: Any
    ) -> EncodedRequest:
        asked = request or ModelRequest([UserMessage(content="hi")])
        return encode_responses(asked, model="m", options=options, stream=stream, ids=ids())

    def event(self, event: Mapping[str, Any]) -> Self:
        return self.raw(sse(event, event.get("type", "")))

    def _of_item(self, kind: str, **fields: Any) -> Self:
        labels = {"item_id": f"item_{self._place}", "output_index": self._place}
        return self.event({"type": f"response.{kind}", **labels, **fields})

    def start(self) -> Self:
        response = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
        self.event({"type": "response.created", "response": response})
        return self.event({"type": "response.in_progress", "response": response})

    def added(self, item: Body) -> Self:
        self._place += 1
        item = {"id": f"item_{self._place}", **item}
        return self.event({"type": "response.output_item.added", "output_index": self._place, "item": item})

    def done(self, item: Body) -> Self:
        item = {"id": f"item_{self._place}", **item}
        self._items.append(item)
        return self.event({"type": "response.output_item.done", "output_index": self._place, "item": item})

    def text(self, *pieces: str) -> Self:
        message = {"type": "message", "role": "assistant", "status": "in_progress", "content": []}
        self.added(message)
        for piece in pieces:
            self._of_item("output_text.delta", content_index=0, delta=piece)
        part = {"type": "output_text", "text": "".join(pieces), "annotations": []}
        return self.done({**message, "status": "completed", "content": [part]})

    def reasoning(self, *pieces: str, encrypted: str | None = None) -> Self:
        self.added({"type": "reasoning", "summary": []})
        for piece in pieces:
            self._of_item("reasoning_summary_text.delta", summary_index=0, delta=piece)
        summary = [{"type": "summary_text", "text": "".join(pieces)}] if pieces else []
        return self.done({"type": "reasoning", "summary": summary, "encrypted_content": encrypted})

    def call(self, call_id: str | None, name: str | None, *fragments: str) -> Self:
        item = {"type": "function_call", "call_id": call_id, "name": name, "status": "in_progress"}
        self.added({**item, "arguments": ""})
        for fragment in fragments:
            self._of_item("function_call_arguments.delta", delta=fragment)
        arguments = "".join(fragments)
        self._of_item("function_call_arguments.done", arguments=arguments)
        return self.done({**item, "arguments": arguments, "status": "completed"})

    def end(self, why: str = "stop") -> Self:
        cut = why == "length"
        response: Body = {"id": "resp_1", "object": "response", "model": "gpt", "output": self._items}
        response["status"] = "incomplete" if cut else "completed"
        response["incomplete_details"] = {"reason": "max_output_tokens"} if cut else None
        response["usage"] = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        return self.event({"type": f"response.{response['status']}", "response": response})

    def error(self, kind: str, message: str) -> Self:
        return self.event({"type": "error", "code": kind, "message": message, "param": None})

    @classmethod
    def called(cls, body: Body) -> list[tuple[str, str, dict[str, Any]]]:
        calls = [item for item in body["input"] if item["type"] == "function_call"]
        return [(call["call_id"], call["name"], json.loads(call["arguments"])) for call in calls]

    @classmethod
    def answered(cls, body: Body) -> list[tuple[str, str]]:
        results = [item for item in body["input"] if item["type"] == "function_call_output"]
        return [(result["call_id"], result["output"]) for result in results]

    @classmethod
    def offered(cls, body: Body) -> list[tuple[str, dict[str, Any]]]:
        return [(tool["name"], tool["parameters"]) for tool in body.get("tools", [])]


class Ollama(ChatShaped):
    name = "ollama"
    content_type = "application/x-ndjson"
    provider = AsyncOllamaProvider

    @classmethod
    def exchange(
        cls, request: ModelRequest | None = None, *, stream: bool = True, **options: Any
    ) -> EncodedRequest:
        asked = request or ModelRequest([UserMessage(content="hi")])
        return encode_ollama(asked, model="m", options=options, stream=stream, ids=ids())

    def event(self, event: Mapping[str, Any]) -> Self:
        return self.raw(json.dumps(event).encode() + b"\n")

    def line(self, *, done: bool = False, message: Body | None = None, **fields: Any) -> Self:
        said = {"role": "assistant", "content": ""} | (message or {})
        return self.event({"model": "llama", "message": said, "done": done, **fields})

    def start(self) -> Self:
        return self.line()

    def text(self, *pieces: str) -> Self:
        for piece in pieces:
            self.line(message={"content": piece})
        return self

    def call(self, call_id: str | None, name: str | None, *fragments: str) -> Self:
        written = "".join(fragments)
        try:
            arguments = json.loads(written or "{}")
        except ValueError:
            arguments = written
        call = {"function": {"name": name, "arguments": arguments}} | ({"id": call_id} if call_id else {})
        return self.line(message={"tool_calls": [call]})

    def end(self, why: str = "stop") -> Self:
        reason = "length" if why == "length" else "stop"
        return self.line(done=True, done_reason=reason, prompt_eval_count=7, eval_count=3)

    @classmethod
    def called(cls, body: Body) -> list[tuple[str, str, dict[str, Any]]]:
        calls = [call for message in body["messages"] for call in message.get("tool_calls", [])]
        return [(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in calls]


FORMATS: list[type[Stream]] = [Chat, Messages, Responses, Ollama]
