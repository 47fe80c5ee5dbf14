"""Where the values of hidden parameters come from."""

from seqoria_runtime._execution.calls.hidden_parameters import ParameterRegistry

__all__ = ["ParameterRegistry"]
