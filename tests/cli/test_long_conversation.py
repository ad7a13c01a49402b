"""Commands about a long conversation: what shows its end, or how it is, reads the newest file of its journal alone."""

import asyncio
import json
from pathlib import Path

import pytest

from tenex.core.conversation import fold
from tenex.store import segments
from tenex.store.disk import Disk
from tenex.store.repository import ConversationFolder
from tenex.store.view import Views
from tenex.store.view_json import render
from tests.fakes.scenario import ID
from tests.kits.commands import Tenex
from tests.store.kit import StillClock, longest_scenario, write_rotated

LINES = 3
SCENARIO = longest_scenario()


@pytest.fixture
def folder(data: Path) -> Path:
    """The folder of a conversation in several files, without an index."""

    async def write() -> Path:
        disk = Disk()
        store = ConversationFolder(data / "conversations", disk, StillClock())
        await (await write_rotated(store, SCENARIO.journal)).close()
        await Views(store, disk).show(SCENARIO.conversation)
        disk.close()
        return store.path(ID)

    return asyncio.run(write())


def spoil_past(folder: Path) -> None:
    """Make every file but the newest one that no reader of it accepts."""
    *earlier, _ = segments.numbers(folder)
    assert len(earlier) > 1
    for number in earlier:
        path = folder / segments.name_of(number)
        path.write_bytes(path.read_bytes().replace(b'"seq"', b'"sea"'))


@pytest.mark.usefixtures("folder")
def test_show_prints_the_end_and_says_how_to_see_all(tenex: Tenex) -> None:
    whole = tenex("conversations show --all").out.splitlines()
    hint = f"The last {LINES} entries. `tenex conversations show {ID[:12]} --all` prints all."
    assert hint not in whole
    assert tenex("conversations show").out.splitlines() == whole, "it has fewer entries than are printed"
    title, name, said, *end = tenex(f"conversations show --last {LINES}").out.splitlines()
    assert [title, name, said] == [*whole[:2], hint]
    assert len(end) >= LINES
    assert end == whole[-len(end) :]
    many = tenex("conversations show --last 60").out.splitlines()
    assert many[3:] == whole[-len(many[3:]) :], "also where it takes more than one file"
    assert len(many) > 60


def test_what_needs_the_end_alone_reads_nothing_before_it(tenex: Tenex, folder: Path) -> None:
    expected = json.loads(render(fold(ID, SCENARIO.records())))
    (before,) = json.loads(tenex("conversations list --json").out)
    spoil_past(folder)
    assert json.loads(tenex("conversations list --json").out) == [before]
    assert json.loads(tenex("conversations show --json").out) == expected
    assert tenex(f"conversations show --last {LINES}").out
    assert json.loads(tenex("status --json", code=None).out)["conversations"]["quarantined"] == []
    assert "cannot be right" in tenex("conversations show --all", code=4).err
    assert "skipped 1 unreadable" in tenex("conversations list --agent executor").err, "who worked is in the past, too"
