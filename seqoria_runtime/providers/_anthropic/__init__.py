"""The Messages format of Anthropic."""
