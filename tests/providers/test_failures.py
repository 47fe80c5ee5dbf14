"""How a server's report of a failure becomes one of this package's errors."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from seqoria_runtime.providers._answers.failures import HTTPFailure, failure_of_event, failure_of_response
from tests.support.chat_wire import recorded


def failure(status: int, body: Any, **headers: str) -> LLMError:
    written = body if isinstance(body, bytes) else json.dumps(body).encode()
    known = {name.replace("_", "-"): value for name, value in headers.items()}
    return failure_of_response(written, HTTPFailure.of(status, known, "m"))


@pytest.mark.clause("C94")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((400, InvalidRequestError), (401, AuthenticationError), (402, QuotaExceededError)),
        *((403, PermissionDeniedError), (404, ModelNotFoundError), (405, InvalidRequestError)),
        *((408, ProviderTimeoutError), (409, InvalidRequestError), (413, InvalidRequestError)),
        *((422, InvalidRequestError), (429, RateLimitError), (498, OverloadedError), (500, ServerError)),
        *((502, ServerError), (503, OverloadedError), (504, ServerError), (529, OverloadedError)),
        *((599, ServerError), (307, ProviderProtocolError)),
    ],
)
def test_a_status_has_its_error(status: int, kind: type[LLMError]) -> None:
    error = failure(status, {"error": {"message": "sorry"}})
    assert type(error) is kind
    assert error.status_code == status
    assert str(error) == "sorry"


@pytest.mark.clause("C94")
@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (401, {"type": "invalid_request_error", "code": "invalid_api_key"}, AuthenticationError),
        (400, {"code": "invalid_api_key"}, AuthenticationError),
        (429, {"type": "insufficient_quota", "code": "insufficient_quota"}, QuotaExceededError),
        (429, {"type": "requests", "code": "rate_limit_exceeded"}, RateLimitError),
        (429, {"code": "service_tier_capacity_exceeded"}, OverloadedError),
        (
            400,
            {"type": "invalid_request_error", "code": "context_length_exceeded"},
            ContextLengthExceededError,
        ),
        (400, {"type": "BadRequestError", "code": 400, "param": "input_tokens"}, ContextLengthExceededError),
        (
            400,
            {"code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"}},
            ContentFilterError,
        ),
        (400, {"code": None, "innererror": {"code": "ResponsibleAIPolicyViolation"}}, ContentFilterError),
        (403, {"code": 403, "metadata": {"reasons": ["x"], "flagged_input": "y"}}, ContentFilterError),
        (403, {"code": "unsupported_country_region_territory"}, PermissionDeniedError),
        (404, {"code": "model_not_found"}, ModelNotFoundError),
        (400, {"code": "model_not_found"}, ModelNotFoundError),
        (500, {"type": "overloaded_error"}, OverloadedError),
        (500, {"type": "server_error", "code": 503}, ServerError),
        (
            400,
            {"message": "this quota was exceeded and the rate limit and context_length_exceeded"},
            InvalidRequestError,
        ),
        (422, {"message": "content filtered"}, InvalidRequestError),
    ],
)
def test_a_code_counts_before_the_status_and_prose_does_not_count(
    status: int, error: dict[str, Any], kind: type[LLMError]
) -> None:
    assert type(failure(status, {"error": error})) is kind


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "sorry"}}, "sorry"),
        ({"error": "sorry"}, "sorry"),
        ({"message": "sorry", "type": "x"}, "sorry"),
        ({"object": "error", "message": {"detail": [{"msg": "sorry"}]}}, '{"detail": [{"msg": "sorry"}]}'),
        ({"detail": "sorry"}, "sorry"),
        (
            {"detail": [{"loc": ["body"], "msg": "field required"}]},
            '[{"loc": ["body"], "msg": "field required"}]',
        ),
        ([{"error": {"message": "sorry", "status": "INVALID_ARGUMENT"}}], "sorry"),
        ("sorry", "sorry"),
        (b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        (b" \n", "HTTP 502 Bad Gateway"),
        (b"", "HTTP 502 Bad Gateway"),
        ([], "HTTP 502 Bad Gateway"),
        ({}, "HTTP 502 Bad Gateway"),
        (None, "HTTP 502 Bad Gateway"),
        ({"error": {"message": None, "code": 5}}, "HTTP 502 Bad Gateway"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[" * 100_000, "[" * 1194 + " [cut]"),
    ],
)
def test_the_servers_words_are_found_in_every_form_seen(body: Any, message: str) -> None:
    assert str(failure(502, body)) == message


def test_a_status_without_a_name_is_shown_by_its_number() -> None:
    assert str(failure(599, {})) == "HTTP 599"


@pytest.mark.clause("C94")
@pytest.mark.clause("C96")
def test_the_servers_words_are_short_and_hold_no_secret() -> None:
    told = "Incorrect API key provided: sk-abcdefgh1234. " + "x" * 5000
    error = failure(401, {"error": {"message": told}})
    assert "sk-abcdefgh1234" not in str(error)
    assert len(str(error)) == 1200


@pytest.mark.clause("C93")
@pytest.mark.clause("C94")
def test_the_wait_and_the_requests_name_are_attributes() -> None:
    error = failure(429, {"error": "slow down"}, retry_after="2", x_request_id="req_1")
    assert (error.retry_after, error.request_id) == (2.0, "req_1")
    assert str(error) == "slow down (request_id=req_1)"
    assert failure(500, {}, request_id="x" * 500).request_id == "x" * 194 + " [cut]"


def test_the_details_of_an_error_are_attributes() -> None:
    missing = failure(404, {"error": {"message": "no such model"}})
    assert isinstance(missing, ModelNotFoundError)
    assert missing.model_id == "m"
    quota = failure(429, {"error": {"code": "insufficient_quota"}})
    assert isinstance(quota, QuotaExceededError)
    assert quota.limit_type == "insufficient_quota"
    assert isinstance(paid := failure(402, {}), QuotaExceededError)
    assert paid.limit_type == "quota"
    invalid = failure(400, {"error": {"param": "messages"}})
    assert isinstance(invalid, InvalidRequestError)
    assert invalid.param == "messages"
    filtered = failure(400, {"error": {"code": "content_filter"}})
    assert isinstance(filtered, ContentFilterError)
    assert filtered.filter_reason == "content_filter"


@pytest.mark.parametrize(
    ("message", "tokens", "limit"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in"
            " 10000 tokens.",
            10000,
            8192,
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"
            " (4000 in the messages, 1000 in the completion).",
            5000,
            4096,
        ),
        ("too long", None, None),
    ],
)
def test_the_numbers_of_tokens_are_found_by_the_words_before_them(
    message: str, tokens: int | None, limit: int | None
) -> None:
    error = failure(400, {"error": {"message": message, "code": "context_length_exceeded"}})
    assert isinstance(error, ContextLengthExceededError)
    assert (error.tokens, error.max_tokens, error.model_id) == (tokens, limit, "m")


def test_a_prompt_that_is_too_long_for_llama_cpp() -> None:
    error = failure(400, recorded("llamacpp-too-long.json"))
    assert isinstance(error, ContextLengthExceededError)
    assert (error.tokens, error.max_tokens) == (6021, 4096)


def test_a_path_that_llama_cpp_does_not_have() -> None:
    assert type(failure(404, recorded("llamacpp-not-found.json"))) is ModelNotFoundError


def test_an_error_event_without_words_still_says_something() -> None:
    assert str(failure_of_event({"error": {"code": 503}}, model="m"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "param", "detail"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.integers(300, 599), JSON)
def test_any_body_becomes_some_error(status: int, body: Any) -> None:
    assert isinstance(failure(status, body), LLMError)
    assert isinstance(failure_of_event(body, model="m"), LLMError)


@given(st.integers(300, 599), st.binary(max_size=60))
def test_any_bytes_become_some_error(status: int, body: bytes) -> None:
    assert failure(status, body).status_code == status
