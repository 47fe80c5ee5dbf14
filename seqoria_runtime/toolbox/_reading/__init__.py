"""Turns a function into a schema, in three steps.

`signature` reads its parameters, with the help of `annotations` (strings into types) and `docstrings` (the
descriptions); `fields` makes them the fields of a typed dictionary, of which pydantic makes a core schema.
"""
