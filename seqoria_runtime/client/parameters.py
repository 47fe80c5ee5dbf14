"""The sources of hidden parameters."""

from seqoria_runtime._execution.calls.hidden_parameters import ParameterRegistry

__all__ = ["ParameterRegistry"]
