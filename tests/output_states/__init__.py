"""Tests of an agent's output states."""
