"""Reads the user's lines in a thread, so that the event loop never waits for the keyboard.

The thread is a daemon and reads the file descriptor directly, so that a program that ends meanwhile
neither waits for a line nor finds the standard input locked.
"""

import codecs
import os
import threading
from collections.abc import Callable
from contextlib import suppress

import anyio
from anyio import from_thread
from anyio.lowlevel import EventLoopToken, current_token

_CHUNK = 65_536


class LineReader:
    """Lines from a file descriptor. It keeps what it has read for the next call of `line`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""
        self._ended = False
        self._reading = False
        self._arrival = anyio.Event()
        self._token = current_token()

    async def line(self) -> str | None:
        """Return the next line without its end, or `None` at the end. A cancelled call loses no line."""
        while "\n" not in self._text and not self._ended:
            self._read_on()
            await self._arrival.wait()
        if not self._text:
            return None
        line, _, self._text = self._text.partition("\n")
        return line.removesuffix("\r")

    def _read_on(self) -> None:
        if self._reading:
            return
        self._reading = True
        self._arrival = anyio.Event()
        threading.Thread(
            target=_read, args=(self._descriptor, self._token, self._arrived), name="input", daemon=True
        ).start()

    def _arrived(self, data: bytes) -> None:
        self._reading = False
        self._ended = not data
        self._text += self._decoder.decode(data, final=self._ended)
        self._arrival.set()


def _read(descriptor: int, token: EventLoopToken, arrived: Callable[[bytes], None]) -> None:
    try:
        data = os.read(descriptor, _CHUNK)
    except OSError:  # the terminal is gone
        data = b""
    with suppress(RuntimeError):  # so is the event loop
        from_thread.run_sync(arrived, data, token=token)
