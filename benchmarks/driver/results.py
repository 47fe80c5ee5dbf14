"""The results of a run: by cell, then by contestant, the samples in order or the reason for none."""

from typing import Any, TypeAlias

Results: TypeAlias = dict[str, dict[str, dict[str, Any]]]
