"""Decides which calls may run now: the slots of the client and the limits of tools and servers."""
