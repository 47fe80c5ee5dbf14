"""Property tests of an application's own toolbox.

Needs hypothesis (extra `testing`). Runs in virtual time, so tools must not wait for real I/O.
"""

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from seqoria_runtime._base import checks as _checks
from seqoria_runtime.toolbox import LocalToolbox

from ._check import properties
from ._check.properties import Limits, NotCheckedError, Problem, Subject
from ._check.report import Finding, ToolboxReport
from ._clock.deadlock_watch import Backend
from .strategies import INVALID, batches
from .strategies._batches import calls_of, can_be

__all__ = ["Finding", "ToolboxReport", "check_toolbox"]

_Property: TypeAlias = tuple[str, str | None, Callable[..., None], dict[str, st.SearchStrategy[Any]]]
"""A name, the tool if it concerns only one, the check, and strategies for the arguments of the check."""

_LIMITS = st.builds(
    Limits, max_concurrency=st.integers(1, 3), tool_timeout=st.none() | st.sampled_from([0.5, 5.0])
)


def check_toolbox(
    toolbox: LocalToolbox,
    *,
    examples: int = 50,
    seed: int | None = None,
    backends: Sequence[Backend] = ("asyncio", "trio"),
    context: Mapping[str, Any] | None = None,
    allow: Collection[str] = (),
) -> ToolboxReport:
    """Call an application's tools with `examples` arguments each, valid and not, alone and in batches.

    It checks that valid arguments lead to a result that can be serialized; that invalid ones are
    refused; that batches under limits and timeouts keep every rule of `check_trace`; that a cancelled
    batch ends at once; and that nothing is left behind. `context` has the trusted values for hidden
    parameters. An exception of a tool is a finding, unless it is a `ToolExecutionError` or of a class
    named in `allow`. The same `seed` makes the same examples; the report names a drawn one.
    """
    _checks.positive_int("examples", examples)
    seed = random.randrange(2**32) if seed is None else seed
    subject = Subject(toolbox, context or {}, _checks.names("allow", allow))
    check = _Check(subject, examples, seed)
    for backend in backends:
        check.run(backend)
    return ToolboxReport(
        tools=tuple(tool.name for tool in toolbox.tools),
        backends=tuple(backends),
        examples=examples,
        seed=seed,
        findings=tuple(check.findings),
        not_checked=check.not_checked,
    )


class _Check:
    """A check in progress."""

    def __init__(self, subject: Subject, examples: int, seed: int) -> None:
        self._subject = subject
        self._examples = examples
        self._seed = seed
        self._endless: set[str] = set()
        self.findings: list[Finding] = []
        self.not_checked: dict[str, str] = {}

    def run(self, backend: Backend) -> None:
        for name, tool, check, choices in self._properties(backend):
            try:
                _search(check, choices, examples=self._examples, seed=self._seed)
            except Problem as problem:
                self._found(name, backend, problem)
                if problem.endless and tool is not None:
                    self._endless.add(tool)
            except (NotCheckedError, _NoExamplesError) as reason:
                self.not_checked.setdefault(tool or name, str(reason))

    def _properties(self, backend: Backend) -> Iterator[_Property]:
        subject = self._subject
        tools = subject.toolbox.tools
        for tool in tools:
            valid = partial(properties.valid_call, subject, backend)
            yield "valid arguments", tool.name, valid, {"request": calls_of(tool)}
        for tool in tools:
            for way in INVALID[:3]:
                if can_be(tool, way):
                    invalid = partial(properties.invalid_call, subject, backend)
                    yield way, tool.name, invalid, {"request": calls_of(tool, way)}
        ending = properties.without(subject.toolbox, self._endless)
        if ending.tools:
            loads: dict[str, st.SearchStrategy[Any]] = {"requests": batches(ending), "limits": _LIMITS}
            yield "batches", None, partial(properties.batch, subject, backend), loads
            share = st.sampled_from([0.5, 0.25, 0.75])
            cancelled = partial(properties.cancelled_batch, subject, backend)
            yield "cancellation", None, cancelled, {**loads, "share": share}

    def _found(self, name: str, backend: Backend, problem: Problem) -> None:
        known = {(finding.name, finding.tool, finding.message) for finding in self.findings}
        if (name, problem.tool, str(problem)) in known:
            return
        slots, timeout = problem.limits.max_concurrency, problem.limits.tool_timeout
        self.findings.append(
            Finding(name, backend, str(problem), problem.calls, problem.tool, slots, timeout)
        )


class _NoExamplesError(Exception):
    """Hypothesis could make no examples; the text says why."""


def _search(
    check: Callable[..., None], choices: Mapping[str, st.SearchStrategy[Any]], *, examples: int, seed: int
) -> None:
    """Call `check` with `examples` choices; raise its error for the simplest choice that fails.

    The same seed makes the same choices. Raises `_NoExamplesError` if there are none.
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
        raise _NoExamplesError(str(error).partition("\n")[0]) from error
