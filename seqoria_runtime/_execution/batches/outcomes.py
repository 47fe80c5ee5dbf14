"""Makes the outcomes of calls, and writes the errors that a model reads.

Every error names the tool and the cause, is redacted and bounded, and is written for a model to act on.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from pydantic import TypeAdapter

from seqoria_runtime._base.redaction import bounded, redact
from seqoria_runtime.models import ToolCallError, ToolCallRequest, ToolCallResult, ToolErrorKind

MAX_ERROR_CHARS = 2_000
_MAX_LISTED_CHARS = 600
_MAX_LEAVES = 20


# Half the cost of calling the classes with keywords, and the same checks.
_validate_result = TypeAdapter(ToolCallResult).validator.validate_python
_validate_error = TypeAdapter(ToolCallError).validator.validate_python


def result(request: ToolCallRequest, text: str) -> ToolCallResult:
    outcome: ToolCallResult = _validate_result({
        "tool_call_id": request.id,
        "name": request.name,
        "result": text,
        "response_id": request.response_id,
    })
    return outcome


def error(request: ToolCallRequest, kind: ToolErrorKind, text: str) -> ToolCallError:
    # A file name, for one, may hold half a surrogate pair, which no wire format accepts.
    sound = text if text.isascii() else text.encode(errors="replace").decode()
    outcome: ToolCallError = _validate_error({
        "tool_call_id": request.id,
        "name": request.name,
        "error": bounded(sound, MAX_ERROR_CHARS),
        "kind": kind,
        "response_id": request.response_id,
    })
    return outcome


def raised(request: ToolCallRequest, exc: BaseException) -> ToolCallError:
    # Redaction takes time, so cut a long text first, well beyond what will be shown.
    cause = redact(bounded(describe(exc), 10 * MAX_ERROR_CHARS))
    return error(request, "failed", f"Tool {request.name!r} failed: {cause}")


def unresolved(request: ToolCallRequest, exc: BaseException) -> ToolCallError:
    """Return the error of a call that failed while its trusted values were looked for; `exc` may hold one."""
    return error(
        request,
        "missing_parameter",
        f"Tool {request.name!r} failed: its server-populated parameters were not resolved: "
        f"{type(exc).__name__}",
    )


def describe(exc: BaseException) -> str:
    """Return what was raised as text: the message, and the type if the message alone says too little."""
    return "; ".join(_describe(leaf) for leaf in islice(leaves(exc), _MAX_LEAVES))


def leaves(exc: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in a group, at any depth and in order; or the exception itself if not a group."""
    left = [exc]
    while left:
        current = left.pop()
        if isinstance(current, BaseExceptionGroup):
            left += reversed(current.exceptions)
        else:
            yield current


def _describe(exc: BaseException) -> str:
    try:
        message = str(exc).strip()
    except BaseException:  # noqa: BLE001 - a broken __str__ is the application's, and must not cost the batch
        message = ""
    if not message:
        return type(exc).__name__
    if isinstance(exc, LookupError) or not isinstance(exc, Exception):
        return f"{type(exc).__name__}: {message}"
    return message


def timed_out(request: ToolCallRequest, seconds: float, *, began: bool) -> ToolCallError:
    effect = "it may have taken effect" if began else "the tool itself had not started"
    return error(request, "timed_out", f"Tool {request.name!r} timed out after {seconds:g}s; {effect}")


def unknown(request: ToolCallRequest, available: Iterable[str]) -> ToolCallError:
    name = bounded(request.name, 200)
    text = f"Tool {name!r} failed: Tool {name!r} not found on any connected server."
    names = ", ".join(sorted(available))
    if names:
        text += f" Available tools: {bounded(names, _MAX_LISTED_CHARS)}"
    return error(request, "unknown_tool", text)


def not_an_object(request: ToolCallRequest, raw: str) -> ToolCallError:
    return error(
        request,
        "invalid_arguments",
        f"Tool {request.name!r} failed: the arguments are not a JSON object: {bounded(raw, 500)}",
    )


def cut_off(request: ToolCallRequest) -> ToolCallError:
    return error(
        request,
        "invalid_arguments",
        f"Tool {request.name!r} failed: the call was cut off by the output limit and did not run; "
        "make the call shorter",
    )


def skipped(request: ToolCallRequest, failed: Iterable[str]) -> ToolCallError:
    return error(request, "skipped", f"Skipped because dependency failure: {', '.join(failed)}")


def cyclic(request: ToolCallRequest) -> ToolCallError:
    return error(request, "cyclic_dependency", "Cyclic dependency detected between requested tool calls.")


def cancelled_before_start(request: ToolCallRequest) -> ToolCallError:
    return error(request, "cancelled", f"Tool {request.name!r} was cancelled before it started")


def cancelled_while_running(request: ToolCallRequest) -> ToolCallError:
    return error(
        request,
        "cancelled",
        f"Tool {request.name!r} was cancelled while running; it may have taken effect",
    )


def unavailable(
    request: ToolCallRequest, seconds: float, holders: Iterable[str], *, limit: int | None = None
) -> ToolCallError:
    """Return the error of a call that found no slot, or no place under the `limit` of its tool or server."""
    names = ", ".join(sorted(set(holders)))
    place = "slot" if limit is None else f"place under its limit of {limit}"
    return error(
        request,
        "unavailable",
        f"Tool {request.name!r} failed: no {place} came free in {seconds:g}s, since threads of timed-out or "
        f"cancelled calls still hold all of them: {bounded(names, _MAX_LISTED_CHARS)}",
    )
