"""Folders of conversations for the tests of commands."""

import asyncio
from dataclasses import replace
from pathlib import Path

from tenex.core.conversation import fold
from tenex.core.ids import ConversationId
from tenex.core.records import ConversationStarted, Record
from tenex.store.disk import Disk
from tenex.store.repository import ConversationFolder
from tenex.store.view import Views
from tests.store.kit import StillClock

ONE, TWO, THREE = (ConversationId(digit * 64) for digit in "123")


def write_conversations(data: Path, conversations: dict[ConversationId, list[tuple[Record, ...]]]) -> None:
    """Write journals and views as a daemon does."""

    async def main() -> None:
        disk = Disk()
        folder = ConversationFolder(data / "conversations", disk, StillClock())
        for name, decisions in conversations.items():
            journal, _ = await folder.open(name)
            await journal.append(decisions)
            await Views(folder, disk).show(fold(name, [record for decision in decisions for record in decision]))
        await folder.close()
        disk.close()

    asyncio.run(main())


def renamed(name: ConversationId, decisions: list[tuple[Record, ...]]) -> list[tuple[Record, ...]]:
    first, *others = decisions
    began = first[0]
    assert isinstance(began, ConversationStarted)
    return [(replace(began, id=name), *first[1:]), *others]
