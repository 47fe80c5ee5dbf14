"""The kit's rules of a conversation, under the name by which the tests know them."""

from seqoria_runtime.client._history.reading import to_messages as loaded
from seqoria_runtime.testing import Exchange, Response, check_history

__all__ = ["Exchange", "Response", "check_history", "loaded"]
