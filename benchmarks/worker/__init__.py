"""The process of one contestant: event loop, tools, script and workloads.

Every peer's environment imports it, so it needs only anyio and the standard library.
"""
