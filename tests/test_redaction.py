"""No credential in any text that leaves the package, and other text left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime._base.redaction import bounded, redact, redact_mistyped_url, redact_url

SECRET = "hunter2-XyZ9"


@pytest.mark.clause("C96")
@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("postgresql://user:pw@db:5432/x", "postgresql://[REDACTED]@db:5432/x"),
        ("at https://key@h.example/v1.", "at https://[REDACTED]@h.example/v1."),
        ("http://h:8080/p/q?key=v&page=2", "http://h:8080/p/q?key=[REDACTED]&page=[REDACTED]"),
        ("http://h/p?bare&x=", "http://h/p?[REDACTED]&x="),
        ("http://h/p#token", "http://h/p#[REDACTED]"),
        ("<http://u:p@[::1]:80/a>", "<http://[REDACTED]@[::1]:80/a>"),
        ("http://h:notaport/x", "[REDACTED URL]"),
        ("http://u:p/w@h/x", "[REDACTED URL]"),
        ("http://[::1/x", "[REDACTED URL]"),
        ("Bearer x", "Bearer [REDACTED]"),
        ("bearer abc.def-1~2+/=", "bearer [REDACTED]"),
        ("Basic dXNlcjpwYXNz", "Basic [REDACTED]"),
        ("Authorization: Bearer abc", "Authorization: [REDACTED]"),
        ("{'Authorization': 'Basic dXNlcjpwYXNz'}", "{'Authorization': '[REDACTED]'}"),
        ("x-api-key: abc", "x-api-key: [REDACTED]"),
        ("api_key=abc, next", "api_key=[REDACTED], next"),
        ('api_key="a \\" b" next', 'api_key="[REDACTED]" next'),
        ("apiKey='it''s' next", "apiKey='[REDACTED]''s' next"),
        ('{"api_key": "abc", "n": 1}', '{"api_key": "[REDACTED]", "n": 1}'),
        ('{\\"api_key\\": \\"abc\\"}', '{\\"api_key\\": \\"[REDACTED]\\"}'),
        ('{"password":123}', '{"password":[REDACTED]}'),
        ('"api_key": "cut he', '"api_key": "[REDACTED]"'),
        ('"api_key": "cut \\', '"api_key": "[REDACTED]"'),
        ("password: hunter2", "password: [REDACTED]"),
        ("OPENAI_API_KEY=abc", "OPENAI_API_KEY=[REDACTED]"),
        ("AWS_SECRET_ACCESS_KEY=abc", "AWS_SECRET_ACCESS_KEY=[REDACTED]"),
        ('{"token": "abc"}', '{"token": "[REDACTED]"}'),
        ("token=abc&x", "token=[REDACTED]&x"),
        ("Set-Cookie: a=b; c=d\nnext", "Set-Cookie: [REDACTED]\nnext"),
        ("Incorrect API key provided: sk-abc***wxyz. You", "Incorrect API key provided: [REDACTED]. You"),
        ("sk-ant-x1y2z3w4v5 and gsk_abcdefghijkl123", "[REDACTED] and [REDACTED]"),
        ("AIza" + "x" * 35, "[REDACTED]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.c2lnbmF0dXJl", "[REDACTED]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\n", "[REDACTED]\n"),
        ("-----BEGIN PRIVATE KEY-----\nMII", "[REDACTED]"),
    ],
)
def test_a_credential_is_hidden_and_the_rest_stays(text: str, safe: str) -> None:
    assert redact(text) == safe
    assert redact(safe) == safe


@pytest.mark.parametrize(
    "text",
    [
        "Unexpected token: comma",
        "unexpected token , at 5",
        "max_tokens: 4096, tokens=5",
        "This model's maximum context length is 8192 tokens.",
        "the key is = foo",
        "keyboard=3 monkey=3",
        "bearer token required",
        "Basic understanding of things",
        "sk-learning-rate",
        "http://h/path.html and https://h:8443/a/@scope/b",
        "see the Authorization header",
        "secrets of the sea",
        "",
    ],
)
def test_text_without_a_credential_is_left_alone(text: str) -> None:
    assert redact(text) == text


@pytest.mark.clause("C96")
@given(st.text(max_size=30), st.text(max_size=30))
@pytest.mark.parametrize(
    "around", ["api_key={}", '"api_key": "{}"', "Bearer {}", "https://u:{}@host/", "http://h/?k={}", "sk-{}"]
)
def test_a_secret_is_hidden_whatever_stands_around_it(around: str, before: str, after: str) -> None:
    written = around.format(SECRET)
    assert SECRET not in redact(f"{before}\n{written} {after}")


@given(st.text(st.sampled_from("ab:/@?#&=%[]\"'\\ \n.-_kKey"), max_size=60))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "a",
            "a-",
            "a://",
            "http://",
            'api_key="',
            'api_key=\\"',
            'api_key="abc\\',
            "sk-",
            "eyJ",
            "eyJaaaaaaaaaaaa.",
        ),
        *(
            "bearer ",
            "basic a",
            "token",
            "key   ",
            "key" + "\\" * 50,
            "-----BEGIN PRIVATE KEY-----",
            "cookie: ",
        ),
        *("api_key:", "password='\"", "\\", '"', "://@"),
    ],
)
def test_long_text_of_any_kind_is_done_with_in_one_go(piece: str) -> None:
    # With a pattern that goes over the text once per match, this would take hours.
    redact(piece * (400_000 // len(piece)))


def test_a_url_may_be_redacted_alone() -> None:
    assert redact_url("https://u:p@h/v1?k=v") == "https://[REDACTED]@h/v1?k=[REDACTED]"
    assert redact_url("not a url") == "[REDACTED URL]"


@pytest.mark.clause("C96")
@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("127.0.0.1:18090/v1", "127.0.0.1:18090/v1"),
        ("localhost:8080", "localhost:8080"),
        ("api.example.org/v1?key=abc", "api.example.org/v1?[REDACTED]"),
        ("user:p/w@h:80/v1", "[REDACTED]@h:80/v1"),
        ("http:/u:p@h.example/v1#t", "[REDACTED]@h.example/v1#[REDACTED]"),
        ("http:/127.0.0.1/v1", "http:/127.0.0.1/v1"),
        ("ftp://u:p@h/x", "ftp://[REDACTED]@h/x"),
        ("http://h:notaport/x", "[REDACTED URL]"),
        ("h:1/x?a=p@host", "[REDACTED URL]"),
        ("nonsense", "[REDACTED URL]"),
        ("0a1b2c.d3e4f5", "[REDACTED URL]"),
        ("sk-abcd1234efgh5678:80/x", "[REDACTED]:80/x"),
        ("", "[REDACTED URL]"),
    ],
)
def test_a_mistyped_url_shows_its_host_and_path(typed: str, shown: str) -> None:
    assert redact_mistyped_url(typed) == shown


@given(st.text(max_size=80))
def test_any_text_can_be_a_mistyped_url(text: str) -> None:
    assert redact_mistyped_url(text)


def test_bounded_text_is_cut_with_a_mark() -> None:
    assert bounded("abc", 3) == "abc"
    assert bounded("a" * 20, 10) == "aaaa [cut]"
    assert bounded("a" * 20, 2) == " ["
