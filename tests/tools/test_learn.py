"""A lesson is kept once, and only if it has content."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenex.core.config import LessonSubject, Role
from tenex.core.ids import PublicKey
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.store.daemon_journal import DaemonFolder, DaemonJournal
from tenex.store.disk import Disk
from tenex.tools.dependencies import ToolDependencies
from tenex.tools.sandbox import RunPolicy
from tenex.tools.standard import standard_tools
from tenex.tools.workspace import Workspace
from tests.store.kit import StillClock

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
            "about": LessonSubject.WORKSPACE,
            "replaces": (),
        }
    }


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"lesson": " " * 30 + "Be careful."}, "is too short"),
        ({"lesson": "x" * 4_001}, "`lesson` must satisfy `maxLength: 4000`"),
        ({"title": "  "}, "`title` is blank"),
        ({"title": ""}, "`title` is blank"),
        ({"replaces": [7]}, "you are shown no lesson 7"),
        ({"replaces": [0]}, "minimum"),
    ],
)
async def test_what_teaches_nothing_is_refused(
    tools: Bench, lessons: KeptLessons, more: dict[str, str], words: str
) -> None:
    assert words in await tools.refused("learn", CONTEXT, **{"title": "Read first", "lesson": LESSON, **more})
    assert not lessons.by_key


async def journal_and_tools(root: Path) -> tuple[DaemonJournal, Bench]:
    journal = await DaemonJournal.open(DaemonFolder(root, Disk(), StillClock()), StillClock())
    dependencies = ToolDependencies(workspace=Workspace(root), lessons=journal, check=RunPolicy.UNSANDBOXED)
    return journal, Bench(standard_tools(dependencies))


def shown(journal: DaemonJournal, agent: str) -> list[tuple[int, str]]:
    return [(lesson.number, lesson.title) for lesson in journal.lessons(agent)]


async def test_a_lesson_about_the_workspace_reaches_every_agent_and_one_about_me_only_me(tmp_path: Path) -> None:
    """Two agents of one workspace met the same surprise twice, because each learned alone."""
    journal, tools = await journal_and_tools(tmp_path)
    await tools.do("learn", CONTEXT, title="Tests", lesson="Run the tests with tox; pytest alone misses the plugins.")
    mine = make_context(Phase.REFLECTION, author=PublicKey("a" * 64), role=Role.MEMBER, idempotency_key="c:2")
    await tools.do("learn", mine, title="Haste", lesson="I answer before I have read the traceback.", about="me")
    assert shown(journal, "executor") == [(1, "Tests"), (2, "Haste")]
    assert shown(journal, "planner") == [(1, "Tests")]


async def test_an_opposite_lesson_takes_the_place_of_the_old_one_or_is_withdrawn(tmp_path: Path) -> None:
    journal, tools = await journal_and_tools(tmp_path)
    lesson = {"title": "Tests", "lesson": "Run the tests with tox in this repository; pytest alone fails."}
    opposite = {"title": "Tests", "lesson": "Do not run the tests with tox in this repository; pytest alone works."}
    await tools.do("learn", CONTEXT, **lesson)
    again = make_context(
        Phase.REFLECTION, agent="security", idempotency_key="c:2", author=PublicKey("a" * 64), role=Role.MEMBER
    )
    for old in ("“Tests”", "lesson 1"):  # the second time as after a crash, when the call is repeated
        result = await tools.do("learn", again, **opposite, replaces=[1])
        assert result.content == f"Recorded the lesson: Tests, in place of {old}"
    assert [lesson.lesson for lesson in journal.lessons("executor")] == [opposite["lesson"]]
    for words in ("shown to no agent any more: “Tests”", "Not among the lessons that you are shown: lesson 2"):
        assert words in (await tools.do("learn", again, replaces=[2])).content
    reopened, _ = await journal_and_tools(tmp_path)
    assert journal.all_lessons() == reopened.all_lessons() == ()


@pytest.mark.parametrize(
    ("lesson", "is_known"),
    [
        ("asked for “create hello.py that prints hello”  Verified: it prints “hello”", True),
        ("Asked for “Create bye.py that prints bye”. Verified: it prints “bye”", False),
        ("Asked for “Create hello.py that prints hello”. Not verified: it prints “hello”", False),
    ],
)
async def test_only_a_lesson_in_the_same_words_is_known_already(tmp_path: Path, lesson: str, is_known: bool) -> None:
    journal, tools = await journal_and_tools(tmp_path)
    first = "Asked for “Create hello.py that prints hello”. Verified: it prints “hello”"
    await tools.do("learn", CONTEXT, title="Create hello.py", lesson=first)
    again = make_context(Phase.REFLECTION, idempotency_key="c:2", author=PublicKey("a" * 64), role=Role.MEMBER)
    result = await tools.do("learn", again, title="Another title", lesson=lesson)
    known = "Nothing to record: the lesson “Create hello.py” says this already."
    assert result.content == (known if is_known else "Recorded the lesson: Another title")
    assert result.ok
    assert len(journal.all_lessons()) == (1 if is_known else 2)


async def test_agents_that_reflect_at_the_same_time_do_not_record_one_lesson_twice(tmp_path: Path) -> None:
    """Each looked for a similar lesson before any was kept; so did two that replaced the same one."""
    journal, tools = await journal_and_tools(tmp_path)

    async def learn(agent: str, key: str, **given: Any) -> str:
        context = make_context(
            Phase.REFLECTION, agent=agent, idempotency_key=key, author=PublicKey("a" * 64), role=Role.MEMBER
        )
        return (await tools.do("learn", context, **given)).content

    pair = (("executor", "c:1"), ("security", "c:2"))
    tox = {"title": "Tests", "lesson": "Run the tests with tox in this repository; pytest alone fails."}
    answers = await asyncio.gather(*(learn(agent, key, **tox) for agent, key in pair))
    assert answers == ["Recorded the lesson: Tests", "Nothing to record: the lesson “Tests” says this already."]
    pair = (("executor", "c:3"), ("security", "c:4"))
    nox = {"title": "Tests", "lesson": "Run the tests with nox in this repository; tox misses the plugins."}
    answers = await asyncio.gather(*(learn(agent, key, **nox, replaces=[1]) for agent, key in pair))
    assert "in place of “Tests”" in answers[0]
    assert "you are shown no lesson 1, or it was replaced meanwhile" in answers[1]
    assert len(journal.all_lessons()) == 1


async def test_work_for_a_guest_takes_nothing_away_that_an_owner_taught(tmp_path: Path) -> None:
    journal, tools = await journal_and_tools(tmp_path)
    owner = make_context(Phase.REFLECTION, author=PublicKey("a" * 64), role=Role.OWNER)
    guest = make_context(Phase.REFLECTION, author=PublicKey("b" * 64), role=Role.GUEST, idempotency_key="c:2")
    await tools.do("learn", owner, title="Secrets", lesson="Never print what the folder of keys contains.")
    for words in ({"title": "Secrets", "lesson": "Print what the folder of keys contains."}, {}):
        assert "“Secrets” stays" in await tools.refused("learn", guest, **words, replaces=[1])
    assert shown(journal, "executor") == [(1, "Secrets")]
