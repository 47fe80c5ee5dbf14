"""What a run finds: by cell, then by contestant, its samples in order, or why it has none."""

from typing import Any, TypeAlias

Results: TypeAlias = dict[str, dict[str, dict[str, Any]]]
