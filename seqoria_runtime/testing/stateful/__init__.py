"""Hypothesis state machines with asynchronous rules, in virtual time on either backend.

Needs hypothesis (extra `testing`).
"""

from seqoria_runtime.testing.strategies import _needs_hypothesis  # noqa: F401 - raises before an import below fails

from ._client_machine import ClientMachine, Conversation
from ._machine import AsyncRuleBasedStateMachine, initialize, invariant, rule

__all__ = ["AsyncRuleBasedStateMachine", "ClientMachine", "Conversation", "initialize", "invariant", "rule"]
