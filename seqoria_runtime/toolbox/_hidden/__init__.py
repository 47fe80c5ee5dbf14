"""Keeps hidden parameters out of the schema and fills them with trusted values."""
