"""Reads the content blocks of user messages, and writes them for Chat Completions.

It knows `text`, `image` (a URL, or base64 with a media type) and both forms of `image_url`. Other
blocks pass unchanged.
"""

import re
import string
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from seqoria_runtime._base.redaction import bounded, redact
from seqoria_runtime.models.errors import InvalidRequestError

_DEFAULT_IMAGE = "image/jpeg"
_SCHEMES = ("http://", "https://")
_BASE64 = (string.ascii_letters + string.digits + "+/").encode()
_DATA_URL = re.compile(r"data:(?P<media>[^;,]*)(?:;[^;,]*)*;base64,(?P<data>.*)", re.DOTALL)


class Image(NamedTuple):
    """An image in a user's message; `url` may be a data URL."""

    url: str
    detail: str | None = None

    @property
    def inline(self) -> tuple[str, str] | None:
        """The media type and the base64 of an image that the message contains."""
        found = _DATA_URL.fullmatch(self.url)
        return (found["media"] or _DEFAULT_IMAGE, found["data"]) if found else None


def image_of(block: Mapping[str, Any]) -> Image | None:
    """Return the image in a block; `None` for a block of another type.

    Raises `InvalidRequestError` for an image block without a usable image.
    """
    kind = block.get("type")
    if kind == "image_url":
        image = block.get("image_url")
        place, detail = (
            (image.get("url"), image.get("detail")) if isinstance(image, Mapping) else (image, None)
        )
    elif kind == "image":
        place, detail = _image_url(block), block.get("detail")
    else:
        return None
    if not isinstance(place, str) or not place:
        raise InvalidRequestError("an image block must hold its image as 'url' or as 'base64'")
    image = Image(place, detail)
    _check(image)
    return image


def _check(image: Image) -> None:
    if image.inline is not None:
        _check_inline(*image.inline)
    elif not image.url.startswith(_SCHEMES):
        raise InvalidRequestError(
            "an image's URL must begin with http:// or https://, or be a data URL with base64, not"
            f" {redact(bounded(image.url, 50))!r}"
        )


def _check_inline(media_type: str, data: str) -> None:
    if not media_type.startswith("image/"):
        raise InvalidRequestError(
            f"an image's media type must be one such as 'image/png', not {bounded(media_type, 50)!r}"
        )
    # What is left must be the padding. One pass in C, since an image may be large and is sent each round.
    rest = data.encode("utf-8", "replace").translate(None, _BASE64)
    if not data or len(data) % 4 or rest not in {b"", b"=", b"=="} or not data.endswith(rest.decode()):
        raise InvalidRequestError(
            "an image's base64 must be the text from base64.b64encode(...).decode(), without line breaks"
            f" or a prefix, not {bounded(data, 30)!r}"
        )


def _image_url(block: Mapping[str, Any]) -> Any:
    source = block.get("source")
    image = source if isinstance(source, Mapping) else block
    if image.get("url") is not None:
        return image["url"]
    data = image.get("base64") or image.get("data")
    if data is not None and not isinstance(data, str):
        raise InvalidRequestError(f"an image's base64 must be text, not {type(data).__name__}")
    return f"data:{image.get('media_type') or _DEFAULT_IMAGE};base64,{data}" if data else None


def wire_content(
    content: str | Sequence[Mapping[str, Any]] | None, extras: Collection[str] = ()
) -> str | list[dict[str, Any]]:
    """Return text, or the parts that are not empty; empty text if no part is left.

    `extras` are fields of a block that are sent with its part.
    """
    if content is None or isinstance(content, str):
        return content or ""
    parts = [
        part | {name: block[name] for name in extras if name in block}
        for block in content
        if (part := _part(block)) is not None
    ]
    return parts or ""


def content_or_text(
    content: str | Sequence[Mapping[str, Any]] | None,
    part_of: Callable[[Mapping[str, Any]], dict[str, Any] | None],
) -> str | list[dict[str, Any]]:
    """Return text that is not blank, or the parts that a format makes of the blocks; else empty text."""
    if content is None or isinstance(content, str):
        return content if content and content.strip() else ""
    return [part for block in content if (part := part_of(block)) is not None]


def _part(block: Mapping[str, Any]) -> dict[str, Any] | None:
    image = image_of(block)
    if image is not None:
        kept = {"url": image.url} | ({"detail": image.detail} if image.detail is not None else {})
        return {"type": "image_url", "image_url": kept}
    text = block.get("text")
    if isinstance(text, str):
        return {"type": "text", "text": text} if text.strip() else None
    return dict(block)
