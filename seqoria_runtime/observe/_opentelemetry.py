"""Reports tool calls to OpenTelemetry, as spans and a histogram, by the GenAI conventions.

`opentelemetry-api` is not a dependency; it is loaded when an observer is created.
"""

from typing import Any

from seqoria_runtime.client import CallEvent
from seqoria_runtime.models import ToolCallError

_NAME = "seqoria_runtime"
_OPERATION = "execute_tool"
_DURATION = "gen_ai.client.operation.duration"


class OpenTelemetryObserver:
    """Creates a span `execute_tool NAME` for each call that starts, below the application's current span.

    A span lasts from the call's slot to its outcome, and has `gen_ai.tool.name`, `gen_ai.tool.call.id`
    and, for a call that failed, `error.type` with the outcome's `kind`; never arguments or results. The
    histogram `gen_ai.client.operation.duration` records the same times, in seconds. `tracer` and `meter`
    default to those of the global providers. Raises `ImportError` without `opentelemetry-api`.
    """

    def __init__(self, *, tracer: Any = None, meter: Any = None) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError as error:
            raise ImportError(
                "OpenTelemetryObserver needs opentelemetry-api: pip install opentelemetry-api"
            ) from error

        self._trace = trace
        self._tracer = tracer if tracer is not None else trace.get_tracer(_NAME)
        self._durations = (meter if meter is not None else metrics.get_meter(_NAME)).create_histogram(
            _DURATION, unit="s", description="Duration of tool calls"
        )
        self._open: dict[tuple[int, int], tuple[Any, float]] = {}

    def __call__(self, event: CallEvent) -> None:
        """Record an event."""
        key = event.batch, event.position
        if event.kind == "started":
            span = self._tracer.start_span(
                f"{_OPERATION} {event.request.name}",
                kind=self._trace.SpanKind.INTERNAL,
                attributes={**self._attributes(event), "gen_ai.tool.call.id": event.request.id},
            )
            self._open[key] = span, event.time
        elif event.kind != "queued":
            self._end(event, self._open.pop(key, None))

    def _end(self, event: CallEvent, opened: tuple[Any, float] | None) -> None:
        if opened is None:
            return
        span, started = opened
        attributes = self._attributes(event)
        if isinstance(event.outcome, ToolCallError):
            attributes["error.type"] = event.outcome.kind
            span.set_attribute("error.type", event.outcome.kind)
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, event.outcome.kind))
        span.end()
        self._durations.record(event.time - started, attributes)

    @staticmethod
    def _attributes(event: CallEvent) -> dict[str, str]:
        return {
            "gen_ai.operation.name": _OPERATION,
            "gen_ai.tool.name": event.request.name,
            "gen_ai.tool.type": "function",
        }
