"""The subcommand `chat`: a conversation with any Chat Completions server."""
