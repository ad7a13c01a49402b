"""What tools read and write outside the workspace: lessons, and the messages of conversations."""

from collections.abc import Callable, Sequence
from typing import Protocol

from tenex.core.config import LessonSubject, Role
from tenex.core.ids import ConversationId, PublicKey, Slug
from tenex.core.port_values import Passages, PassagesFound


class Lesson(Protocol):
    """A lesson that an agent is shown."""

    @property
    def number(self) -> int:
        """What it is called by."""
        ...

    @property
    def title(self) -> str:
        """In a few words."""
        ...

    @property
    def lesson(self) -> str:
        """What to do differently, when, and why."""
        ...

    @property
    def role(self) -> Role | None:
        """What the user was allowed to do on whose behalf it was learned."""
        ...


class Lessons(Protocol):
    """Where lessons are kept."""

    def lessons(self, agent: str) -> Sequence[Lesson]:
        """The lessons that an agent is shown, oldest first."""
        ...

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
        about: LessonSubject,
        replaces: Sequence[int],
        check: Callable[[Sequence[Lesson]], None],
    ) -> None:
        """Keep a lesson in place of those it replaces, durably; a second call with the same key does nothing.

        `check` is called with what the agent is shown by then, and nothing comes between it and what is kept: agents
        reflect at the same time. What it raises is raised, and nothing is kept.
        """
        ...

    async def remove_lesson(self, seq: int, /) -> Lesson | None:
        """Remove a lesson durably and return it; None where there is none of that number."""
        ...


class PastMessages(Protocol):
    """Where the messages of conversations are found; see `store.past_messages`."""

    async def search(
        self, query: str, here: ConversationId, person: PublicKey | None, only: ConversationId | None = None
    ) -> PassagesFound:
        """The best matches in the asking conversation `here`, then in others; or in one alone."""
        ...

    async def named(self, name: str, here: ConversationId, person: PublicKey | None) -> tuple[Passages, ...]:
        """The conversations of that id or title that may be read, without messages."""
        ...

    async def read(
        self, conversation: ConversationId, around: int | None, here: ConversationId, person: PublicKey | None
    ) -> Passages:
        """The messages before and after a place, or the newest."""
        ...
