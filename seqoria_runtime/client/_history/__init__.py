"""Decides what enters an application's history, and when."""
