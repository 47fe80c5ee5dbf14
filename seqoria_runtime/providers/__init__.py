"""Model providers, and the protocol by which an application adds its own."""

from ._protocol import AsyncBaseProvider, ModelRequest, ModelResponse, ProviderEvent, ToolDefinition

__all__ = ["AsyncBaseProvider", "ModelRequest", "ModelResponse", "ProviderEvent", "ToolDefinition"]
