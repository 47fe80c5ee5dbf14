"""Virtual time on each backend, and the report of a deadlock in it."""
