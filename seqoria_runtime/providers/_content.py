"""Puts a user's content blocks into the form of Chat Completions.

Takes `text`, `image` (a URL, or base64 with a media type), `image_url` in both its forms, and
passes native blocks it does not know as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_DEFAULT_IMAGE = "image/jpeg"


def wire_content(content: str | Sequence[Mapping[str, Any]] | None) -> str | list[dict[str, Any]]:
    """Give text, or the parts that are not empty; text where no part is left."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = [part for block in content if (part := _part(block)) is not None]
    return parts or ""


def _part(block: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = block.get("type")
    if kind == "image_url":
        return _image_part(block.get("image_url"))
    if kind == "image":
        return _image_part({**block, "url": _image_url(block)})
    text = block.get("text")
    if isinstance(text, str):
        return {"type": "text", "text": text} if text.strip() else None
    return dict(block)


def _image_part(image: Any) -> dict[str, Any]:
    if not isinstance(image, Mapping):
        return {"type": "image_url", "image_url": {"url": image}}
    kept = {key: image[key] for key in ("url", "detail") if image.get(key) is not None}
    return {"type": "image_url", "image_url": kept}


def _image_url(block: Mapping[str, Any]) -> Any:
    source = block.get("source")
    image = source if isinstance(source, Mapping) else block
    if image.get("url") is not None:
        return image["url"]
    data = image.get("base64") or image.get("data")
    return f"data:{image.get('media_type') or _DEFAULT_IMAGE};base64,{data}"
