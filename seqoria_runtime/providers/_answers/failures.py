"""Turns what a server says about a failure into this package's errors.

The server's code decides, then its status, then its type of error, and never its prose. Only the
message, redacted and bounded, and the numbers of tokens come from the prose.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from seqoria_runtime._base.redaction import bounded, redact
from seqoria_runtime._base.retry_after import parse_retry_after
from seqoria_runtime.models.errors import (
    AuthenticationError,
    ContentFilterError,
    ContextLengthExceededError,
    InvalidRequestError,
    LLMError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderProtocolError,
    ProviderTimeoutError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
)

_MAX_MESSAGE = 1200
_FAILED_STATUS = re.compile(r"[45]\d\d", re.ASCII)
_BY_CODE: dict[str, type[LLMError]] = {
    "invalid_api_key": AuthenticationError,
    "invalid_authentication": AuthenticationError,
    "authentication_error": AuthenticationError,
    "unauthorized": AuthenticationError,
    "permission_error": PermissionDeniedError,
    "permission_denied": PermissionDeniedError,
    "unsupported_country_region_territory": PermissionDeniedError,
    "model_not_found": ModelNotFoundError,
    "deploymentnotfound": ModelNotFoundError,
    "insufficient_quota": QuotaExceededError,
    "insufficient_balance": QuotaExceededError,
    "quota_exceeded": QuotaExceededError,
    "billing_hard_limit_reached": QuotaExceededError,
    "billing_not_active": QuotaExceededError,
    "billing_error": QuotaExceededError,
    "rate_limit_exceeded": RateLimitError,
    "rate_limit_error": RateLimitError,
    "context_length_exceeded": ContextLengthExceededError,
    "exceed_context_size_error": ContextLengthExceededError,
    "content_filter": ContentFilterError,
    "content_policy_violation": ContentFilterError,
    "responsibleaipolicyviolation": ContentFilterError,
    "data_inspection_failed": ContentFilterError,
    "image_content_policy_violation": ContentFilterError,
    "bio_policy": ContentFilterError,
    "misalignment_policy_violation": ContentFilterError,
    "overloaded_error": OverloadedError,
    "overloaded": OverloadedError,
    "engine_overloaded": OverloadedError,
    "unavailable_error": OverloadedError,
    "service_unavailable": OverloadedError,
    "service_tier_capacity_exceeded": OverloadedError,
}
_BY_STATUS: dict[int, type[LLMError]] = {
    401: AuthenticationError,
    402: QuotaExceededError,
    403: PermissionDeniedError,
    404: ModelNotFoundError,
    408: ProviderTimeoutError,
    429: RateLimitError,
    498: OverloadedError,
    503: OverloadedError,
    529: OverloadedError,
}
_BAD_INPUT_CODES = (
    "invalid_prompt", "data_residency_mismatch", "invalid_image", "invalid_image_format",
    "invalid_base64_image", "invalid_image_url", "image_too_large", "image_too_small",
    "image_parse_error", "invalid_image_mode", "image_file_too_large", "unsupported_image_media_type",
    "empty_image_file", "failed_to_download_image", "image_file_not_found",
)  # fmt: skip
# Too general to go before a status: servers use several of these for anything.
_BY_TYPE: dict[str, type[LLMError]] = {
    "invalid_request_error": InvalidRequestError,
    "badrequesterror": InvalidRequestError,
    "not_found_error": ModelNotFoundError,
    "notfounderror": ModelNotFoundError,
    "timeout_error": ProviderTimeoutError,
    "request_too_large": InvalidRequestError,
    # Codes of failed answers in the Responses format, which have neither a status nor a type.
    "vector_store_timeout": ProviderTimeoutError,
    **dict.fromkeys(_BAD_INPUT_CODES, InvalidRequestError),
}
# The field that servers without a code for it name when the prompt is too long.
_PROMPT_PARAMS = {"input_tokens"}


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """What a server said about a failure; what it did not say is empty."""

    message: str = ""
    type: str = ""
    code: str = ""
    status: int | None = None
    param: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HTTPFailure:
    """What is known about a refused request besides its body; `url` is safe to show."""

    status: int
    model: str
    request_id: str | None = None
    retry_after: float | None = None
    url: str = ""

    @classmethod
    def of(cls, status: int, headers: Mapping[str, str], model: str, *, url: str = "") -> "HTTPFailure":
        """Read the headers, with lower-case names or in a mapping that ignores case."""
        return cls(status, model, request_id(headers), parse_retry_after(headers, now=time.time()), url)


def request_id(headers: Mapping[str, str]) -> str | None:
    """Return the server's id for the request, cut to 200 characters."""
    for name in ("x-request-id", "request-id", "apim-request-id"):
        if headers.get(name):
            return bounded(headers[name], 200)
    return None


