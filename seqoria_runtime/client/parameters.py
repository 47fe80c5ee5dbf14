"""Where the values of hidden parameters come from."""

from seqoria_runtime.execution.parameters import ParameterRegistry

__all__ = ["ParameterRegistry"]
