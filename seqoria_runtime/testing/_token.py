"""Owns the short text that stands for one run: backend, schedule, and where it was interrupted.

`a1:4.1-9.2` is asyncio, first form of token, in the default order but for choices 4 and 9;
`t1:/scope@37` is trio in the default order, its scope cancelled at point 37.
"""

import base64
import binascii
import re
import zlib
from dataclasses import dataclass

from ._schedule import FixedSchedule
from ._virtual_time import Backend

_LETTERS: dict[Backend, str] = {"asyncio": "a", "trio": "t"}
_SHAPE = re.compile(r"(?P<letter>[at])1:(?P<changes>[^/]*)(/(?P<form>\w+)@(?P<site>[^@/]+))?")
_LONG = 120


@dataclass(frozen=True, slots=True)
class Site:
    """Where a run is interrupted, and how: `form` is the kind of interruption, `at` a point or a time."""

    form: str
    at: float


@dataclass(frozen=True, slots=True)
class Token:
    """One run of a scenario, as far as it was chosen."""

    backend: Backend
    schedule: FixedSchedule
    site: Site | None = None

    def __str__(self) -> str:
        site = f"/{self.site.form}@{_number(self.site.at)}" if self.site else ""
        return f"{_LETTERS[self.backend]}1:{_write(self.schedule.changes)}{site}"

    @classmethod
    def read(cls, text: str) -> "Token":
        """Raises `ValueError` for anything that is no token of this form."""
        match = _SHAPE.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise ValueError(f"a token looks like 'a1:4.1-9.2' or 't1:/scope@37', not {text!r}")
        backend: Backend = "asyncio" if match["letter"] == "a" else "trio"
        try:
            changes = _read(match["changes"])
            site = Site(match["form"], float(match["site"])) if match["form"] else None
        except (ValueError, binascii.Error, zlib.error) as exc:
            raise ValueError(f"the token {text!r} is damaged: {exc}") from exc
        return cls(backend, FixedSchedule(changes), site)


def _write(changes: tuple[tuple[int, int], ...]) -> str:
    plain = "-".join(f"{choice}.{position}" for choice, position in changes)
    if len(plain) <= _LONG:
        return plain
    return "~" + base64.urlsafe_b64encode(zlib.compress(plain.encode(), 9)).decode()


def _read(text: str) -> tuple[tuple[int, int], ...]:
    if text.startswith("~"):
        text = zlib.decompress(base64.urlsafe_b64decode(text[1:])).decode()
    pairs = (part.split(".") for part in text.split("-") if text)
    return tuple((int(choice), int(position)) for choice, position in pairs)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