def details_of(value: Any) -> ErrorDetails:
    """Read an error in any form that servers use.

    That is `{"error": {...}}`, `{"error": "text"}`, the bare object, `{"detail": ...}`, a list of one
    of these, or text.
    """
    if isinstance(value, list):
        value = value[0] if value else {}
    if isinstance(value, Mapping):
        inner = value.get("error", value)
        if isinstance(inner, Mapping):
            return _details_of_object(inner)
        value = inner
    return ErrorDetails(message=_message_text(value))


def _details_of_object(error: Mapping[str, Any]) -> ErrorDetails:
    code, param = error.get("code"), error.get("param")
    return ErrorDetails(
        message=_message_text(error.get("message") or error.get("detail") or error.get("msg")),
        type=_lower(error.get("type")),
        code=_lower(code),
        status=_status(code),
        param=param if isinstance(param, str) else None,
        fields=error,
    )


def _message_text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def _lower(value: Any) -> str:
    return value.lower() if isinstance(value, str) else ""


def _status(code: Any) -> int | None:
    text = str(code)
    return int(text) if _FAILED_STATUS.fullmatch(text) else None


def failure_of_event(event: Any, *, model: str) -> LLMError:
    """Make the error for a failure inside an answer whose HTTP status was a success."""
    details = details_of(event)
    message = details.message or "the provider reported an error without a message"
    return _error(details, details.status, _safe(message), model)


def failure_of_response(body: bytes, failure: HTTPFailure) -> LLMError:
    """Make the error for a response with an error status; its body may be cut, or not JSON at all."""
    text = body.decode("utf-8", "replace")
    try:
        details = details_of(json.loads(text))
    except (ValueError, RecursionError):
        details = ErrorDetails(message=text.strip())
    message = _safe(details.message) or f"HTTP {failure.status} {_phrase(failure.status)}".strip()
    # Without a code, a wrong path is as likely as an unknown model.
    if failure.status == HTTPStatus.NOT_FOUND and failure.url and _coded_class(details) is None:
        message += f" (HTTP 404 from {failure.url})"
    if failure.request_id is not None:
        message += f" (request_id={failure.request_id})"
    error = _error(details, failure.status, message, failure.model)
    error.status_code = failure.status
    error.request_id = failure.request_id
    error.retry_after = failure.retry_after
    return error


def safe_cause(error: Exception) -> Exception | None:
    """Return the error if its text may be shown as the cause of another; `None` if it holds a secret."""
    return error if redact(str(error)) == str(error) else None


def _safe(message: str) -> str:
    return bounded(redact(message), _MAX_MESSAGE)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _error(details: ErrorDetails, status: int | None, message: str, model: str) -> LLMError:
    error = _class_of(details, status)(message, status_code=status)
    match error:
        case ModelNotFoundError():
            error.model_id = model
        case QuotaExceededError():
            error.limit_type = details.code or details.type or "quota"
        case ContextLengthExceededError():
            error.model_id = model
            error.tokens, error.max_tokens = _token_counts(details)
        case ContentFilterError():
            error.filter_reason = details.code or details.type or None
        case InvalidRequestError():
            error.param = details.param
    return error


def _class_of(details: ErrorDetails, status: int | None) -> type[LLMError]:
    coded = _coded_class(details)
    if coded is not None:
        return coded
    if details.param in _PROMPT_PARAMS:
        return ContextLengthExceededError
    if status is None:
        return _BY_TYPE.get(details.code) or _BY_TYPE.get(details.type, ServerError)
    return _BY_STATUS.get(status) or _class_of_range(status)


def _coded_class(details: ErrorDetails) -> type[LLMError] | None:
    words = (details.code, details.type, _inner_code(details.fields))
    return next((_BY_CODE[word] for word in words if word in _BY_CODE), None)


def _inner_code(fields: Mapping[str, Any]) -> str:
    inner = fields.get("innererror")
    if isinstance(inner, Mapping):
        return _lower(inner.get("code"))
    metadata = fields.get("metadata")
    flagged = isinstance(metadata, Mapping) and "flagged_input" in metadata
    return "content_filter" if flagged else ""


def _class_of_range(status: int) -> type[LLMError]:
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ServerError
    # A redirect means that the base URL is not the API's. Following it would send the key along.
    return InvalidRequestError if status >= HTTPStatus.BAD_REQUEST else ProviderProtocolError


_LIMIT = re.compile(r"(?:maximum context length is|context size \(|limit of) ?(\d{1,9})")
_ASKED = re.compile(r"(?:resulted in|requested|request \(|contains at least|in total) ?(\d{1,9})")


def _token_counts(details: ErrorDetails) -> tuple[int | None, int | None]:
    tokens, limit = details.fields.get("n_prompt_tokens"), details.fields.get("n_ctx")
    if isinstance(tokens, int) and isinstance(limit, int):
        return tokens, limit
    return _count(_ASKED, details.message), _count(_LIMIT, details.message)


def _count(pattern: re.Pattern[str], message: str) -> int | None:
    found = pattern.search(message)
    return int(found[1]) if found else None
