"""The report of a toolbox check: as values, as text and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from seqoria_runtime.models import ToolCallRequest


@dataclass(frozen=True, slots=True)
class Finding:
    """A property that a toolbox breaks, with the simplest calls that show it.

    `name` is the property, and `tool` the tool if a single call is enough. The batch ran with
    `max_concurrency` slots and `tool_timeout` seconds for each call.
    """

    name: str
    backend: str
    message: str
    calls: tuple[ToolCallRequest, ...]
    tool: str | None = None
    max_concurrency: int = 1
    tool_timeout: float | None = None

    @property
    def program(self) -> str:
        """Python that makes the calls, to paste where `client` is an open client."""
        made = ", ".join(_program(call) for call in self.calls)
        return f"await client.run_tool_calls([{made}])"


@dataclass(frozen=True, slots=True)
class ToolboxReport:
    """What was checked, with which seed, and what was found. `not_checked` has a reason for each tool."""

    tools: tuple[str, ...]
    backends: tuple[str, ...]
    examples: int
    seed: int
    findings: tuple[Finding, ...] = ()
    not_checked: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing was found and everything was checked."""
        return not self.findings and not self.not_checked

    def as_json(self) -> dict[str, Any]:
        """Return the report as a dictionary for `json.dumps`."""
        plain = asdict(self)
        for written, finding in zip(plain["findings"], self.findings, strict=True):
            calls = [call.model_dump(mode="json", exclude_defaults=True) for call in finding.calls]
            written |= {"calls": calls, "program": finding.program}
        return {"ok": self.ok, **plain}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for finding in self.findings:
            subject = finding.tool or ", ".join(dict.fromkeys(call.name for call in finding.calls))
            first, *others = finding.message.splitlines()
            yield f"{subject} ({finding.name}, {finding.backend}): {first}"
            yield from (f"    {line}" for line in others)
            yield f"    {finding.program}"
        for tool, reason in self.not_checked.items():
            yield f"{tool} was not checked: {reason}"
        found = f"{len(self.findings)} finding{'' if len(self.findings) == 1 else 's'}"
        yield (
            f"{found} in {len(self.tools)} tools, {self.examples} examples of each property, "
            f"seed {self.seed}, on {' and '.join(self.backends)}"
        )


def _program(call: ToolCallRequest) -> str:
    given = call.model_dump(exclude_defaults=True)
    return f"ToolCallRequest({', '.join(f'{name}={value!r}' for name, value in given.items())})"
