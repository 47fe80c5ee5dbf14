"""The runtime itself and the floors under it."""
