"""Logs in at servers that want it, and keeps their tokens."""
