"""What the requests of several wire formats have in common."""
