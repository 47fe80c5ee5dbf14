"""Seeded faults: components of the runtime with one fault each, which the kit has to find."""
