"""A lesson is kept once, and only if it has content."""

import pytest

from tenex.core.config import Role
from tenex.core.ids import PublicKey
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult

from .conftest import Bench, KeptLessons, make_context

LESSON = "Read the file before you change it; twice it had changed meanwhile."
CONTEXT = make_context(Phase.REFLECTION, author=PublicKey("a" * 64), role=Role.MEMBER)


async def test_a_lesson_is_recorded_once_with_whose_and_where(tools: Bench, lessons: KeptLessons) -> None:
    given = {"title": " Read\n first ", "lesson": f"  {LESSON}\n", "category": "files"}
    expected = ToolResult(ok=True, content="Recorded the lesson: Read first", lesson=LESSON)
    assert await tools.do("learn", CONTEXT, **given) == await tools.do("learn", CONTEXT, **given) == expected
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


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"lesson": " " * 30 + "Be careful."}, "is too short"),
        ({"lesson": "x" * 4_001}, "`lesson` must satisfy `maxLength: 4000`"),
        ({"title": "  "}, "`title` is blank"),
        ({"title": ""}, "`title` must satisfy `minLength: 1`"),
    ],
)
async def test_what_teaches_nothing_is_refused(
    tools: Bench, lessons: KeptLessons, more: dict[str, str], words: str
) -> None:
    assert words in await tools.refused("learn", CONTEXT, **{"title": "Read first", "lesson": LESSON, **more})
    assert not lessons.by_key
