"""Seeded faults: components of the runtime, each with one thing wrong, that the kit has to find."""
