"""The errors that this package raises, in one tree.

SeqoriaError
├── ClientStateError (RuntimeError)          the client is not open, or is used in the wrong place
│   └── ClientClosedError                    it closed while a stream or a batch was live
├── TurnInProgressError (RuntimeError)       another turn is live on this history list
├── CallEndedError (RuntimeError)            the tool call that started this work has ended
├── MissingExtraError (ImportError)          an optional part of the package is not installed
├── StructuredOutputError (ValueError)       an answer's text does not fit the type asked for
├── MCPServerError                           a remote server failed; `server` names it
│   ├── MCPConnectionError                   it cannot be reached, or the connection was lost
│   └── MCPRequestError                      it answered a request with an error
├── ToolError
│   ├── ToolNotFoundError (ValueError)
│   ├── ToolExecutionError (RuntimeError)    a direct call by name failed; `kind` says why
│   ├── ToolRemoteError                      never raised; kept for code that catches it
│   ├── CircuitOpenError
│   └── DependencyError                      never raised; kept for code that catches it
└── LLMError (RuntimeError)                  a provider failed
    ├── MissingCredentialsError
    ├── AuthenticationError
    ├── PermissionDeniedError
    ├── ModelNotFoundError
    ├── RateLimitError
    ├── QuotaExceededError
    ├── ContextLengthExceededError
    ├── ContentFilterError
    ├── ServerError
    │   └── OverloadedError
    ├── InvalidRequestError
    ├── ProviderConnectionError
    │   └── ProviderTimeoutError
    ├── ProviderProtocolError                an answer that breaks its wire format
    │   └── UnexpectedToolCallError (ValueError)
    ├── MaxRetriesExceededError
    └── AllProvidersFailedError
"""

from collections.abc import Sequence
from typing import TypedDict, Unpack

__all__ = [
    "AllProvidersFailedError",
    "AuthenticationError",
    "CallEndedError",
    "CircuitOpenError",
    "ClientClosedError",
    "ClientStateError",
    "ContentFilterError",
    "ContextLengthExceededError",
    "DependencyError",
    "InvalidRequestError",
    "LLMError",
    "MCPConnectionError",
    "MCPRequestError",
    "MCPServerError",
    "MaxRetriesExceededError",
    "MissingCredentialsError",
    "MissingExtraError",
    "ModelNotFoundError",
    "OverloadedError",
    "PermissionDeniedError",
    "ProviderConnectionError",
    "ProviderProtocolError",
    "ProviderTimeoutError",
    "QuotaExceededError",
    "RateLimitError",
    "SeqoriaError",
    "ServerError",
    "StructuredOutputError",
    "ToolError",
    "ToolExecutionError",
    "ToolNotFoundError",
    "ToolRemoteError",
    "TurnInProgressError",
    "UnexpectedToolCallError",
]


class SeqoriaError(Exception):
    """Root of the errors that this package defines; argument errors are `ValueError` or `TypeError`."""


class ClientStateError(SeqoriaError, RuntimeError):
    """The client is not open, or was entered, left or used in the wrong place."""


class ClientClosedError(ClientStateError):
    """The client closed while this stream or batch was live."""


class TurnInProgressError(SeqoriaError, RuntimeError):
    """Another turn is still live on this history list."""


class CallEndedError(SeqoriaError, RuntimeError):
    """Code that a tool call started used the client after the call had ended."""


class MissingExtraError(SeqoriaError, ImportError):
    """A feature needs an extra of this package that is not installed; `extra` names it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} need an extra: pip install 'seqoria-runtime[{extra}]'")
        self.extra = extra


class StructuredOutputError(SeqoriaError, ValueError):
    """An answer's text is not valid JSON of the type asked for.

    `text` is the start of the answer, `finish_reason` the reason why the answer ended.
    """

    def __init__(self, message: str, *, text: str, finish_reason: str | None) -> None:
        super().__init__(message)
        self.text = text
        self.finish_reason = finish_reason


class MCPServerError(SeqoriaError):
    """Root of the errors about remote servers; `server` is the server's name."""

    def __init__(self, message: str, *, server: str) -> None:
        super().__init__(message)
        self.server = server


class MCPConnectionError(MCPServerError):
    """The server could not be reached, failed its handshake, or was lost during a request."""


class MCPRequestError(MCPServerError):
    """The server answered a request with an error; `code` is the JSON-RPC code, if there is one."""

    def __init__(self, message: str, *, server: str, code: int | None = None) -> None:
        super().__init__(message, server=server)
        self.code = code


class ToolError(SeqoriaError):
    """Root of the errors about tools."""


class ToolNotFoundError(ToolError, ValueError):
    """No tool of that name is registered."""


class ToolExecutionError(ToolError, RuntimeError):
    """A direct call of a tool by name failed.

    `kind` is the `kind` that the `ToolCallError` of the same call in a batch would have.
    """

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class ToolRemoteError(ToolError):
    """Never raised: a server's error is a `ToolCallError` or a `ToolExecutionError`. Kept for old code."""


class CircuitOpenError(ToolError):
    """The server's circuit breaker is open; the call was not sent."""


