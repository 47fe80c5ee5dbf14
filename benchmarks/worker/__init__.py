"""What runs inside the process of one contestant: its event loop, the tools, the script and the workloads.

It is imported in every peer's environment, so it needs anyio and the standard library only.
"""
