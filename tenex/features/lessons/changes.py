"""Lessons of agents, changed and removed by a person."""

from typing import Any

from tenex.core.errors import UsageError
from tenex.store.daemon_journal import DaemonJournal, LessonLearned
from tenex.tools.learn import LONGEST_LESSON, LONGEST_TITLE


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


async def edit_lesson(book: DaemonJournal, number: object, title: object, text: object) -> dict[str, Any]:
    """Change a lesson's title and text durably, where they are not None, and return it as it is then.

    Raises:
        UsageError: there is none of that number, or a word is blank or too long.
        AppendFailed: the disk did not take it.
        StoreDamaged: the journal has become unreadable.
    """
    old = next((one for one in book.all_lessons() if one.number == number), None)
    if old is None:
        raise unknown(number)
    new_title = old.title if title is None else " ".join(str(title).split())
    new_text = old.lesson if text is None else str(text).strip()
    if not new_title or not new_text:
        raise UsageError(
            f"Lesson {number} stays: its title and text cannot be blank. To remove it: "
            f"`tenex agents lessons remove {number}`."
        )
    if len(new_text) > LONGEST_LESSON:
        raise UsageError(f"Lesson {number} stays: the text has {len(new_text)} characters, more than {LONGEST_LESSON}.")
    edited = await book.edit_lesson(old.number, new_title[:LONGEST_TITLE], new_text)
    if edited is None:
        raise unknown(number)
    return as_dict(edited)


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
        "about": lesson.about.value,
        "category": lesson.category,
        "conversation": lesson.conversation,
        "at": lesson.at,
        "author": lesson.author,
        "role": None if lesson.role is None else lesson.role.value,
    }
