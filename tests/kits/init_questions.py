"""`tenex init` in a terminal."""

import sys
from pathlib import Path

from tests.kits.terminal import Terminal


def init_command(data: Path) -> list[str]:
    return [sys.executable, "-m", "tenex.cli.main", "init", "--dir", str(data)]


async def answer(terminal: Terminal, *steps: tuple[str, str]) -> None:
    """Type each answer, and wait for the question after it, which may have been asked before."""
    for text, then in steps:
        count = terminal.screen().count(then)
        terminal.type(text)
        await terminal.until(lambda screen, then=then, count=count: screen.count(then) > count)  # type: ignore[misc]
