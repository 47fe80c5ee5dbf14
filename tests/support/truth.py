"""Compares what a history says of tool calls with what the tools did."""

from collections.abc import Collection, Sequence
from typing import Any

from seqoria_runtime.models import ToolCallOutcome, ToolCallResult

from .histories import check_history
from .tools import Deeds


def outcomes_by_tag(history: Sequence[Any]) -> dict[str, ToolCallOutcome]:
    """Return the outcome of each call by its `tag`; the history must be one that can be continued."""
    told: dict[str, ToolCallOutcome] = {}
    for exchange in check_history(history):
        for response in exchange.responses:
            for request, outcome in response.pairs:
                assert request.arguments["tag"] not in told, f"answered twice: {request!r}"
                told[request.arguments["tag"]] = outcome
    return told


def check_truth(history: Sequence[Any], deeds: Deeds, *, in_threads: Collection[str] = ()) -> None:
    """Raise `AssertionError` unless the history says exactly what the tools did.

    Calls that ran in threads may have ended after they were answered.
    """
    told = outcomes_by_tag(history)
    for tag, outcome in told.items():
        if isinstance(outcome, ToolCallResult) or outcome.kind == "failed":
            assert tag in deeds.done, f"never happened: {outcome!r}"
        elif "may have taken effect" in outcome.error:
            assert tag in in_threads or (tag in deeds.begun and tag not in deeds.done), f"untrue: {outcome!r}"
        else:
            assert tag not in deeds.begun, f"it had begun: {outcome!r}"
    untold = {*deeds.begun, *deeds.done} - told.keys() - set(in_threads)
    assert not untold, f"not in the history: {untold}"
