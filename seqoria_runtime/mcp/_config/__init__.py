"""What an application says about a server, and what it can ask about it."""
