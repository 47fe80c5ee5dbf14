"""Structured execution of tool-calling assistant turns, under trio and asyncio."""
