"""Sends requests over httpx, repeats those that failed, and reads the bytes of the answers."""
