"""Reads how long a server asks to wait; `None` for anything unusable."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# Stricter than float(), which also takes "nan", "inf" and "1_000".
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{0,15})?")


def parse_retry_after(headers: Mapping[str, str], *, now: float) -> float | None:
    """Return the wait in seconds from `retry-after-ms` or `Retry-After`, a number or an HTTP date.

    `headers` has lower-case names; `now` is the wall clock in seconds since the epoch, used if the
    answer has no `Date`. A date in the past is `None`.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return seconds
    until = _timestamp(value)
    if until is None:
        return None
    sent = _timestamp(headers.get("date"))
    wait = until - (now if sent is None else sent)
    return wait if wait > 0 else None


def _number(value: str | None) -> float | None:
    if value is None or not _NUMBER.fullmatch(value.strip()):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _timestamp(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        moment: datetime = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
