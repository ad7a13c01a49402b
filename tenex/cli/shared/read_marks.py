"""When each conversation was last seen in the chat, kept in a private file, so that a list shows what is new."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tenex.core.ids import Millis
from tenex.runtime.clock import SystemClock
from tenex.store.view_json import iso

KEPT: Final = 1_000
"""Conversations that are remembered, those seen last."""
_FIRST: Final = "first"
"""The name of the time from which on marks are kept: what was before is not new."""


class ReadMarks:
    """Times by conversation, as in its rows; without the file they last as long as the chat."""

    def __init__(self, file: Path | None = None, now: Callable[[], Millis] = SystemClock().now) -> None:
        self._file = file
        self._now = now
        self._marks = {_FIRST: self._time(), **self._read()}

    def is_new(self, row: Mapping[str, Any]) -> bool:
        """Whether something has happened in the conversation of a row since it was seen."""
        return str(row["updated"]) > self._marks.get(str(row["id"]), self._marks[_FIRST])

    def note(self, conversation: str) -> None:
        """A conversation is seen now, with all that is in it; a file that cannot be written is done without."""
        first = self._marks.pop(_FIRST)
        self._marks.pop(conversation, None)  # to the end, as the newest
        newest = [*self._marks.items(), (conversation, self._time())][-KEPT:]
        self._marks = {_FIRST: first, **dict(newest)}
        self._write()

    def begin(self) -> None:
        """Have what is there not be new, the first time that there is a chat."""
        if self._file is not None and not self._file.exists():
            self._write()

    def _time(self) -> str:
        return iso(self._now(), "milliseconds")

    def _read(self) -> dict[str, str]:
        if self._file is None:
            return {}
        with suppress(OSError, ValueError, RecursionError):
            marks = json.loads(self._file.read_text(encoding="utf-8"))
            if isinstance(marks, dict):
                return {name: time for name, time in marks.items() if isinstance(time, str)}
        return {}

    def _write(self) -> None:
        if self._file is None:
            return
        with suppress(OSError):
            beside = self._file.with_name(f"{self._file.name}.new")
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
                json.dump(self._marks, opened)
            beside.replace(self._file)
