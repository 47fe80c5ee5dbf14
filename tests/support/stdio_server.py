"""A hand-written MCP server over stdio that starts fast and misbehaves as its arguments say.

Arguments: ways to behave at the start or in general. A call's tool is what the server does: see `call`.
`EVENTS` in the environment names a file to which events are appended, a line each.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

WAYS = set(sys.argv[1:])
TOOLS = (
    "echo",
    "hold",
    "exit",
    "killed",
    "close_stdout",
    "close_stdin",
    "half_line",
    "unknown_id",
    "pid",
    "twice",
    "half_character",
    "no_utf8",
    "nothing",
    "flood",
    "deaf",
)
ODD_LINES = {
    "half_character": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\\ud83d!"}]}}',
    "no_utf8": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\xff!"}]}}',
    "nothing": b'{"jsonrpc":"2.0","id":ID,"result":null}',
}
LINGER = "import threading; threading.Event().wait(600)"

held: list[Any] = []


def note(event: str) -> None:
    if path := os.environ.get("EVENTS"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{event}\n")


def write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def say(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}))


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def call(request: Any, name: str, arguments: dict[str, Any]) -> None:
    if name == "echo":
        say({"id": request, "result": text(arguments.get("text", "echo"))})
    elif name == "pid":
        say({"id": request, "result": text(str(os.getpid()))})
    elif name == "hold":
        held.append(request)
        note("held")
    elif name == "unknown_id":
        say({"id": 987654, "result": text("nobody asked")})
        say({"id": request, "result": text("known")})
    elif name == "twice":
        for words in ("first", "second"):
            say({"id": request, "result": text(words)})
    elif name in ODD_LINES:
        os.write(1, ODD_LINES[name].replace(b"ID", json.dumps(request).encode()) + b"\n")
    elif name == "flood":
        for number in range(500):
            say({"method": "notifications/progress", "params": {"progressToken": 99_999, "progress": number}})
            say({"method": "notifications/message", "params": {"level": "info", "data": "x" * 100}})
        say({"id": request, "result": text("done")})
    elif name == "deaf":
        say({"id": request, "result": text("from now on")})
        threading.Event().wait(600)
    elif name == "exit":
        sys.stdout.flush()
        os._exit(int(arguments.get("code", 3)))
    elif name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "close_stdout":
        os.close(1)
    elif name == "close_stdin":
        os.close(0)
        threading.Event().wait(600)
    elif name == "half_line":
        os.write(1, b'{"jsonrpc": "2.0", "id": 1, "resu')
        os._exit(5)


def answer(message: dict[str, Any]) -> None:
    method, request = message.get("method"), message.get("id")
    params = message.get("params") or {}
    if method == "notifications/cancelled":
        note(f"cancelled {params['requestId'] in held}")
    elif method == "initialize":
        info = {"name": "odd", "version": "1"}
        version = "2025-11-25"
        say({
            "id": request,
            "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info},
        })
    elif method == "tools/list":
        say({
            "id": request,
            "result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]},
        })
    elif method == "tools/call":
        call(request, params["name"], params.get("arguments") or {})
    elif request is not None and "ignores_unknown" not in WAYS:
        say({"id": request, "error": {"code": -32601, "message": "Method not found"}})


def begin() -> None:
    if "banner" in WAYS:
        write('npm notice hi\n\n[1, 2]\n{"level": 1}')
    if "stderr_flood" in WAYS:
        sys.stderr.write("x" * 1_000_000)
    if "stubborn" in WAYS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "family" in WAYS:
        for own_group in (False, True):
            child = subprocess.Popen([sys.executable, "-c", LINGER], start_new_session=own_group)
            note(f"child {child.pid}")
    note(f"started {os.getpid()}")


def main() -> None:
    begin()
    if "exits_at_once" in WAYS:
        sys.stderr.write("cannot find my key: api_key=hunter2\n")
        sys.exit(7)
    for number, line in enumerate(sys.stdin):
        message = json.loads(line)
        if "silent" in WAYS:
            continue
        if "dies_of_the_probe" in WAYS and number == 0 and message.get("method") != "initialize":
            sys.exit(9)
        answer(message)
    if "stubborn" in WAYS:
        threading.Event().wait(600)
    if WAYS & {"orphans", "family"}:
        note("exits")


if __name__ == "__main__":
    main()
