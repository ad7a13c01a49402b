"""Tests of the package `samples`."""
