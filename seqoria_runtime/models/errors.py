"""The one tree of errors that this package raises.

SeqoriaError
├── ClientStateError (RuntimeError)          the client is not open, or used from a wrong place
│   └── ClientClosedError                    it closed under a stream or a batch
├── TurnInProgressError (RuntimeError)       the history list has a live turn already
├── CallEndedError (RuntimeError)            the tool call that this work belonged to has ended
├── MissingExtraError (ImportError)          an optional part of the package is not installed
├── StructuredOutputError (ValueError)       an answer's text is not what it was asked to be
├── MCPServerError                           what goes wrong with a remote server; `server` names it
│   ├── MCPConnectionError                   it cannot be reached, or was lost
│   └── MCPRequestError                      it answered a request with an error
├── ToolError
│   ├── ToolNotFoundError (ValueError)
│   ├── ToolExecutionError (RuntimeError)    a direct call by name failed; `kind` says how
│   ├── ToolRemoteError                      a remote server answered with an error
│   ├── CircuitOpenError
│   └── DependencyError
└── LLMError                                 everything that a provider can answer with
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
    ├── ProviderProtocolError                an answer that breaks its own wire format
    │   └── UnexpectedToolCallError (ValueError)
    ├── MaxRetriesExceededError
    └── AllProvidersFailedError (RuntimeError)
"""

from collections.abc import Sequence

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
    """Root of everything that this package raises on purpose, argument errors apart."""


class ClientStateError(SeqoriaError, RuntimeError):
    """The client is not open, or is entered, left or used where it cannot be."""


class ClientClosedError(ClientStateError):
    """The client closed while this stream or batch was live."""


class TurnInProgressError(SeqoriaError, RuntimeError):
    """A second turn was started on a history list whose first turn is still live."""


class CallEndedError(SeqoriaError, RuntimeError):
    """Work that a tool call started tried to use the client after that call had ended."""


class MissingExtraError(SeqoriaError, ImportError):
    """What was asked for needs an extra of this package that is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} need an extra: pip install 'seqoria-runtime[{extra}]'")
        self.extra = extra


class StructuredOutputError(SeqoriaError, ValueError):
    """An answer's text is no JSON, or none of the kind that was wanted.

    `text` is the beginning of the answer, `finish_reason` what ended it.
    """

    def __init__(self, message: str, *, text: str, finish_reason: str | None) -> None:
        super().__init__(message)
        self.text = text
        self.finish_reason = finish_reason


class MCPServerError(SeqoriaError):
    """Root of the errors of remote servers; `server` is the server's name."""

    def __init__(self, message: str, *, server: str) -> None:
        super().__init__(message)
        self.server = server


class MCPConnectionError(MCPServerError):
    """The server cannot be reached, did not get through its handshake, or was lost in mid request."""


class MCPRequestError(MCPServerError):
    """The server answered a request with an error; `code` is the protocol's, where there is one."""

    def __init__(self, message: str, *, server: str, code: int | None = None) -> None:
        super().__init__(message, server=server)
        self.code = code


class ToolError(SeqoriaError):
    """Root of the errors about tools."""


class ToolNotFoundError(ToolError, ValueError):
    """No tool of that name is registered."""


class ToolExecutionError(ToolError, RuntimeError):
    """A direct call of a tool by name failed.

    `kind` is the kind of the `ToolCallError` that the call would have been in a batch.
    """

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class ToolRemoteError(ToolError):
    """A remote server answered a tool call with an error."""


class CircuitOpenError(ToolError):
    """The server's circuit breaker is open; the call was not sent."""


class DependencyError(ToolError):
    """Calls of one batch depend on each other in a circle."""


class LLMError(SeqoriaError):
    """Root of the errors of model providers.

    `provider` names the provider, `status_code` is the HTTP status and `request_id` the server's
    name for the request, each `None` where there is none. `retry_after` is the wait that the
    server asked for, in seconds.
    """

    def __init__(
        self,
        message: str,
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
    """No key was given; `missing_vars` names the environment variables that were looked at."""

    def __init__(
        self, message: str, *, provider: str | None = None, missing_vars: Sequence[str] = ()
    ) -> None:
        super().__init__(message, provider=provider)
        self.missing_vars = list(missing_vars)


class AuthenticationError(LLMError):
    """The provider does not accept the credentials."""


class PermissionDeniedError(LLMError):
    """The credentials are valid but may not do this."""


class ModelNotFoundError(LLMError):
    """The provider has no model (or no endpoint) of that name; `model_id` is the one asked for."""

    model_id: str | None = None


class RateLimitError(LLMError):
    """Too many requests for now; `retry_after` holds the parsed wait in seconds, where one was given."""


class QuotaExceededError(LLMError):
    """The account has used up what it may use; waiting does not help. `limit_type` names the limit."""

    limit_type: str = "quota"


class ContextLengthExceededError(LLMError):
    """The prompt is longer than the model takes: `tokens` of at most `max_tokens`, where the server says."""

    model_id: str | None = None
    tokens: int | None = None
    max_tokens: int | None = None


class ContentFilterError(LLMError):
    """The provider withheld the request or the answer; `filter_reason` is its own word for why."""

    filter_reason: str | None = None


class ServerError(LLMError):
    """The provider failed at its side (5xx)."""


class OverloadedError(ServerError):
    """The provider has no capacity at the moment (503, 529 or an error event that says so)."""


class InvalidRequestError(LLMError):
    """The provider refuses the request as it is; `param` names the field, where the server says."""

    param: str | None = None


class ProviderConnectionError(LLMError):
    """The connection could not be made, or broke."""


class ProviderTimeoutError(ProviderConnectionError):
    """The connection, or the next event of the answer, took too long."""


class ProviderProtocolError(LLMError):
    """The answer breaks its wire format: malformed, without its end mark, or cut short."""


class UnexpectedToolCallError(ProviderProtocolError, ValueError):
    """The model asked for a tool though it was offered none."""


class MaxRetriesExceededError(LLMError):
    """Every attempt that the retry policy allows has failed; the last failure is the cause."""


class AllProvidersFailedError(LLMError, RuntimeError):
    """Every provider failed; `errors` holds each one's failure, in the order in which they were asked."""

    def __init__(self, errors: Sequence[LLMError]) -> None:
        listed = "; ".join(f"{error.provider or 'provider'}: {error}" for error in errors)
        super().__init__(f"All providers failed: {listed}")
        self.errors = list(errors)
