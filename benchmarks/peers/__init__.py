"""Adapters of the peers; each uses its package as the documentation says.

Each runs in a separate environment. No adapter uses private names of its package.
"""
