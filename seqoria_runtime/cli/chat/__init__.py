"""The subcommand `chat`: a conversation with any Chat Completions server."""

from ._command import CHAT

__all__ = ["CHAT"]
