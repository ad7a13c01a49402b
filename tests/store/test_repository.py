"""All conversations of a data folder."""

import asyncio
import os
import shutil

import pytest

from tenex.core.errors import AppendFailed, StoreDamaged, UsageError
from tenex.core.ids import ConversationId
from tenex.store.contents import Remains
from tenex.store.repository import NEWEST, ConversationFolder, FolderLog

from .kit import CONVERSATION_ID, asked, decisions_of, started, stored, write_rotated

OTHER = ConversationId("d" * 64)


async def test_only_an_id_becomes_a_path(folder: ConversationFolder) -> None:
    for name in ("", "..", "../" + "c" * 61, "c" * 63, "c" * 65, "C" * 64, "c" * 64 + "\n", "_daemon"):
        for use in (folder.open, folder.read):
            with pytest.raises(UsageError, match="64 lower-case hex digits"):
                await use(ConversationId(name))


async def test_other_names_are_ignored_and_lost_journals_are_not(folder: ConversationFolder) -> None:
    root = folder.root
    (root / "_daemon").mkdir(parents=True)
    (root / "index.sqlite").touch()
    (root / ("e" * 64)).mkdir()
    (root / ("f" * 64)).touch()
    (root / CONVERSATION_ID).mkdir()
    (root / CONVERSATION_ID / "conversation.json").touch()
    assert await folder.lengths() == {CONVERSATION_ID: 0, "f" * 64: 0}
    with pytest.raises(StoreDamaged, match="`tenex conversations rebuild"):
        await folder.open(CONVERSATION_ID)
    with pytest.raises(StoreDamaged):
        await folder.open(ConversationId("f" * 64))
    with pytest.raises(UsageError, match="no conversation d"):
        await folder.read(OTHER)
    (folder.root / OTHER / "journal.jsonl").mkdir(parents=True)
    with pytest.raises(StoreDamaged, match="is no file"):
        await folder.read(OTHER)


async def test_of_two_that_open_at_once_one_can_write(folder: ConversationFolder) -> None:
    await stored(folder, CONVERSATION_ID, started())
    async with asyncio.timeout(60):
        (first, _), (second, _) = await asyncio.gather(folder.open(CONVERSATION_ID), folder.open(CONVERSATION_ID))
    outcomes = await asyncio.gather(first.append([[asked(2)]]), second.append([[asked(2)]]), return_exceptions=True)
    (refusal,) = [outcome for outcome in outcomes if outcome is not None]
    assert isinstance(refusal, AppendFailed)
    assert "closed" in str(refusal)
    assert len(await folder.read(CONVERSATION_ID)) == 2


async def test_a_copy_of_a_folder_is_not_taken_for_another_conversation(folder: ConversationFolder) -> None:
    """Its events would lead to it, and each reply would be published twice."""
    await write_rotated(folder, decisions_of(1, 1), each=2)
    shutil.copytree(folder.path(CONVERSATION_ID), folder.path(OTHER))
    for look in (folder.read(OTHER), folder.read(OTHER, NEWEST), folder.open(OTHER)):
        with pytest.raises(StoreDamaged, match=f"journal of the conversation {CONVERSATION_ID}, in the folder of a"):
            await look
    assert list(await folder.quarantined()) == [OTHER]
    assert folder.length(OTHER) == 0
    assert len(await folder.read(CONVERSATION_ID)) > 0


async def test_a_view_that_is_missing_or_older_than_its_journal_is_behind(folder: ConversationFolder) -> None:
    root = folder.path(CONVERSATION_ID)
    assert await folder.behind() == []
    root.mkdir(parents=True)
    (root / "journal.jsonl").touch()
    assert await folder.behind() == [CONVERSATION_ID]
    (root / "conversation.json").touch()
    assert await folder.behind() == []
    os.utime(root / "journal.jsonl", ns=(0, (root / "conversation.json").stat().st_mtime_ns + 1))
    assert await folder.behind() == [CONVERSATION_ID]


async def test_a_journal_that_is_begun_between_two_looks_is_no_damage(
    folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view is written after what it covers, so who sees it may see the journal too."""
    look = FolderLog.files
    looks: list[int] = []

    async def early(records: FolderLog, conversation: ConversationId, since: int, until: int) -> Remains:
        looks.append(since)
        files = await look(records, conversation, since, until)
        if len(looks) == 1:
            await stored(folder, CONVERSATION_ID, started())
            (folder.path(CONVERSATION_ID) / "conversation.json").touch()
        return files

    monkeypatch.setattr(FolderLog, "files", early)
    assert len(await folder.read(CONVERSATION_ID)) == 1
    assert len(looks) == 2
