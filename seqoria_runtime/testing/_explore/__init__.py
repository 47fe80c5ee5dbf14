"""Searches the schedules and interruption points of a scenario for failures."""
