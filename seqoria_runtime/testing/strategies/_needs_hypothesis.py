"""Raises an error that names the extra if hypothesis is not installed."""

from importlib.util import find_spec

if find_spec("hypothesis") is None:
    raise ModuleNotFoundError(
        "seqoria_runtime.testing.strategies needs hypothesis: pip install 'seqoria-runtime[testing]'",
        name="hypothesis",
    )
