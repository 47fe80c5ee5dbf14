"""Carries events from the work that makes them to the consumer who reads them."""
