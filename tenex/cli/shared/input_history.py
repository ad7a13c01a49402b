"""What was typed in the chat, kept in a private file, so that the next chat finds it by the arrow keys and Ctrl-R."""

import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from prompt_toolkit.history import History

from tenex.core.text.foreign import redact

KEPT: Final = 500
"""Entries that are kept when the file has grown to twice as many."""
LONGEST: Final = 2_000
"""Characters of an entry; longer ones are pastes, which are not looked for by the arrow keys."""
_MARK: Final = re.compile(r"\[paste \d+: [\d,]+ characters\]")


class InputHistory(History):
    """The entries of a file, one JSON text a line, the newest last; without the file they last as long as the chat."""

    def __init__(self, file: Path | None) -> None:
        super().__init__()
        self._file = file

    def append_string(self, string: str) -> None:
        """Keep an entry, unless it is a paste or holds what looks like a secret key."""
        if len(string) <= LONGEST and not _MARK.search(string) and redact(string) == string:
            super().append_string(string)

    def load_history_strings(self) -> Iterable[str]:
        """The entries, the newest first; none where the file cannot be read."""
        entries = self._entries()
        if self._file is not None and len(entries) > 2 * KEPT:
            entries = entries[-KEPT:]
            with suppress(OSError):
                _replace(self._file, "".join(map(_line, entries)))
        return reversed(entries)

    def store_string(self, string: str) -> None:
        """Add an entry to the file; one that cannot be written is forgotten with this chat."""
        if self._file is None:
            return
        with suppress(OSError):
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
                opened.write(_line(string))

    def _entries(self) -> list[str]:
        entries: list[str] = []
        if self._file is None:
            return entries
        with suppress(OSError):
            for line in self._file.read_text(encoding="utf-8", errors="replace").splitlines():
                with suppress(ValueError, RecursionError):  # a line that was cut off
                    entry = json.loads(line)
                    if isinstance(entry, str):
                        entries.append(entry)
        return entries


def _line(entry: str) -> str:
    return f"{json.dumps(entry)}\n"


def _replace(file: Path, text: str) -> None:
    beside = file.with_name(f"{file.name}.new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as opened:
        opened.write(text)
    beside.replace(file)
