"""Keeps one server connected: its session, its tool list, its circuit breaker."""
