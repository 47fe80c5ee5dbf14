"""Keeps servers connected and makes requests to them.

A request goes through `retry_and_renewal`, which decides when it is made again and when a session that the
server forgot is renewed; `server_connection` then opens a new `connection` in its place.
"""
