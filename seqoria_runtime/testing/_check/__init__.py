"""Checks an application's own toolbox."""
