"""Runs ready tasks in the order of a schedule, on each backend."""
