"""Keeps what plugins print away from the standard output, which belongs to the commands that load them.

A command with `--json` prints a value there, and a server on pipes speaks its protocol. Threads and tasks that are
begun within `captured` inherit it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

MOST_PRINTED: Final = 2_000
"""Characters that are kept: enough to recognise what prints."""

_PRINTED: ContextVar[list[str] | None] = ContextVar("printed", default=None)


@contextmanager
def captured() -> Iterator[list[str]]:
    """Within the block nothing is printed; the list grows by the beginning of what would have been."""
    if not isinstance(sys.stdout, _Output):
        replaced: Any = _Output(sys.stdout)
        sys.stdout = replaced
    printed: list[str] = []
    token = _PRINTED.set(printed)
    try:
        yield printed
    finally:
        _PRINTED.reset(token)


class _Output:
    """The standard output, for everyone but plugins."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def write(self, text: str) -> int:
        """Print a text, or keep it."""
        printed = _PRINTED.get()
        if printed is None:
            written: int = self._inner.write(text)
            return written
        room = MOST_PRINTED - sum(map(len, printed))
        if room > 0:
            printed.append(text[:room])
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Print some texts, or keep them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
