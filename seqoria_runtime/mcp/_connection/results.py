"""Turns a remote tool's result into text for a model, and makes results acceptable to the SDK's models.

Pure: works on the JSON that the server sent, so that nothing is lost that the SDK's models do not know.
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
    """Return the text of a successful result: its content in order, or its structured content as JSON."""
    texts = _texts(result)
    if texts:
        return "\n".join(texts)
    structured = _structured_text(result)
    return structured if structured is not None else NOTHING


def error_text(result: Mapping[str, Any]) -> str:
    """Return the text of an error result: its content and its structured content, without repetition."""
    texts = [text for text in _texts(result) if text.strip()]
    structured = _structured_text(result)
    if structured is not None and not any(_is_json_of(text, result["structuredContent"]) for text in texts):
        texts.append(structured)
    return "\n".join(texts) or NO_MESSAGE


def _texts(result: Mapping[str, Any]) -> list[str]:
    # `readable` has made each block a text.
    return [block["text"] for block in result["content"]]


def _structured_text(result: Mapping[str, Any]) -> str | None:
    structured = result.get("structuredContent")
    return None if structured is None else json.dumps(structured, ensure_ascii=False)


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


def _note(*pieces: str) -> str:
    return f"[{bounded(pieces[0], _MAX_LABEL)}{_rest(pieces[1:])}]"


def _rest(pieces: Iterable[str]) -> str:
    text = ", ".join(bounded(part, _MAX_LABEL) for part in pieces)
    return f": {text}" if text else ""


def readable(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result in a form that the SDK's strict models accept, without losing anything useful.

    Each content block of a call becomes a text; blocks of other kinds are described. Tools without a name
    or an object schema are left out. Annotations are kept whole under `ANNOTATIONS_KEY` in `_meta`, because
    the models drop the ones that they do not know.
    """
    if method not in {"tools/call", "tools/list"}:
        return result
    # One odd part (a new kind of content, a `_meta` that is a list) would make the SDK reject all of the
    # result, or the whole list of tools.
    result = {"resultType": "complete", **result}
    if not isinstance(result.get("_meta", {}), dict):
        del result["_meta"]
    if method == "tools/list":
        tools = result.get("tools")
        listed = tools if isinstance(tools, list) else []
        result["tools"] = [_strict(tool) for tool in listed if _usable(tool)]
    elif "content" in result or result["resultType"] == "complete":
        content = result.get("content")
        texts = [_block_text(block) for block in content] if isinstance(content, list) else []
        if not isinstance(result.get("structuredContent", {}), dict):
            # Revisions up to 2025-11-25 allow objects only: keep anything else as text.
            structured = _structured_text(result)
            del result["structuredContent"]
            texts = texts or ([] if structured is None else [structured])
        result["content"] = [{"type": "text", "text": text} for text in texts]
    return result


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
