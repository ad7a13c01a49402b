"""The daemon's own journal of an earlier day is read as on that day, by its newest file or by all of them."""

import shutil
from pathlib import Path

from tenex.core.ids import PublicKey
from tenex.store import segments
from tenex.store.daemon_journal import DAEMON, FOLDER, DaemonFolder, DaemonJournal, DaemonSnapshot
from tenex.store.disk import Disk
from tenex.store.journal_reader import JOURNAL, peek
from tests.store.kit import StillClock

from .record import BOOK

FILES = segments.numbers(BOOK / FOLDER)


def test_its_lines_are_written_again_to_the_byte_and_one_file_follows_on_the_other() -> None:
    assert FILES == [1, 2, 3, 4]
    for number in FILES:
        data = (BOOK / FOLDER / segments.name_of(number)).read_bytes()
        records, length, fault = DAEMON.decode_lines(data)
        assert (length, fault) == (len(data), None)
        assert DAEMON.encode_decisions([[record] for record in records]) == data
        assert isinstance(records[0], DaemonSnapshot) == (number > 1)
    assert [record.seq for record in peek(BOOK / FOLDER / JOURNAL, DAEMON)] == list(range(1, 12))


async def test_it_keeps_its_state(tmp_path: Path) -> None:
    shutil.copytree(BOOK, tmp_path, dirs_exist_ok=True)
    disk = Disk()
    try:
        book = await DaemonJournal.open(DaemonFolder(tmp_path, disk, StillClock()), StillClock())
        await book.record("executor", book.lessons("executor")[0].conversation, "", "said before", "", "key-3")
        await book.close()
    finally:
        disk.close()
    assert [lesson.lesson for lesson in book.lessons("executor")] == ["lesson 4: 📖", "lesson 6: 📖"]
    assert [lesson.key for lesson in book.lessons("planner")] == ["key-3", "key-5"]
    assert book.profile(PublicKey("a" * 64), 0) is not None
    (notice,) = book.open_notices()
    assert (notice.failure, notice.written, notice.origin["tags"]) == ("damaged", 5, [["e", "f" * 64, ""], []])
