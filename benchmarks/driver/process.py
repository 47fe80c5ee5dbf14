"""Run a contestant in a process, started at the first question and again after it died."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
from pathlib import Path
from typing import Any, TypeAlias

from .contestants import Contestant
from .environments import ROOT, Environment

Answer: TypeAlias = dict[str, Any]


class Worker:
    """Its output goes to a log. `hello` is its report about itself."""

    def __init__(self, contestant: Contestant, environment: Environment, logs: Path) -> None:
        self._contestant = contestant
        self._environment = environment
        self._log = logs / f"{contestant.name.replace(', ', '-').replace(' ', '-')}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.hello: Answer = {}

    def ask(self, workload: str, parameters: dict[str, Any], patience: float) -> Answer:
        """Return the answer. End the process if there is none within `patience` seconds."""
        process = self._started(patience)
        if process is None:
            return {"failed": f"its process did not start: {self._last_words()}"}
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({"workload": workload, "parameters": parameters}).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._ended("its process had died")
        return self._read(process, patience) or self._ended(f"no answer within {patience:g} s")

    def close(self) -> None:
        """End the process by closing its input, and kill it after ten seconds."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._kill()

    def _started(self, patience: float) -> subprocess.Popen[bytes] | None:
        if self._process is None:
            contestant = self._contestant
            command = [
                self._environment.python,
                "-m",
                "benchmarks.worker",
                contestant.module,
                contestant.variant,
                contestant.loop,
            ]
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
            self.hello = self._read(self._process, patience) or {}
            if not self.hello:
                self._kill()
        return self._process

    def _read(self, process: subprocess.Popen[bytes], patience: float) -> Answer | None:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            # The worker writes whole lines: once there is input, readline does not block for long.
            line = process.stdout.readline() if selector.select(patience) else b""
        answer: Answer | None = json.loads(line) if line.strip() else None
        return answer

    def _ended(self, reason: str) -> Answer:
        died = self._process is not None and self._process.poll() is not None
        words = f": {self._last_words()}" if died else ""
        self._kill()
        return {"failed": reason + words}

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            # A request that a dead process never read is lost anyway.
            with contextlib.suppress(BrokenPipeError):
                assert pipe is not None
                pipe.close()
        process.wait()

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "no output"
