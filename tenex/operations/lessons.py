"""Lessons for the command line: read beside a running daemon, removed by it or without one."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from tenex.core.errors import UsageError
from tenex.runtime.clock import SystemClock
from tenex.store.daemon_journal import DAEMON, DaemonJournal, LessonLearned
from tenex.store.disk import Disk
from tenex.store.journal_reader import NEWEST, peek


class StoredLessons(DaemonJournal):
    """The lessons as they are on disk; adding one raises `InternalError`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, Disk(), SystemClock())
        self._disk.close()
        with suppress(FileNotFoundError, NotADirectoryError):
            for record in peek(self._path, DAEMON, NEWEST):
                self._fold(record)


async def remove_lesson(book: DaemonJournal, number: object) -> dict[str, Any]:
    """Remove a lesson durably and return it.

    Raises:
        UsageError: there is none of that number.
        AppendFailed: the disk did not take it.
        StoreDamaged: the journal has become unreadable.
    """
    lesson = await book.remove_lesson(number) if isinstance(number, int) else None
    if lesson is None:
        raise unknown(number)
    return as_dict(lesson)


def unknown(number: object) -> UsageError:
    """The error for a number without a lesson."""
    return UsageError(f"There is no lesson {number}; `tenex agents lessons list` shows all.")


def as_dict(lesson: LessonLearned) -> dict[str, Any]:
    """A lesson for programs."""
    return {
        "number": lesson.seq,
        "agent": lesson.agent,
        "title": lesson.title,
        "lesson": lesson.lesson,
        "category": lesson.category,
        "conversation": lesson.conversation,
        "at": lesson.at,
        "author": lesson.author,
        "role": None if lesson.role is None else lesson.role.value,
    }
