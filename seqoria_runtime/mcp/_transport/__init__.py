"""Carries messages to a server and back, over a process or HTTP."""
