"""Tests of the root: the parts as they are put together."""
