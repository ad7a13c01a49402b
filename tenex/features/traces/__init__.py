"""Traces of conversations, exported by OpenTelemetry."""
