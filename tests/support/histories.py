"""The kit's check of a history, and the reading of a stored one."""

from seqoria_runtime.client._history.reading import to_messages as loaded
from seqoria_runtime.testing import check_history

__all__ = ["check_history", "loaded"]
