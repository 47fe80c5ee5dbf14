"""The format of Ollama's own chat."""
