"""Logs in at servers that require it, keeps their tokens, and pauses deadlines while a user does."""
