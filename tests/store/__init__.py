"""Tests of the store: real files, real processes, faults injected where no disk gives them on demand."""
