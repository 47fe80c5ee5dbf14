"""Reads and changes an application's history."""
