"""Metrics for Prometheus, and whether the daemon is healthy, at a port."""
