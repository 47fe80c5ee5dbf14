"""State machines for Hypothesis whose rules are asynchronous and run in virtual time, on either backend.

Needs hypothesis (extra `testing`).
"""

from seqoria_runtime.testing.strategies import _needs_hypothesis  # noqa: F401

from ._client_machine import ClientMachine
from ._machine import AsyncRuleBasedStateMachine, initialize, invariant, rule

__all__ = ["AsyncRuleBasedStateMachine", "ClientMachine", "initialize", "invariant", "rule"]
