"""A view of records its journal has no more: reported once, kept, and no reason to stop."""

from collections.abc import Callable

import pytest
import structlog

from tenex.core.conversation import fold
from tenex.store import view_ahead
from tenex.store.disk import Disk
from tenex.store.journal_reader import JOURNAL, VIEW
from tenex.store.repository import ConversationFolder
from tenex.store.verify import verify
from tenex.store.view import Views
from tests.fakes.scenario import ID

from .kit import records_of
from .test_stats import lived

DECISIONS = [list(decision) for decision in lived(0).journal]
RECORDS = records_of(lived(0))
KEPT = f"conversation.ahead-{len(RECORDS)}-1"


@pytest.fixture
async def folder(folder: ConversationFolder, disk: Disk) -> ConversationFolder:
    """One conversation, written as a daemon writes it."""
    journal, _ = await folder.open(ID)
    await journal.append(DECISIONS)
    await Views(folder, disk).show(fold(ID, RECORDS))
    await folder.close()
    return folder


def older(folder: ConversationFolder) -> None:
    """Somebody puts a copy in place that is some decisions old."""
    path = folder.path(ID) / JOURNAL
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[: -len(DECISIONS[-1])]))


def zeroed(folder: ConversationFolder) -> None:
    """The disk gives zeros for the end."""
    path = folder.path(ID) / JOURNAL
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: -len(DECISIONS[-1])]) + bytes(sum(map(len, lines[-len(DECISIONS[-1]) :]))))


@pytest.mark.parametrize("lose", [older, zeroed])
async def test_an_end_that_was_lost_is_reported_and_what_the_view_knew_of_it_is_kept(
    folder: ConversationFolder, disk: Disk, lose: Callable[[ConversationFolder], None]
) -> None:
    lose(folder)
    known = (folder.path(ID) / VIEW).read_bytes()
    before = (await verify(folder, ID)).faults
    assert f"covers record {len(RECORDS)}, but the journal ends with" in before[0]
    assert "rebuild ID --from conversation.json --force" in before[0]
    for _ in range(2):
        with structlog.testing.capture_logs() as logs:
            journal, records = await folder.open(ID)
        (log,) = [log for log in logs if log["event"] == "journal.truncated"]
        assert (log["log_level"], log["seq"], log["view"]) == ("warning", records[-1].seq, len(RECORDS))
        await journal.close()
    assert [path.name for path in view_ahead.kept(folder.path(ID))] == [KEPT]
    assert (folder.path(ID) / KEPT).read_bytes() == known

    await Views(folder, disk).show(fold(ID, records))
    with structlog.testing.capture_logs() as logs:
        await folder.open(ID)
    assert not [log for log in logs if log["event"] == "journal.truncated"]
    verdict = await verify(folder, ID)
    assert verdict.faults == ()
    assert KEPT in verdict.remarks[0]
    assert not (folder.path(ID) / "QUARANTINED").exists()


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{\n  "seq": "9"\n}', b'{\n  "seq": 1,\n', b'{"text": "\\n  \\"seq\\": 999,"}']
)
async def test_a_view_without_a_later_seq_is_no_sign_of_a_lost_end(folder: ConversationFolder, content: bytes) -> None:
    (folder.path(ID) / VIEW).write_bytes(content)
    with structlog.testing.capture_logs() as logs:
        await folder.open(ID)
    assert not [log for log in logs if log["event"] == "journal.truncated"]
    assert view_ahead.kept(folder.path(ID)) == []
