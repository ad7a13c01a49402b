"""A journal one of whose earlier files is missing: what is left is used, and what is missing is reported.

`tenex` is called as an operator calls it; only its output and the folder are looked at.
"""

import json
from pathlib import Path

import pytest

from tenex.cli.main import main
from tenex.core.conversation import fold
from tenex.core.errors import StoreDamaged
from tenex.core.state.snapshot import StateSnapshot
from tenex.store.disk import Disk
from tenex.store.index import Index
from tenex.store.repository import ConversationFolder
from tenex.store.stats import Stats
from tenex.store.view import Views
from tests.fakes.scenario import ID, Scenario

from .kit import StillClock, names, records_of, seven_phase_scenario, write_rotated


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return seven_phase_scenario()


@pytest.fixture
async def folder(tmp_path: Path, disk: Disk, scenario: Scenario) -> ConversationFolder:
    """Four files, of which one is going to be missing."""
    folder = ConversationFolder(tmp_path / "data" / "conversations", disk, StillClock())
    await (await write_rotated(folder, scenario.journal)).close()
    await Views(folder, disk).show(scenario.conversation)
    await folder.close()
    assert await folder.read_left(ID) == (records_of(scenario), "")
    return folder


def lose(folder: ConversationFolder, number: int = 2) -> str:
    path = folder.path(ID) / ("journal.jsonl" if number == 1 else f"journal-{number:06}.jsonl")
    path.unlink()
    return str(path)


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_what_is_left_begins_behind_the_gap(folder: ConversationFolder, scenario: Scenario, number: int) -> None:
    path = lose(folder, number)
    records, gone = await folder.read_left(ID)
    first, *rest = records
    assert isinstance(first, StateSnapshot)
    assert rest == [record for record in records_of(scenario) if record.seq > first.seq]
    assert fold(ID, records) == scenario.conversation
    assert gone.startswith(f"{path} is missing, though journal-{number + 1:06}.jsonl follows it")
    assert f"before record {first.seq + 1}." in gone
    assert f"Put {Path(path).name} back from a copy; the daemon goes on from the newest file meanwhile." in gone
    with pytest.raises(StoreDamaged, match="is missing, though"):
        await folder.read(ID)


async def test_the_index_keeps_what_it_knew_of_the_past(folder: ConversationFolder, scenario: Scenario) -> None:
    """An event of the missing file was received, and must not be answered again."""
    index = Index(folder.root / "index.sqlite")
    assert await index.catch_up(folder) == []
    await index.flush()
    lose(folder)
    index._recent.clear()
    assert await index.catch_up(folder) == []
    await index.flush()
    index._recent.clear()
    events = [event.id for record in records_of(scenario) for event in getattr(record, "events", ())]
    assert events
    assert all(index.has_event(event) for event in events)
    assert await index.stale(folder) == [], "a start need not read it again"
    await index.close()


def test_every_command_that_only_reads_works_and_reports_what_is_missing(
    folder: ConversationFolder, tmp_path: Path, scenario: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    data, packed = ["--data", str(tmp_path / "data")], str(tmp_path / "packed")
    lose(folder)

    def run(*words: str, code: int = 0) -> tuple[str, str]:
        assert main(["conversations", *words, *data]) == code
        out, errors = capsys.readouterr()
        return out, errors

    (row,) = json.loads(run("list", "--json")[0])
    assert (row["id"], row["status"]) == (ID, scenario.conversation.status)
    for words in (("show", ID), ("show", ID, "--json"), ("stats", ID), ("stats",), ("replay", ID)):
        out, errors = run(*words)
        assert out
        assert "incomplete: " in errors, words
        assert "journal-000002.jsonl is missing" in errors
    found = json.loads(run("stats", "--json")[0])
    assert 0 < found["total"]["turns"] < Stats.of(ID, records_of(scenario)).turns
    (lacks,) = found["inPart"]
    assert lacks["id"] == ID
    assert "journal-000002.jsonl is missing" in lacks["fault"]
    assert "begins with record" in run("replay", ID, "--to", "2", code=2)[1]
    view = folder.path(ID) / "conversation.json"
    view.write_text(json.dumps({**json.loads(view.read_text()), "title": "mine"}))
    out = run("verify", code=4)[0]
    assert "damaged: " in out
    assert "Put journal-000002.jsonl back from a copy" in " ".join(out.split())
    assert "title: it was changed by another process" in " ".join(out.split())

    assert "incomplete" in run("export", ID, "--out", packed)[1]
    (tmp_path / "elsewhere").mkdir()
    elsewhere = ["--data", str(tmp_path / "elsewhere")]
    for word in ("imported.", "already here, unchanged."):
        assert main(["conversations", "import", packed, *elsewhere]) == 0
        assert word in capsys.readouterr().out
    assert names(tmp_path / "elsewhere" / "conversations" / ID) == ["conversation.json", "journal-000002.jsonl"]
