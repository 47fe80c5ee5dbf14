"""Compare the runtime with bare floors and with its peers; `python -m benchmarks --help`."""
