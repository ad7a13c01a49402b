"""Silence for commands that ask parts of the daemon: those log, and here the command itself tells what came of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def quietly() -> Iterator[None]:
    """Let nothing be logged while the context lasts."""
    from tenex.telemetry import configure

    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        telemetry = configure("error", "json", nowhere)
        try:
            yield
        finally:
            telemetry.close()
