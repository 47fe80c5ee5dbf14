import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.mcp._config.endpoint import HTTPEndpoint, StdioCommand, detect_transport, target_of

pytestmark = pytest.mark.clause("C100")


@pytest.mark.parametrize(
    ("url", "transport"),
    [
        ("http://host/mcp", "http"),
        ("HTTPS://host", "http"),
        ("sse://host/sse", "sse"),
        ("SSES://host/sse", "sse"),
        ("stdio://python server.py", "stdio"),
        ("STDIO://python server.py", "stdio"),
        ("host:8000/mcp", "http"),
    ],
)
def test_the_scheme_tells_the_transport_in_whatever_case(url: str, transport: str) -> None:
    assert detect_transport(url) == transport
    assert target_of(url).transport == transport


@pytest.mark.parametrize(
    ("url", "transport", "reached"),
    [
        ("http://host", "auto", "http://host/mcp"),
        ("http://host/", "auto", "http://host/mcp"),
        ("https://host:1/api/", "auto", "https://host:1/api/"),
        ("http://host?key=1", "auto", "http://host/mcp?key=1"),
        ("localhost:8000", "auto", "http://localhost:8000/mcp"),
        ("HTTP://Host/x", "http", "http://Host/x"),
        ("http://host/x", "streamable-http", "http://host/x"),
        ("sse://host/events", "auto", "http://host/events"),
        ("SSES://host/events", "sse", "https://host/events"),
        ("https://host/events", "sse", "https://host/events"),
        ("http://host", "sse", "http://host"),
    ],
)
def test_a_url_becomes_the_address_that_is_asked(url: str, transport: str, reached: str) -> None:
    target = target_of(url, transport)
    assert isinstance(target, HTTPEndpoint)
    assert target.url == reached


@pytest.mark.parametrize(
    ("url", "transport", "argv"),
    [
        ("stdio://python server.py", "auto", ("python", "server.py")),
        ("stdio:///opt/server --flag 'two words'", "auto", ("/opt/server", "--flag", "two words")),
        ("python -m server", "stdio", ("python", "-m", "server")),
    ],
)
def test_a_command_line_is_split_like_a_shell_does(url: str, transport: str, argv: tuple[str, ...]) -> None:
    assert target_of(url, transport) == StdioCommand(argv)


@given(st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1), min_size=1))
def test_shlex_join_is_the_inverse_of_the_splitting(words: list[str]) -> None:
    assert target_of(f"stdio://{shlex.join(words)}") == StdioCommand(tuple(words))


@pytest.mark.parametrize(
    ("url", "transport", "complaint"),
    [
        ("", "auto", "'url' may not be empty"),
        ("  ", "auto", "'url' may not be empty"),
        ("ftp://host", "auto", "not ftp://"),
        ("stdio://", "auto", "name a command"),
        ("stdio://'open", "auto", "split into words"),
        ("http:///path", "auto", "name a host"),
        ("http://host:port", "auto", "valid port"),
        ("python server.py", "auto", "stdio://"),
        ("http://host", "carrier-pigeon", "'transport' must be"),
        ("http://host", "stdio", "'transport' is 'stdio'"),
        ("stdio://x", "http", "'transport' is 'http'"),
        ("sse://host", "http", "'transport' is 'http'"),
        ("stdio://a\0b", "auto", "null characters"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_the_reason(
    url: str, transport: str, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        target_of(url, transport)


@pytest.mark.clause("C96")
def test_a_servers_name_and_the_refusal_of_its_url_show_no_credentials() -> None:
    assert "secret" not in target_of("https://user:secret@host/mcp?api_key=secret").name
    assert "secret" not in target_of("stdio://server --api-key=secret").name
    with pytest.raises(ValueError, match="name a host") as refusal:
        target_of("http://user:secret@host:port/")
    assert "secret" not in str(refusal.value)
