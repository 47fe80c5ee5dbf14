"""Owns how a remote tool's result becomes text for a model, and how a page of tools is read.

Pure: works on the protocol's JSON as it came, so that what the SDK's models do not know is not lost.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from seqoria_runtime._base.redaction import bounded

NOTHING = "Tool executed successfully."
ANNOTATIONS_KEY = "seqoria-runtime/annotations"
NO_MESSAGE = "the tool reported an error without a message"

_MAX_LABEL = 200
_BASE64_CHARS_PER_BYTE = 4 / 3


def result_text(result: Mapping[str, Any]) -> str:
    """The text of a result that is no error: its content in order, or its structured content as JSON."""
    texts = content_texts(result)
    if texts:
        return "\n".join(texts)
    structured = structured_text(result)
    return structured if structured is not None else NOTHING


def error_text(result: Mapping[str, Any]) -> str:
    """The text of a result that is an error: all that there is, each thing once."""
    texts = [text for text in content_texts(result) if text.strip()]
    structured = structured_text(result)
    if structured is not None and not any(_is_json_of(text, result["structuredContent"]) for text in texts):
        texts.append(structured)
    return "\n".join(texts) or NO_MESSAGE


def structured_text(result: Mapping[str, Any]) -> str | None:
    """A result's structured content as JSON, `None` where it has none."""
    structured = result.get("structuredContent")
    return None if structured is None else json.dumps(structured, ensure_ascii=False)


def content_texts(result: Mapping[str, Any]) -> list[str]:
    """Each content block as text; what is no text is described."""
    content = result.get("content")
    return [_block_text(block) for block in content] if isinstance(content, list) else []


def _is_json_of(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except ValueError:
        return False


def _block_text(block: Any) -> str:
    if not isinstance(block, Mapping):
        return _note("content of an unknown kind")
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    if kind in {"image", "audio"}:
        return _media(str(kind), block.get("mimeType"), block.get("data"))
    if kind == "resource_link":
        return _note("resource link", *_values(block, "name", "title", "uri", "mimeType", "description"))
    if kind == "resource" and isinstance(block.get("resource"), Mapping):
        return _resource(block["resource"])
    return _note(f"content of the unknown type {kind!r}", "not shown")


def _resource(resource: Mapping[str, Any]) -> str:
    label = _values(resource, "uri", "mimeType")
    text = resource.get("text")
    if isinstance(text, str):
        return f"{_note('resource', *label)}\n{text}"
    return _note("resource", *label, *_size(resource.get("blob")), "not shown")


def _media(kind: str, mime_type: Any, data: Any) -> str:
    return _note(kind, *([mime_type] if isinstance(mime_type, str) else []), *_size(data), "not shown")


def _size(data: Any) -> list[str]:
    if not isinstance(data, str):
        return []
    return [f"{int(len(data.rstrip('=')) / _BASE64_CHARS_PER_BYTE)} bytes"]


def _values(block: Mapping[str, Any], *names: str) -> list[str]:
    return [block[name] for name in names if isinstance(block.get(name), str) and block[name]]


def _note(*parts: str) -> str:
    return f"[{bounded(parts[0], _MAX_LABEL)}{_rest(parts[1:])}]"


def _rest(parts: Iterable[str]) -> str:
    text = ", ".join(bounded(part, _MAX_LABEL) for part in parts)
    return f": {text}" if text else ""


def readable(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """A result in a form that strict models of the protocol take, with nothing lost that is of use.

    A call's content becomes text blocks. Tools without a name or a schema of an object are left out;
    annotations are kept whole under `ANNOTATIONS_KEY` in `_meta`, since the models drop unknown ones.
    """
    if method not in {"tools/call", "tools/list"}:
        return result
    result = {"resultType": "complete", **result}
    if not isinstance(result.get("_meta", {}), dict):
        del result["_meta"]
    if method == "tools/list":
        tools = result.get("tools")
        listed = tools if isinstance(tools, list) else []
        result["tools"] = [_strict(tool) for tool in listed if _usable(tool)]
    elif result["resultType"] == "complete":
        result["content"] = [{"type": "text", "text": text} for text in content_texts(result)]
        if not isinstance(result.get("structuredContent", {}), dict):
            _make_text_of_structured(result)
    return result


def _make_text_of_structured(result: dict[str, Any]) -> None:
    """Put structured content that is no object, which older revisions do not know, into the text."""
    text = structured_text(result)
    del result["structuredContent"]
    if text is not None and not result["content"]:
        result["content"] = [{"type": "text", "text": text}]


def _usable(tool: Any) -> bool:
    return (
        isinstance(tool, dict)
        and isinstance(tool.get("name"), str)
        and bool(tool["name"])
        and isinstance(tool.get("inputSchema"), dict)
        and tool["inputSchema"].get("type", "object") == "object"
    )


def _strict(tool: dict[str, Any]) -> dict[str, Any]:
    tool = {**tool, "inputSchema": {"type": "object", **tool["inputSchema"]}}
    annotations = tool.get("annotations")
    if not isinstance(annotations, dict):
        return {name: value for name, value in tool.items() if name != "annotations"}
    meta = tool.get("_meta")
    return {**tool, "_meta": {**(meta if isinstance(meta, dict) else {}), ANNOTATIONS_KEY: annotations}}