class DependencyError(ToolError):
    """Never raised: such a call settles as `cyclic_dependency`. Kept for code that catches it."""


class ErrorFacts(TypedDict, total=False):
    """What every `LLMError` takes by keyword; see there."""

    provider: str | None
    status_code: int | None
    request_id: str | None
    retry_after: float | None


class LLMError(SeqoriaError, RuntimeError):
    """Root of the errors of model providers.

    `provider` names the provider, `status_code` is the HTTP status, `request_id` the server's id of
    the request, and `retry_after` the wait that the server asked for, in seconds. Each is `None` if
    unknown.
    """

    def __init__(
        self,
        message: str = "the provider failed",
        *,
        provider: str | None = None,
        status_code: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.status_code = status_code
        self.request_id = request_id
        self.retry_after = retry_after


class MissingCredentialsError(LLMError):
    """No key was found; `missing_vars` names the environment variables that were tried."""

    def __init__(
        self, message: str | None = None, *, missing_vars: Sequence[str] = (), **facts: Unpack[ErrorFacts]
    ) -> None:
        names = ", ".join(missing_vars)
        super().__init__(message or f"missing environment variables: {names or 'unknown'}", **facts)
        self.missing_vars: list[str] = list(missing_vars)


class AuthenticationError(LLMError):
    """The provider rejected the credentials."""


class PermissionDeniedError(LLMError):
    """The credentials are valid but do not permit this request."""


class ModelNotFoundError(LLMError):
    """The provider has no model (or endpoint) of that name; `model_id` is the name requested.

    A provider that knows them may also name its `available_models`, and the `fallback_model` it used.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        model_id: str | None = None,
        fallback_model: str | None = None,
        available_models: Sequence[str] = (),
        **facts: Unpack[ErrorFacts],
    ) -> None:
        text = message or f"model {model_id!r} was not found"
        known = f". Available models: {', '.join(available_models)}" if available_models else ""
        super().__init__(text + known, **facts)
        self.model_id = model_id
        self.fallback_model = fallback_model
        self.available_models: list[str] = list(available_models)


class RateLimitError(LLMError):
    """Too many requests; `retry_after` is the wait in seconds, if the server gave one."""


class QuotaExceededError(LLMError):
    """The account's quota is used up; waiting does not help. `limit_type` names the limit."""

    def __init__(
        self, message: str | None = None, *, limit_type: str = "quota", **facts: Unpack[ErrorFacts]
    ) -> None:
        super().__init__(message or f"the quota is used up ({limit_type})", **facts)
        self.limit_type = limit_type


class ContextLengthExceededError(LLMError):
    """The prompt is too long: `tokens` of at most `max_tokens`, if the server says."""

    def __init__(
        self,
        message: str | None = None,
        *,
        model_id: str | None = None,
        tokens: int | None = None,
        max_tokens: int | None = None,
        **facts: Unpack[ErrorFacts],
    ) -> None:
        counts = f" ({tokens} tokens of at most {max_tokens})" if tokens and max_tokens else ""
        super().__init__(message or f"the prompt is too long for the model{counts}", **facts)
        self.model_id = model_id
        self.tokens = tokens
        self.max_tokens = max_tokens


class ContentFilterError(LLMError):
    """A content filter blocked the request or the answer; `filter_reason` is the provider's reason."""

    def __init__(
        self, message: str | None = None, *, filter_reason: str | None = None, **facts: Unpack[ErrorFacts]
    ) -> None:
        super().__init__(message or f"a content filter blocked it ({filter_reason or 'no reason'})", **facts)
        self.filter_reason = filter_reason


class ServerError(LLMError):
    """The provider failed (5xx)."""


class OverloadedError(ServerError):
    """The provider has no capacity now (503, 529 or an error event that says so)."""


class InvalidRequestError(LLMError):
    """The provider rejected the request; `param` names the field, if the server says."""

    def __init__(
        self, message: str | None = None, *, param: str | None = None, **facts: Unpack[ErrorFacts]
    ) -> None:
        super().__init__(message or f"the request was rejected ({param or 'no field named'})", **facts)
        self.param = param


class ProviderConnectionError(LLMError):
    """The connection failed or broke."""


class ProviderTimeoutError(ProviderConnectionError):
    """Connecting, or the next event of the answer, took too long."""


class ProviderProtocolError(LLMError):
    """The answer breaks its wire format: it is malformed, cut short, or lacks its end mark."""


class UnexpectedToolCallError(ProviderProtocolError, ValueError):
    """The model called a tool although it was offered none."""


class MaxRetriesExceededError(LLMError):
    """Every attempt that the retry policy allows failed; the last failure is the cause."""


class AllProvidersFailedError(LLMError):
    """Every provider failed; `errors` holds their errors, in the order in which they were asked."""

    def __init__(self, errors: Sequence[LLMError]) -> None:
        listed = "; ".join(f"{error.provider or 'provider'}: {error}" for error in errors)
        super().__init__(f"All providers failed: {listed}")
        self.errors: list[LLMError] = list(errors)
