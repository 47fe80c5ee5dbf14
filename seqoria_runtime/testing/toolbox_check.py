"""Property tests of an application's own toolbox, and the report of what they found.

Needs hypothesis (extra `testing`). Runs in virtual time, so tools must not wait for real I/O.
"""

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from hypothesis import strategies as st

from seqoria_runtime._base import checks as _checks
from seqoria_runtime.toolbox import LocalToolbox

from ._check import properties
from ._check.properties import Limits, NotCheckedError, Problem, Subject
from ._check.report import Finding, ToolboxReport
from ._check.search import UnfitError, search
from ._virtual_time import Backend
from .strategies import INVALID, batches
from .strategies._batches import calls_of, can_be

__all__ = ["Finding", "ToolboxReport", "check_toolbox"]

_Property: TypeAlias = tuple[str, str | None, Callable[..., None], dict[str, st.SearchStrategy[Any]]]
"""Its name, the tool that it is about, the check, and what the check is called with."""

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

    Checked are: valid arguments give a result that can be written; invalid ones are refused; batches
    under limits and timeouts keep every rule of `check_trace`; a cancelled batch ends at once; nothing
    is left behind. `context` has the trusted values for hidden parameters. An exception of a tool is
    a finding, unless it is a `ToolExecutionError` or of a class whose name is in `allow`. The same
    `seed` makes the same examples; without one it is drawn, and told in the report.
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
    """One check under way."""

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
                search(check, choices, examples=self._examples, seed=self._seed)
            except Problem as problem:
                self._found(name, backend, problem)
                if problem.endless and tool is not None:
                    self._endless.add(tool)
            except (NotCheckedError, UnfitError) as reason:
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
        self.findings.append(
            Finding(
                name=name,
                backend=backend,
                message=str(problem),
                calls=problem.calls,
                tool=problem.tool,
                max_concurrency=problem.limits.max_concurrency,
                tool_timeout=problem.limits.tool_timeout,
            )
        )
