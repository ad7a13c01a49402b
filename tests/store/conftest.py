"""The threads of a store, an empty folder of conversations, the path of a journal, and a conversation of all phases."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tenex.store.disk import Disk
from tenex.store.repository import ConversationFolder
from tests.fakes import postgres
from tests.fakes.scenario import Scenario

from .kit import CONVERSATION_ID, StillClock, longest_scenario


@pytest.fixture
async def disk() -> AsyncIterator[Disk]:
    disk = Disk()
    yield disk
    disk.close()


@pytest.fixture
def folder(tmp_path: Path, disk: Disk) -> ConversationFolder:
    return ConversationFolder(tmp_path / "conversations", disk, StillClock())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conversations" / CONVERSATION_ID / "journal.jsonl"


@pytest.fixture
def scenario() -> Scenario:
    return longest_scenario()


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """The address of an empty schema on a real server."""
    with postgres.schema() as url:
        yield url
