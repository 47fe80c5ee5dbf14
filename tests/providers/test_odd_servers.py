"""Servers that answer in odd ways: the answer is complete, or an error says why it is not."""

import gzip
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest

from seqoria_runtime.models import AssistantMessage, ChatChunk, UserMessage
from seqoria_runtime.models.errors import (
    AuthenticationError,
    InvalidRequestError,
    LLMError,
    ProviderProtocolError,
    ServerError,
)
from seqoria_runtime.providers import ModelRequest, ProviderEvent
from tests.support.wire_formats import FORMATS, Chat, Messages, Ollama, Responses
from tests.support.wires import Stream

REQUEST = ModelRequest([UserMessage(content="hi")])
all_formats = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
of_events = pytest.mark.parametrize("form", [Chat, Messages, Responses], ids=lambda form: form.name)


class Body(httpx.AsyncByteStream):
    def __init__(self, data: bytes, *, piece: int) -> None:
        self.data = data
        self.piece = piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.data), self.piece):
            yield self.data[start : start + self.piece]


async def asked(
    form: type[Stream],
    data: bytes,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    piece: int = 100_000,
) -> list[ProviderEvent | LLMError]:
    """Ask a server that answers like this; what fails comes last."""

    def answer(_: httpx.Request) -> httpx.Response:
        told = {"content-type": form.content_type} | dict(headers or {})
        return httpx.Response(status, headers=told, stream=Body(data, piece=piece))

    events: list[Any] = []
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        provider = form.provider("m", base_url="http://localhost:1", http_client=client)
        try:
            async for event in provider.stream(REQUEST):
                events.append(event)  # noqa: PERF401  # what came before the failure counts
        except LLMError as error:
            events.append(error)
    return events


async def refused(form: type[Stream], data: bytes = b"", **given: Any) -> LLMError:
    *_, error = await asked(form, data, **given)
    assert isinstance(error, LLMError)
    assert len(str(error)) < 1500
    return error


def whole(form: type[Stream]) -> bytes:
    return form().start().text("a", "é漢😀").end().data


def said(events: list[ProviderEvent | LLMError]) -> tuple[str, str]:
    *chunks, message = events
    assert isinstance(message, AssistantMessage), message
    return "".join(chunk.content for chunk in chunks if isinstance(chunk, ChatChunk)), message.content


@pytest.mark.case("E2", "E4")
@of_events
@pytest.mark.parametrize(
    "bend",
    [
        lambda data: data.replace(b"\n", b"\r"),
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"data: ", b"data:"),
        lambda data: b"id: 1\nretry: 5\n" + data.replace(b"data: ", b"id: 7\ndata: "),
        lambda data: b": x\n\n" + data.replace(b"\n\n", b"\n\n: ping\n\n:\n\nid: 3\n\n"),
        lambda data: data.replace(b"\n\n", b"\n\n\n\n\n"),
        lambda data: data.removesuffix(b"\n"),
    ],
    ids=["CR", "CRLF", "BOM", "no space", "fields", "comments", "blank lines", "no last line end"],
)
async def test_every_way_to_write_events_is_read(form: type[Stream], bend: Any) -> None:
    for piece in (1, 100_000):
        assert said(await asked(form, bend(whole(form)), piece=piece)) == ("aé漢😀", "aé漢😀")


@pytest.mark.clause("C95")
@all_formats
@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"\x00" * 10, b"<html>Sign in</html>", b"data: 5\n\n", b"data: " + b"[" * 100_000],
    ids=["nothing", "null", "list", "zeros", "page", "number", "nested"],
)
async def test_what_is_not_an_answer_is_an_error_of_bounded_length(form: type[Stream], data: bytes) -> None:
    for headers in ({}, {"content-type": "application/json"}, {"content-type": ""}):
        assert isinstance(await refused(form, data, headers=headers), ProviderProtocolError)


@all_formats
async def test_a_web_page_with_status_200_names_its_type(form: type[Stream]) -> None:
    error = await refused(form, b"<html>Sign in</html>", headers={"content-type": "text/html; charset=utf-8"})
    assert "its content type is 'text/html': check the base URL" in str(error)


@all_formats
async def test_a_status_without_a_body_has_an_error_of_its_class(form: type[Stream]) -> None:
    for status, expected in (
        (204, ProviderProtocolError),
        (418, InvalidRequestError),
        (520, ServerError),
        (599, ServerError),
    ):
        assert type(await refused(form, status=status)) is expected


@pytest.mark.clause("C96")
@all_formats
async def test_a_redirect_says_where_it_leads_without_a_credential(form: type[Stream]) -> None:
    location = "https://me:s3cret@login.example/start?key=s3cret"
    for status in (301, 302, 307, 308):
        error = await refused(form, b"<html>moved</html>", status=status, headers={"location": location})
        assert type(error) is ProviderProtocolError
        assert "leads to https://[REDACTED]@login.example/start" in str(error)
        assert "not followed: check the base URL" in str(error)
        assert "s3cret" not in str(error)
        assert error.status_code == status


@pytest.mark.clause("C96")
@all_formats
async def test_no_key_follows_a_redirect_though_the_applications_client_would(
    form: type[Stream],
) -> None:
    hosts: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        return httpx.Response(307, headers={"location": "https://elsewhere.example/"})

    transport = httpx.MockTransport(answer)
    async with httpx.AsyncClient(transport=transport, follow_redirects=True) as client:
        provider = form.provider("m", base_url="http://localhost:1", http_client=client, api_key="s3cret")
        with pytest.raises(ProviderProtocolError, match=r"leads to https://elsewhere\.example/, and is not"):
            await provider.generate(REQUEST)
    assert hosts == ["localhost"]


@pytest.mark.clause("C96")
@all_formats
async def test_a_redirect_to_nowhere_is_an_error_all_the_same(form: type[Stream]) -> None:
    for location in ("http://me:s3cret@[bad", "", "//", "?key=s3cret", "\\\\h"):
        assert "s3cret" not in str(await refused(form, status=302, headers={"location": location}))


@all_formats
async def test_a_compressed_answer_that_breaks_off_is_an_error_after_its_text(form: type[Stream]) -> None:
    packed = gzip.compress(whole(form))
    assert said(await asked(form, packed, headers={"content-encoding": "gzip"}, piece=7))[1] == "aé漢😀"
    events = await asked(form, packed[:-20], headers={"content-encoding": "gzip"}, piece=7)
    assert isinstance(events[-1], ProviderProtocolError)


@pytest.mark.clause("C96")
@all_formats
@pytest.mark.parametrize("status", [200, 401])
async def test_an_error_that_repeats_a_key_shows_none(form: type[Stream], status: int) -> None:
    words = "bad key sk-abcdefgh12345678 at https://u:s3cret@h/x?key=s3cret Authorization: Bearer s3cret12345"
    data = ('{"error": {"message": "' + words + '"}}').encode()
    if status == 200 and form is not Ollama:
        data = b"data: " + data + b"\n\n"
    error = await refused(form, data, status=status)
    assert isinstance(error, AuthenticationError if status == 401 else ServerError)
    assert "s3cret" not in str(error)
    assert "abcdefgh" not in str(error)


@all_formats
async def test_one_delta_of_megabytes_is_read_completely(form: type[Stream]) -> None:
    data = form().start().text("x" * 3_000_000).end().data
    assert len(said(await asked(form, data, piece=65_536))[1]) == 3_000_000
