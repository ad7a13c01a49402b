"""Folders of conversations for the tests of commands."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenex.core.conversation import fold
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.store.disk import Disk
from tenex.store.journal_reader import JOURNAL
from tenex.store.repository import ConversationFolder
from tenex.store.view import Views
from tests.kits.lived import lived
from tests.store.kit import StillClock

ONE, TWO, THREE = (ConversationId(digit * 64) for digit in "123")
Decisions = Sequence[tuple[Record, ...]]


def write_conversations(data: Path, conversations: Mapping[ConversationId, Decisions]) -> None:
    """Write journals and views as a daemon does."""

    async def main() -> None:
        disk = Disk()
        folder = ConversationFolder(data / "conversations", disk, StillClock())
        for name, decisions in conversations.items():
            journal, _ = await folder.open(name)
            await journal.append(list(decisions))
            await Views(folder, disk).show(fold(name, [record for decision in decisions for record in decision]))
        await folder.close()
        disk.close()

    asyncio.run(main())


def renamed(name: ConversationId, decisions: Decisions) -> Decisions:
    return changed(decisions, ConversationStarted, id=name)


def changed(decisions: Decisions, kind: type[Record], **fields: Any) -> Decisions:
    """The same conversation with other values in the records of a kind."""
    return [
        tuple(replace(record, **fields) if isinstance(record, kind) else record for record in decision)
        for decision in decisions
    ]


def worked(name: ConversationId, seed: int = 0) -> Decisions:
    """A conversation through all phases, with costs, failures and a restart."""
    return renamed(name, lived(seed).journal)


def damage(data: Path, name: ConversationId) -> Path:
    """Change one bit in the journal; returns its file."""
    path = data / "conversations" / name / JOURNAL
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    return path
