"""How the wait that a server asks for is read."""

import pytest

from seqoria_runtime._base.retry_after import parse_retry_after

NOW = 1_796_026_481.0  # Mon, 30 Nov 2026 08:14:41 GMT


@pytest.mark.clause("C93")
@pytest.mark.case("J2")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2", 2.0),
        ("0", 0.0),
        ("1.5", 1.5),
        (" 3 ", 3.0),
        ("90", 90.0),
        ("999999", 999999.0),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("1_0", None),
        ("9" * 400, None),
        ("soon", None),
        ("", None),
        ("Mon, 30 Nov 2026 08:14:43 GMT", 2.0),
        ("Monday, 30-Nov-26 08:14:43 GMT", 2.0),
        ("Mon, 30 Nov 2026 08:14:40 GMT", None),
        ("Mon, 30 Nov 99999 08:14:43 GMT", None),
        ("Mon, 32 Nov 2026 08:14:43 GMT", None),
    ],
)
def test_a_wait_is_a_number_of_seconds_or_a_date_to_come(value: str, seconds: float | None) -> None:
    assert parse_retry_after({"retry-after": value}, now=NOW) == seconds


def test_milliseconds_are_more_exact_than_seconds() -> None:
    assert parse_retry_after({"retry-after-ms": "250", "retry-after": "1"}, now=NOW) == 0.25
    assert parse_retry_after({"retry-after-ms": "soon", "retry-after": "1"}, now=NOW) == 1.0


def test_a_date_is_counted_from_the_servers_own_clock() -> None:
    headers = {"retry-after": "Mon, 30 Nov 2026 09:00:05 GMT", "date": "Mon, 30 Nov 2026 09:00:00 GMT"}
    assert parse_retry_after(headers, now=NOW) == 5.0


def test_without_a_header_there_is_no_wait() -> None:
    assert parse_retry_after({}, now=NOW) is None
