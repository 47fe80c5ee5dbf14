"""The subcommand `demo`: one turn with a graph of tools and a scripted model, without any setup."""
