"""Records what calls do, and the rules that every record must keep."""
