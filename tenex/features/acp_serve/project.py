"""The data folder of an editor's sessions: its conversations, what is written to them, and which one a session is."""

import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tenex.cli.shared.files import replace
from tenex.core.errors import StoreError
from tenex.core.ids import ConversationId, PublicKey
from tenex.core.records import Record
from tenex.log import get_logger
from tenex.nostr.events import sign
from tenex.nostr.keys import SecretKey
from tenex.operations.asks import Replied
from tenex.operations.doctor.daemon import lock_holder
from tenex.operations.listing import list_rows
from tenex.operations.replies import Draft, checked, drafted_note, drafted_reply, publish
from tenex.settings import ProjectPaths
from tenex.store.conversations import Conversations, is_id
from tenex.store.record_log import Tail
from tenex.store.repository import NEWEST
from tenex.store.search import Filter

log = get_logger(__name__)

SESSIONS: Final = "editor-sessions"
"""In the data folder: a file for each session that an editor has begun, with the id of its conversation."""
LISTED: Final = 50
"""Conversations of a page of the list."""
_SESSION: Final = re.compile(r"editor-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A data folder, and the owner who writes from an editor."""

    folder: Conversations
    places: ProjectPaths
    owner: SecretKey
    key: PublicKey
    """The project's."""
    relays: Sequence[str]

    @property
    def workspace(self) -> Path:
        """Where agents work: the only folder that an editor can open here."""
        return self.places.workspace

    async def has_daemon(self) -> bool:
        """Whether a daemon works on these conversations, here or on the same database."""
        with suppress(OSError, StoreError):
            return bool(lock_holder(self.folder.root)) or any(
                not other.is_silent for other in await self.folder.workers()
            )
        return False

    async def listed(self, skipped: int) -> list[dict[str, Any]]:
        """The conversations, last updated first, without the first `skipped`; at most `LISTED`."""
        return (await list_rows(self.folder, Filter(), skipped + LISTED, notice=log.warning))[skipped:]

    async def records(self, conversation: ConversationId) -> list[Record]:
        """The newest records of a conversation; none where there is no such one."""
        with suppress(FileNotFoundError):
            if await self.folder.size(conversation):
                return await self.folder.read(conversation, NEWEST)
        return []

    def tail(self, conversation: ConversationId, seq: int) -> Tail:
        """What follows a record of a conversation, which need not exist yet."""
        return self.folder.tail(conversation, seq)

    # ---- which conversation a session is ----

    @staticmethod
    def new_session() -> str:
        """The id of a session whose conversation begins with its first message."""
        return f"editor-{secrets.token_hex(16)}"

    def conversation_of(self, session: str) -> ConversationId | None:
        """The conversation of a session, whose own id is one too; None where there is none yet.

        Raises:
            OSError: the session's file cannot be read.
        """
        if is_id(session):
            return ConversationId(session)
        if not self.is_session(session):
            return None
        with suppress(FileNotFoundError):
            name = (self.places.data / SESSIONS / session).read_text().strip()
            return ConversationId(name) if is_id(name) else None
        return None

    @staticmethod
    def is_session(session: str) -> bool:
        """Whether this is the id of a session that `new_session` may have made."""
        return _SESSION.fullmatch(session) is not None

    # ---- writing ----

    def first_message(self, session: str, text: str) -> Draft:
        """The message that begins a session's conversation, whose id is that of the event.

        The session's file is written: after a kill the editor finds the conversation again.

        Raises:
            UsageError: there is no text, or too much.
            ConfigurationError: the session's file cannot be written.
        """
        draft = drafted_note(checked(text), self.owner.public, self.key, self.relays)
        replace(self.places.data / SESSIONS / session, f"{draft.events[0].id}\n")
        return draft

    def reply(self, replied: Replied, text: str) -> Draft:
        """A reply to a message.

        Raises:
            UsageError: there is no text, or too much.
        """
        return drafted_reply(replied, checked(text), self.owner.public, self.key, self.relays)

    async def publish(self, draft: Draft) -> None:
        """Sign a draft as the owner, and return when each relay has answered or was given up.

        Raises:
            TransientError: no relay took it.
        """
        await publish([sign(event, self.owner) for event in draft.events], draft.relays, self.owner)
