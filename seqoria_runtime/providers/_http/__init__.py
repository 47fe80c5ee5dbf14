"""Sends requests over httpx, retries them and reads the bytes of the answers."""
