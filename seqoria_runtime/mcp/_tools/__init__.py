"""Calls servers: their tools as the tools of a client, their resources and prompts for the application."""
