"""A scripted model server on this machine that speaks Chat Completions."""

import json
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """One streamed answer. `hold` keeps the response open after the text until the server is closed."""

    text: Sequence[str] = ()
    reasoning: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    hold: bool = False
    status: int = 200
    error: str = ""
    usage: tuple[int, int] = (7, 3)

    def chunks(self) -> Iterator[Mapping[str, Any]]:
        if self.reasoning:
            yield _delta(reasoning_content=self.reasoning)
        for text in self.text:
            yield _delta(content=text)

    def ending(self) -> Iterator[Mapping[str, Any]]:
        for index, (name, arguments) in enumerate(self.calls):
            function = {"name": name, "arguments": json.dumps(arguments)}
            yield _delta(
                tool_calls=[{"index": index, "id": f"call-{index}", "type": "function", "function": function}]
            )
        yield {
            "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if self.calls else "stop"}]
        }
        prompt, completion = self.usage
        yield {
            "choices": [],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            },
        }


def _delta(**delta: Any) -> Mapping[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


@dataclass
class ChatServer:
    """`url` is the base URL; `requests` are the bodies that came, in order."""

    url: str
    answer: Callable[[dict[str, Any]], Answer]
    requests: list[dict[str, Any]] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def roles(self, number: int) -> list[str]:
        return [message["role"] for message in self.requests[number]["messages"]]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_POST(self) -> None:
        chat = self.server.chat
        body = self.rfile.read(int(self.headers["content-length"]))
        chat.requests.append(json.loads(body))
        answer = chat.answer(chat.requests[-1])
        self.close_connection = True
        self.send_response(answer.status)
        self.send_header("connection", "close")
        if answer.error:
            self._send_error(answer.error)
            return
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for chunk in answer.chunks():
            self._send(json.dumps(chunk))
        if answer.hold:
            chat.closing.wait()
            return
        for chunk in answer.ending():
            self._send(json.dumps(chunk))
        self._send("[DONE]")

    def _send(self, data: str) -> None:
        self.wfile.write(f"data: {data}\n\n".encode())
        self.wfile.flush()

    def _send_error(self, message: str) -> None:
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({"error": {"message": message}}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    chat: ChatServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client may hang up whenever it likes
            super().handle_error(request, client_address)


@contextmanager
def serve(
    answers: Sequence[Answer] | Callable[[dict[str, Any]], Answer],
) -> Generator[ChatServer, None, None]:
    """Serve on 127.0.0.1 while the context is open: these answers in order, or one made from each body."""
    in_order = iter(()) if callable(answers) else iter(answers)
    answer = answers if callable(answers) else lambda _: next(in_order)
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.chat = ChatServer(f"http://127.0.0.1:{server.server_address[1]}/v1", answer)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.chat
        finally:
            server.chat.closing.set()
            server.shutdown()
            thread.join()
