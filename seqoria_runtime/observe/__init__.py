"""Ready-made observers of tool calls, for the client's option `observers`."""

from ._opentelemetry import OpenTelemetryObserver
from ._timeline import CallSpan, Timeline

__all__ = ["CallSpan", "OpenTelemetryObserver", "Timeline"]
