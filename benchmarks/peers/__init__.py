"""One adapter for each peer, as its own documentation would have an application use it.

They run in environments of their own. No adapter reaches for what its package keeps to itself.
"""
