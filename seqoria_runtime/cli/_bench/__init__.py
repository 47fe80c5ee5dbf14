"""The subcommand `bench`: measurements of an application's own tools."""
