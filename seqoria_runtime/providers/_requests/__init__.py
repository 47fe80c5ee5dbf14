"""What the requests of all wire formats have in common: history, names, schemas, content and options."""
