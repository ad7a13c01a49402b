"""`learn`: an agent records a lesson for later conversations, corrects one, or withdraws it."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from tenex.core.config import LessonSubject, Replay, Role
from tenex.core.people.trust import may_replace
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from .dependencies import ToolTable
from .stores import Lesson, Lessons
from .tool import Refusal, Tool, array, object_schema, string

SHORTEST_LESSON: Final = 20
"""Characters: "be careful" and "all went well" are shorter, and change nothing."""

LONGEST_LESSON: Final = 4_000
"""Characters: lessons are put into later prompts, many at a time."""

LONGEST_TITLE: Final = 200
"""Characters."""

MOST_REPLACED: Final = 10
"""Lessons that one call may replace or withdraw."""

_WORD: Final = re.compile(r"\w+")

_ABOUT: Final = {"workspace": LessonSubject.WORKSPACE, "me": LessonSubject.AGENT}


class _KnownError(Exception):
    """A lesson says the same as one that is kept."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self.title = title


def learn_tool(lessons: Lessons) -> Tool:
    """The tool `learn`, writing to `lessons`."""

    async def learn(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        title = " ".join(arguments.get("title", "").split())
        lesson = arguments.get("lesson", "").strip()
        numbers = tuple(dict.fromkeys(arguments.get("replaces", ())))
        if numbers and not lesson:
            return await _withdraw(lessons, numbers, context)
        if not title:
            raise Refusal("Not recorded: `title` is blank. Name the lesson in a few words.")
        if len(lesson) < SHORTEST_LESSON:
            raise Refusal(
                f"Not recorded: a lesson of fewer than {SHORTEST_LESSON} characters is too short. Write what to do "
                "differently, when, and why."
            )

        def check(shown: Sequence[Lesson]) -> None:
            _check_replaced(shown, numbers, context.role)
            _check_new(shown, lesson, numbers, context.role)

        instead = f", in place of {_named(lessons.lessons(context.agent), numbers)}" if numbers else ""
        try:
            await lessons.record(
                agent=context.agent,
                conversation_id=context.conversation_id,
                title=title,
                lesson=lesson,
                category=arguments.get("category", "").strip(),
                idempotency_key=context.idempotency_key,
                author=context.author,
                role=context.role,
                about=_ABOUT[arguments.get("about", "workspace")],
                replaces=numbers,
                check=check,
            )
        except _KnownError as known:
            return ToolResult(ok=True, content=f"Nothing to record: the lesson “{known.title}” says this already.")
        return ToolResult(ok=True, content=f"Recorded the lesson: {title}{instead}", lesson=lesson)

    return Tool(
        name="learn",
        description="Records a lesson for later conversations. With `replaces` it corrects or combines lessons that "
        "you were shown; with `replaces` alone it withdraws them.",
        parameters=object_schema(
            {},
            {
                "title": string(max_length=LONGEST_TITLE),
                "lesson": string("What to do differently, when, and why.", max_length=LONGEST_LESSON),
                "about": {
                    "type": "string",
                    "enum": [*_ABOUT],
                    "description": "workspace (default): for every agent; me: only your own way of working.",
                },
                "replaces": array({"type": "integer", "minimum": 1}, most=MOST_REPLACED),
                "category": string(max_length=60),
            },
        ),
        access=Access.LEARN,
        replay=Replay.IDEMPOTENT,
        body=learn,
    )


async def _withdraw(lessons: Lessons, numbers: Sequence[int], context: ExecutionContext) -> ToolResult:
    shown = lessons.lessons(context.agent)
    present = [number for number in numbers if any(one.number == number for one in shown)]
    absent = [number for number in numbers if number not in present]
    _check_replaced(shown, present, context.role)
    withdrawn = _named(shown, present)
    for number in present:
        await lessons.remove_lesson(number)
    sentences = []
    if present:
        sentences.append(f"Withdrawn, and shown to no agent any more: {withdrawn}.")
    if absent:
        sentences.append(f"Not among the lessons that you are shown: {_named(shown, absent)}.")
    return ToolResult(ok=True, content=" ".join(sentences))


def _check_replaced(shown: Sequence[Lesson], numbers: Collection[int], role: Role | None) -> None:
    by_number = {one.number: one for one in shown}
    for number in numbers:
        if number not in by_number:
            raise Refusal(
                f"Not recorded: you are shown no lesson {number}, or it was replaced meanwhile. Name one by the number "
                "before it, or leave `replaces` out."
            )
        if not may_replace(role, by_number[number].role):
            raise Refusal(
                f"Not recorded: {_named(shown, [number])} stays, because it comes from a user who may do more than the "
                "one you work for."
            )


def _check_new(shown: Sequence[Lesson], lesson: str, numbers: Collection[int], role: Role | None) -> None:
    """Pass over a lesson in the words of one of the same users; marks, spaces and capital letters are no difference."""
    for one in shown:
        is_of_equals = may_replace(role, one.role) and may_replace(one.role, role)
        if is_of_equals and one.number not in numbers and _words(one.lesson) == _words(lesson):
            raise _KnownError(one.title)


def _words(lesson: str) -> list[str]:
    return _WORD.findall(lesson.casefold())


def _named(shown: Sequence[Lesson], numbers: Sequence[int]) -> str:
    """Lessons by their titles, as people find them; one that is not shown any more by its number."""
    titles = {one.number: f"“{one.title}”" for one in shown}
    return ", ".join(titles.get(number, f"lesson {number}") for number in numbers)


TOOLS: Final[ToolTable] = {"learn": lambda parts: learn_tool(parts.lessons)}
