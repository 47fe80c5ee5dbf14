"""The Chat Completions format, which many servers speak."""
