"""Runs calls: workers, one call from its slot to its outcome, its threads and hidden parameters."""
