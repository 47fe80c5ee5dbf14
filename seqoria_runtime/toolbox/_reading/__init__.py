"""Reads a function: its signature, docstring and annotations, and the schema they make."""
