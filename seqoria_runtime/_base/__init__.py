"""What every room uses: checks of arguments, redaction, retries, the tool protocol and the catalogue."""
