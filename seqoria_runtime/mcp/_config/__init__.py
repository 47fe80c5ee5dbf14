"""The configuration of servers and logins, and the status of a server. Loads neither the SDK nor anyio."""
