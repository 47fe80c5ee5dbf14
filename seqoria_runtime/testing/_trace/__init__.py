"""Records what calls did, and the rules that every record has to keep."""
