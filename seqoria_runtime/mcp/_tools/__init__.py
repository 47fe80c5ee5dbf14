"""Runs the tools of servers as the tools of a client."""
