"""Tokens: a short text for one run, with its backend, schedule and interruption.

`a1:4.0.2-6.3` is asyncio, version 1 of the format, in the default order except that task 4 is passed
over 2 times before its step 0, and task 6 once before its step 3. `t1:/scope@37` is trio in the default
order, with a scope cancelled at point 37.
"""

import base64
import binascii
import re
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from seqoria_runtime.testing._clock.deadlock_watch import Backend
from seqoria_runtime.testing._schedules.schedule import FixedSchedule

_LETTERS: dict[Backend, str] = {"asyncio": "a", "trio": "t"}
_SHAPE = re.compile(r"(?P<letter>[at])1:(?P<delays>[^/]*)(/(?P<form>\w+)@(?P<site>[^@/]+))?")
_LONG = 120


class Site(NamedTuple):
    """An interruption of a run: `form` is its kind, `at` a point or a time."""

    form: str
    at: float


@dataclass(frozen=True, slots=True)
class Token:
    """The choices that determine one run of a scenario."""

    backend: Backend
    schedule: FixedSchedule
    site: Site | None = None

    def __str__(self) -> str:
        site = f"/{self.site.form}@{_number(self.site.at)}" if self.site else ""
        return f"{_LETTERS[self.backend]}1:{_write(self.schedule)}{site}"

    @classmethod
    def read(cls, text: str) -> "Token":
        """Read a token; raises `ValueError` for any other text."""
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise ValueError(f"a token looks like 'a1:4.0.2-6.3' or 't1:/scope@37', not {text!r}")
        backend: Backend = "asyncio" if match["letter"] == "a" else "trio"
        try:
            schedule = _read(match["delays"])
            site = Site(match["form"], float(match["site"])) if match["form"] else None
        except (ValueError, binascii.Error, zlib.error) as exc:
            raise ValueError(f"the token {text!r} is damaged: {exc}") from exc
        return cls(backend, schedule, site)


def _write(schedule: FixedSchedule) -> str:
    plain = "-".join(_delay(*delay) for delay in schedule.delays)
    if len(plain) <= _LONG:
        return plain
    return "~" + base64.urlsafe_b64encode(zlib.compress(plain.encode(), 9)).decode()


def _delay(task: int, step: int, times: int) -> str:
    name = str(task) if task >= 0 else f"x{-task}"
    return f"{name}.{step}" + (f".{times}" if times != 1 else "")


def _read(text: str) -> FixedSchedule:
    if text.startswith("~"):
        text = zlib.decompress(base64.urlsafe_b64decode(text[1:])).decode()
    return FixedSchedule(tuple(_read_delay(part) for part in text.split("-") if part))


def _read_delay(part: str) -> tuple[int, int, int]:
    name, step, times = part.split(".") if part.count(".") > 1 else (*part.split("."), "1")
    return (-int(name[1:]) if name.startswith("x") else int(name)), int(step), int(times)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
