"""Turns the bytes of an answer into events, whatever the wire format."""
