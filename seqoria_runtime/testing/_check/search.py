"""Owns one search by Hypothesis outside of a test runner: how long, from which seed, and how it ends."""

from collections.abc import Callable, Mapping
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException


class UnfitError(Exception):
    """No examples could be made for what was to be checked; says why."""


def search(
    check: Callable[..., None],
    choices: Mapping[str, st.SearchStrategy[Any]],
    *,
    examples: int,
    seed: int,
) -> None:
    """Call `check` with `examples` choices; raise what it raises for the simplest that fails.

    The same seed makes the same choices. Raises `UnfitError` where there are none to make.
    """
    options = hypothesis.settings(
        max_examples=examples,
        phases=[Phase.generate, Phase.shrink],
        database=None,
        deadline=None,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )

    @hypothesis.seed(seed)
    @options
    @hypothesis.given(st.fixed_dictionaries(dict(choices)))
    def example(chosen: dict[str, Any]) -> None:
        check(**chosen)

    try:
        example()
    except HypothesisException as error:
        raise UnfitError(str(error).partition("\n")[0]) from error
