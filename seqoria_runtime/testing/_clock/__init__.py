"""Virtual time on each backend, and what happens when it would stand still for ever."""
