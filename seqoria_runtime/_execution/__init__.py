"""Runs batches of tool calls: admission, order, the calls themselves, and the streams that report them."""
