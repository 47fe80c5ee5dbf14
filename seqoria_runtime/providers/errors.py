"""The errors of providers, and the former names of two of them.

`EnvironmentError` and `ConnectionError` here are this package's, not Python's builtins.
"""

from seqoria_runtime.models.errors import (
    AllProvidersFailedError,
    AuthenticationError,
    ContentFilterError,
    ContextLengthExceededError,
    InvalidRequestError,
    LLMError,
    MaxRetriesExceededError,
    MissingCredentialsError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderConnectionError,
    ProviderProtocolError,
    ProviderTimeoutError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    UnexpectedToolCallError,
)

EnvironmentError = MissingCredentialsError
ConnectionError = ProviderConnectionError

__all__ = [
    "AllProvidersFailedError",
    "AuthenticationError",
    "ConnectionError",
    "ContentFilterError",
    "ContextLengthExceededError",
    "EnvironmentError",
    "InvalidRequestError",
    "LLMError",
    "MaxRetriesExceededError",
    "MissingCredentialsError",
    "ModelNotFoundError",
    "OverloadedError",
    "PermissionDeniedError",
    "ProviderConnectionError",
    "ProviderProtocolError",
    "ProviderTimeoutError",
    "QuotaExceededError",
    "RateLimitError",
    "ServerError",
    "UnexpectedToolCallError",
]
