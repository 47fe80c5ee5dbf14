"""Finds the concurrency limit that suits an application's tools, as `seqoria-runtime bench limits` does."""

from ._calls_file import CallsFileError, PlannedCall, read_calls
from ._durations import Durations
from ._knee import Capacity, Knee
from ._measure import DEFAULT_LIMITS, Progress, measure_adaptive, measure_limits
from ._report import LimitReport, LimitRow, report_of
from ._resource import ResourceSpec
from ._runs import CallRecord, Run
from ._statistics import Percentiles, Spread
from ._svg import svg_of
from ._workload import Load, SyntheticWorkload, ToolboxWorkload, Workload

__all__ = [
    "DEFAULT_LIMITS",
    "CallRecord",
    "CallsFileError",
    "Capacity",
    "Durations",
    "Knee",
    "LimitReport",
    "LimitRow",
    "Load",
    "Percentiles",
    "PlannedCall",
    "Progress",
    "ResourceSpec",
    "Run",
    "Spread",
    "SyntheticWorkload",
    "ToolboxWorkload",
    "Workload",
    "measure_adaptive",
    "measure_limits",
    "read_calls",
    "report_of",
    "svg_of",
]
