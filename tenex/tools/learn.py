"""`learn`: an agent records a lesson for later conversations."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from tenex.core.config import Replay, Role
from tenex.core.ids import ConversationId, PublicKey, Slug
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from .tool import Refusal, Tool, object_schema, string

SHORTEST_LESSON: Final = 20
"""Characters: "be careful" and "all went well" are shorter, and change nothing."""

LONGEST_LESSON: Final = 4_000
"""Characters: lessons are put into later prompts, many at a time."""


class Lessons(Protocol):
    """Where lessons are kept."""

    async def record(
        self,
        *,
        agent: Slug,
        conversation_id: ConversationId,
        title: str,
        lesson: str,
        category: str,
        idempotency_key: str,
        author: PublicKey | None,
        role: Role | None,
    ) -> None:
        """Keep a lesson and on whose behalf it was learned, durably; a second call with the same key does nothing."""
        ...


def learn_tool(lessons: Lessons) -> Tool:
    """The tool `learn`, writing to `lessons`."""

    async def learn(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        title, lesson = " ".join(arguments["title"].split()), arguments["lesson"].strip()
        if not title:
            raise Refusal("Not recorded: `title` is blank. Name the lesson in a few words.")
        if len(lesson) < SHORTEST_LESSON:
            raise Refusal(
                f"Not recorded: a lesson of fewer than {SHORTEST_LESSON} characters is too short. Write what to do "
                "differently, when, and why."
            )
        await lessons.record(
            agent=context.agent,
            conversation_id=context.conversation_id,
            title=title,
            lesson=lesson,
            category=arguments.get("category", "").strip(),
            idempotency_key=context.idempotency_key,
            author=context.author,
            role=context.role,
        )
        return ToolResult(ok=True, content=f"Recorded the lesson: {title}", lesson=lesson)

    return Tool(
        name="learn",
        description="Records a lesson that you will be reminded of in later conversations.",
        parameters=object_schema(
            {
                "title": string(min_length=1, max_length=200),
                "lesson": string("What to do differently, when, and why.", min_length=1, max_length=LONGEST_LESSON),
            },
            {"category": string(max_length=60)},
        ),
        access=Access.LEARN,
        replay=Replay.IDEMPOTENT,
        body=learn,
    )
