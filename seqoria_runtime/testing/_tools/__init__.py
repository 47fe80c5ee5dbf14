"""Tools that follow a script."""
