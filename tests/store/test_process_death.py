"""A process that dies while it writes a view or the index: the next one finds the old or the new, and repairs the rest.

A dead process tidies nothing up, so what it leaves is copied right where it died.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenex.core.conversation import fold
from tenex.store import schema
from tenex.store.disk import Disk
from tenex.store.index import Index
from tenex.store.index_row import news_of, summarise
from tenex.store.journal_reader import VIEW
from tenex.store.repository import ConversationFolder
from tenex.store.verify import verify
from tenex.store.view import Views
from tenex.store.view_json import render
from tests.fakes.scenario import ID, Scenario

from .kit import StillClock, records_of
from .test_rotation import Death, dying


@pytest.fixture
async def folder(folder: ConversationFolder, scenario: Scenario) -> ConversationFolder:
    """The whole scenario in a journal; nothing else yet."""
    journal, _ = await folder.open(ID)
    await journal.append(scenario.journal)
    return folder


# ---- the view -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("owner", "name", "at"),
    [(os, "write", 1), (os, "fsync", 1), (Path, "replace", 1), (os, "fsync", 2)],
    ids=["write", "flush of the file", "rename", "flush of the folder"],
)
async def test_a_death_within_a_view_leaves_the_old_one_or_the_new_one(
    folder: ConversationFolder,
    disk: Disk,
    scenario: Scenario,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    at: int,
    after: bool,
) -> None:
    """A start knows from the times whether it has to be written, and opening the journal sweeps what was half made."""
    records = records_of(scenario)
    old, new = fold(ID, records[:60]), fold(ID, records)
    views = Views(folder, disk)
    await views.show(old)
    journal = folder.path(ID) / "journal.jsonl"
    os.utime(journal, ns=(journal.stat().st_mtime_ns + 10**9,) * 2)  # it was appended to after the old view
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        patch.setattr(owner, name, dying(getattr(owner, name), at, after=after))
        with pytest.raises(Death):
            await views.show(new)
    left = folder.root.parent / "left"
    shutil.copytree(folder.root, left)
    there = ConversationFolder(left, disk, StillClock())
    found = (left / ID / VIEW).read_text()
    is_renamed = (name, at, after) in (("replace", 1, True), ("fsync", 2, False), ("fsync", 2, True))
    assert found == render(new if is_renamed else old)
    assert is_renamed or await there.behind() == [ID]
    assert (await verify(there, ID)).faults == ()
    _, again = await there.open(ID)
    assert not list((left / ID).glob(".*")), "what was half done is swept away"
    await Views(there, disk).show(fold(ID, again))
    assert (left / ID / VIEW).read_text() == render(new)


# ---- the index ------------------------------------------------------------------------------------------------------


def facts(index: Path) -> list[tuple[Any, ...]]:
    """All an index holds of journals, without its own numbers."""
    found: list[tuple[Any, ...]] = []
    with closing(sqlite3.connect(index)) as connection:
        for query in (
            f"select {schema.COLUMNS} from conversations",
            "select event_id, id from events join conversations on conversation = number",
            "select kind, value, id from facets join conversations on conversation = number",
            "select m.seq, at, name, text from messages m join words on words.rowid = m.number",
        ):
            found.extend(tuple(map(str, row)) for row in connection.execute(query))
    return sorted(found)


def leaving(real: Callable[..., Any], left: list[Path], root: Path, *, after: bool) -> Callable[..., Any]:
    """The same call, with a copy of all files made before or after it."""

    def call(*arguments: Any) -> Any:
        def leave() -> None:
            left.append(root.parent / f"left-{len(left)}")
            shutil.copytree(root, left[-1])

        if not after:
            leave()
        result = real(*arguments)
        if after:
            leave()
        return result

    return call


@pytest.mark.parametrize(
    ("name", "after"),
    [("write", False), ("_forget", False), ("_forget", True), ("_write", True), ("write", True)],
    ids=["before it begins", "begun", "between statements", "before the commit", "after the commit"],
)
async def test_a_death_within_the_index_costs_a_look_at_the_journal(
    folder: ConversationFolder, disk: Disk, scenario: Scenario, monkeypatch: pytest.MonkeyPatch, name: str, after: bool
) -> None:
    """A start that catches up knows what one without an index learns, whatever was on its way."""
    left: list[Path] = []
    index = Index(folder.root / "index.sqlite")
    await index.catch_up(folder)
    await index.flush()  # it knows the conversation up to here
    journal, records = await folder.open(ID)
    scenario.user_writes("thank you")
    scenario.settle()
    more = [decision for decision in scenario.journal if decision[0].seq > records[-1].seq]
    await journal.append(more)
    with monkeypatch.context() as patch:
        patch.setattr(schema, name, leaving(getattr(schema, name), left, folder.root, after=after))
        index.update(
            summarise(scenario.conversation, journal.length),
            news_of(record for decision in more for record in decision),
        )
        await index.flush()
    await index.close()
    (place,) = left
    there = ConversationFolder(place, disk, StillClock())
    again = Index(place / "index.sqlite")
    await again.catch_up(there)
    await again.close()
    rebuilt = Index(place / "rebuilt.sqlite")
    await rebuilt.catch_up(there)
    await rebuilt.close()
    assert facts(place / "index.sqlite") == facts(place / "rebuilt.sqlite")
    assert len(facts(place / "rebuilt.sqlite")) > 10
