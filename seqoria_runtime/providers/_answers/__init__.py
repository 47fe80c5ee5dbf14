"""What the answers of all wire formats have in common: bytes in, events and a response out."""
