"""A lesson is kept once, and only if it has content."""

import errno

import pytest

from tenex.core.config import Role
from tenex.core.ids import PublicKey
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.tools.registry import ToolRegistry

from .conftest import KeptLessons, fails, make_context

LESSON = "Read the file before you change it; twice it had changed meanwhile."


async def learn(registry: ToolRegistry, key: str = "c:1", **more: str) -> ToolResult:
    arguments = {"title": "Read first", "lesson": LESSON, **more}
    return await registry.call(
        "learn",
        arguments,
        make_context(Phase.REFLECTION, idempotency_key=key, author=PublicKey("a" * 64), role=Role.MEMBER),
    )


async def test_a_lesson_is_recorded_with_whose_and_where(registry: ToolRegistry, lessons: KeptLessons) -> None:
    result = await learn(registry, title=" Read\n first ", lesson=f"  {LESSON}\n", category="files")
    assert result == ToolResult(ok=True, content="Recorded the lesson: Read first", lesson=LESSON)
    assert lessons.by_key == {
        "c:1": {
            "agent": "executor",
            "conversation_id": "c" * 64,
            "title": "Read first",
            "lesson": LESSON,
            "category": "files",
            "author": "a" * 64,
            "role": Role.MEMBER,
        }
    }


async def test_a_repeated_call_records_nothing_new(registry: ToolRegistry, lessons: KeptLessons) -> None:
    first, again = await learn(registry), await learn(registry)
    assert first == again
    await learn(registry, key="c:2")
    assert list(lessons.by_key) == ["c:1", "c:2"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"lesson": "Be careful."}, "is too short"),
        ({"lesson": " " * 30 + "Be careful."}, "is too short"),
        ({"lesson": "x" * 4_001}, "`lesson` must satisfy `maxLength: 4000`"),
        ({"title": "  "}, "`title` is blank"),
        ({"title": ""}, "`title` must satisfy `minLength: 1`"),
    ],
)
async def test_what_teaches_nothing_is_refused(
    registry: ToolRegistry, lessons: KeptLessons, more: dict[str, str], words: str
) -> None:
    result = await learn(registry, **more)
    assert not result.ok
    assert words in result.content
    assert not result.lesson
    assert not lessons.by_key


async def test_a_lesson_that_could_not_be_kept_is_not_claimed(
    registry: ToolRegistry, lessons: KeptLessons, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lessons, "record", fails(errno.ENOSPC))
    result = await learn(registry)
    assert not result.ok
    assert not result.lesson
