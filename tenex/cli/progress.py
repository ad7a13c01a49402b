"""How far a long reading of files is, shown to a person at a terminal."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE: Final = 1.0
"""Seconds after which a person at a terminal is shown how far it is."""


def shown(names: Sequence[T], what: str = "Reading journals") -> Iterator[T]:
    """Hand on the names one by one, with a bar on stderr where somebody looks and it takes long."""
    began, bar = time.monotonic(), None
    try:
        for number, name in enumerate(names):
            if bar is None and time.monotonic() - began > PATIENCE and sys.stderr.isatty():
                from rich.console import Console
                from rich.progress import Progress

                bar = Progress(console=Console(stderr=True), transient=True)
                bar.start()
                task = bar.add_task(what, total=len(names))
            if bar is not None:
                bar.update(task, completed=number)
            yield name
    finally:
        if bar is not None:
            bar.stop()
