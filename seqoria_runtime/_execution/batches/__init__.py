"""Decides the order of the calls of one batch and holds their outcomes."""
