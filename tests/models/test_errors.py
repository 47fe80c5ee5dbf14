import copy
import re
from typing import Any

import pytest

from seqoria_runtime import models
from seqoria_runtime.models import errors

pytestmark = pytest.mark.clause("C94")

LINE = re.compile(r"^(?P<branch>[│├└─ ]*)(?P<name>\w+)(?: \((?P<builtin>\w+)\))?(?:  .*)?$")


def drawn() -> dict[str, tuple[str | None, str | None]]:
    """What the docstring draws: name → its parent, and the builtin that it is as well."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines()[2:]:
        match = LINE.match(line)
        assert match, f"not a line of the tree: {line!r}"
        depth = len(match["branch"]) // 4
        above[depth:] = [match["name"]]
        tree[match["name"]] = (above[depth - 1] if depth else None, match["builtin"])
    return tree


def real() -> dict[str, tuple[str | None, str | None]]:
    """What the classes are, in the same form."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    for name in errors.__all__:
        bases = getattr(errors, name).__bases__
        parents = [base.__name__ for base in bases if base.__module__ == errors.__name__]
        builtins = [base.__name__ for base in bases if base.__module__ == "builtins" and parents]
        tree[name] = (parents[0] if parents else None, builtins[0] if builtins else None)
    return tree


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    assert drawn() == real()


def test_every_error_class_is_exported() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert classes == set(errors.__all__)


def test_there_is_one_root() -> None:
    assert [name for name, (parent, _) in real().items() if parent is None] == ["SeqoriaError"]


def test_no_error_hides_a_builtin_but_by_also_being_one() -> None:
    import builtins

    assert not [name for name in errors.__all__ if hasattr(builtins, name)]


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_says_when_it_is_raised(name: str) -> None:
    assert getattr(errors, name).__doc__


def test_an_error_of_a_provider_carries_what_a_program_needs() -> None:
    error = errors.RateLimitError(
        "slow down", provider="acme", status_code=429, request_id="r1", retry_after=2.0
    )
    assert str(error) == "slow down"
    assert (error.provider, error.status_code, error.request_id, error.retry_after) == (
        "acme",
        429,
        "r1",
        2.0,
    )
    bare = errors.LLMError("no")
    assert (bare.provider, bare.status_code, bare.request_id, bare.retry_after) == (None, None, None, None)


def facts(error: errors.LLMError) -> tuple[object, ...]:
    return error.provider, error.status_code, error.request_id, error.retry_after


def test_when_all_providers_failed_each_failure_is_there() -> None:
    first, second = errors.ServerError("down", provider="acme"), errors.LLMError("odd")
    error = errors.AllProvidersFailedError([first, second])
    assert error.errors == [first, second]
    assert "acme: down" in str(error)
    assert "odd" in str(error)


def test_missing_credentials_name_the_variables() -> None:
    assert errors.MissingCredentialsError("no key", missing_vars=("A", "B")).missing_vars == ["A", "B"]


def test_the_names_that_users_knew_are_in_models() -> None:
    assert models.CircuitOpenError is errors.CircuitOpenError
    assert models.ToolRemoteError is errors.ToolRemoteError


@pytest.mark.parametrize(
    ("kind", "details", "said"),
    [
        (errors.LLMError, {}, "provider failed"),
        (errors.MissingCredentialsError, {"missing_vars": ["ACME_KEY"]}, "ACME_KEY"),
        (errors.AuthenticationError, {"status_code": 401}, "provider failed"),
        (errors.ModelNotFoundError, {"model_id": "m", "fallback_model": "n"}, "'m'"),
        (errors.ModelNotFoundError, {"available_models": ["n", "o"]}, "Available models: n, o"),
        (errors.QuotaExceededError, {"limit_type": "monthly"}, "monthly"),
        (errors.ContextLengthExceededError, {"model_id": "m", "tokens": 9, "max_tokens": 8}, "9 tokens"),
        (errors.ContentFilterError, {"filter_reason": "violence"}, "violence"),
        (errors.ServerError, {"status_code": 500}, "provider failed"),
        (errors.InvalidRequestError, {"param": "stop"}, "stop"),
        (errors.ProviderConnectionError, {}, "provider failed"),
        (errors.MaxRetriesExceededError, {}, "provider failed"),
    ],
)
def test_a_custom_provider_may_raise_any_error_with_its_details_and_no_text(
    kind: type[errors.LLMError], details: dict[str, Any], said: str
) -> None:
    error = kind(provider="acme", **details)
    assert said in str(error)
    assert error.provider == "acme"
    assert {name: getattr(error, name) for name in details} == details
    assert copy.copy(error).__dict__ == error.__dict__
    assert str(kind("just this", provider="acme")) == "just this"


def test_every_failure_of_a_provider_is_a_runtime_error() -> None:
    assert issubclass(errors.LLMError, RuntimeError)
