"""The readable view: a stranger can follow it, and its size does not grow with the conversation."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenex.core.conversation import fold, new_conversation
from tenex.core.cycle.records import PhaseTransition
from tenex.core.errors import StoreDamaged
from tenex.core.records import Record
from tenex.core.snapshot import StateSnapshot
from tenex.core.work.records import TurnClosed
from tenex.store.disk import Disk
from tenex.store.repository import ConversationFolder
from tenex.store.view import SEGMENT, Views, render
from tenex.store.view_reader import read_view
from tests.fakes.scenario import ID, Scenario

from .kit import CONVERSATION_ID, going_on, kind_of_conversation, stored


def test_the_view_shows_what_happened(scenario: Scenario) -> None:
    view = json.loads(render(scenario.conversation))
    phases = "brainstorm plan execute verification chores reflection"
    assert " ".join(t["to"] for t in view["phaseTransitions"]) == phases
    fields = "from to message timestamp time cycle decidedBy request agentPubkey agentName reason summary"
    assert set(view["phaseTransitions"][0]) == set(fields.split())
    execute = next(t for t in view["orchestratorTurns"] if t["phase"] == "execute")
    assert execute["agents"] == ["executor", "helper"]
    assert {done["agent"] for done in execute["completions"]} == {"executor", "helper"}
    assert all(turn["isCompleted"] and turn["turnId"] and turn["reason"] for turn in view["orchestratorTurns"])
    assert view["status"] == "ended"
    assert view["messages"][0]["text"] == "I want something nice"
    assert view["phaseMetrics"]["execute"]["visits"] == 1
    assert view["usage"]["calls"] > 0
    assert view["undelivered"] == 0


LISTS = {"phaseTransitions": "message", "orchestratorTurns": "turnId"}


def view_of(path: Path) -> Any:
    return json.loads((path / "conversation.json").read_text())


def listed(path: Path, name: str) -> list[str]:
    """What a reader of the view and of the files it lists finds, in order."""
    view = view_of(path)
    earlier = view.get(f"earlier{name[0].upper()}{name[1:]}", [])
    items = [item for file in earlier for item in json.loads((path / file).read_text())] + view[name]
    return [item[LISTS[name]] for item in items]


def expected(records: list[Record], name: str) -> list[str]:
    if name == "phaseTransitions":
        return [record.message for record in records if isinstance(record, PhaseTransition)]
    return [record.turn_id for record in records if isinstance(record, TurnClosed)]


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "a restart from a snapshot at each view"])
async def test_the_view_continues_at_the_right_numbers(folder: ConversationFolder, disk: Disk, restarts: bool) -> None:
    path, stamps = folder.path(CONVERSATION_ID), dict[str, int]()
    journal, _ = await folder.open(CONVERSATION_ID)
    views, state, records = Views(folder, disk), new_conversation(CONVERSATION_ID), list[Record]()
    for turns in (SEGMENT - 1, 1, SEGMENT - 1, 1, 1, 17, SEGMENT, 2 * SEGMENT - 20, 1, 1, 3 * SEGMENT):
        for record in going_on(state.next_seq, turns):
            state.apply(record)
            records.append(record)
        await journal.append([[record] for record in records[journal.next_seq - 1 :]])
        await views.show(state)
        assert (path / "conversation.json").read_text() == render(fold(CONVERSATION_ID, records))
        for name in LISTS:
            assert listed(path, name) == expected(records, name)
            assert min(SEGMENT, len(expected(records, name))) <= len(view_of(path)[name]) < 2 * SEGMENT
        now = {file.name: file.stat().st_mtime_ns for file in path.glob("*-*.json")}
        assert stamps.items() <= now.items(), "a file of older turns is written once"
        stamps = now
        if restarts:
            views, state = Views(folder, disk), fold(CONVERSATION_ID, [StateSnapshot.of(state)])


async def test_files_the_state_no_longer_holds_are_made_from_all(folder: ConversationFolder, disk: Disk) -> None:
    """Somebody removed them, or the process that should have written them died; all of it folds to the newest turns."""
    records = list(going_on(1, 5 * SEGMENT))
    await stored(folder, CONVERSATION_ID, *records)
    path = folder.path(CONVERSATION_ID)
    state = fold(CONVERSATION_ID, records)
    await Views(folder, disk).show(state)
    before = {file.name: file.read_bytes() for file in path.glob("*.json")}
    assert len(before) == 1 + 2 * 4
    assert {kind_of_conversation(file) for file in path.glob("*.json")} == {0o600}
    for file in (*path.glob("*-000001.json"), *path.glob("*-000003.json")):
        file.unlink()
    await Views(folder, disk).show(fold(CONVERSATION_ID, [StateSnapshot.of(state)]))
    assert {file.name: file.read_bytes() for file in path.glob("*.json")} == before
    (path / "orchestratorTurns-000001.json").unlink()
    (path / "journal.jsonl").write_bytes(b"x\n" + (path / "journal.jsonl").read_bytes())
    await Views(folder, disk).show(fold(CONVERSATION_ID, [StateSnapshot.of(state)]))
    assert len(view_of(path)["orchestratorTurns"]) == SEGMENT, "the view is written though files are lost"


def test_the_view_is_as_large_after_a_million_turns_as_after_a_thousand() -> None:
    """But for the longer numbers in it: the files before the newest hundred are found by counting down."""
    state = fold(CONVERSATION_ID, going_on(1, 1_000))
    short = len(render(state))
    assert state.history is not None
    old = replace(state.history, turns_before=999_900, transitions_before=999_900)
    state.history = old
    view = json.loads(render(state))
    assert len(render(state)) < short * 1.2
    assert view["earlierOrchestratorTurns"] == [f"orchestratorTurns-{n:06d}.json" for n in range(9_900, 10_000)]


async def test_a_view_that_failed_is_written_the_next_time(
    folder: ConversationFolder, disk: Disk, scenario: Scenario
) -> None:
    views = Views(folder, disk)
    blocked = folder.path(ID) / "conversation.json"
    blocked.mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        await views.show(scenario.conversation)
    assert not list(blocked.parent.glob(".*")), "nothing half written is left beside it"
    blocked.rmdir()
    for text in ("more", 'half a pair \ud800, a NUL \x00 and ]} "quotes" \\ and \u2028', "end"):
        await views.show(scenario.conversation)
        assert blocked.read_text() == render(scenario.refold())
        scenario.converse(text)
    view = json.loads(render(scenario.conversation))
    assert any('"quotes"' in message["text"] for message in view["messages"])


# ---- read again, perhaps edited -----------------------------------------------------------------------------------


def test_half_a_character_is_replaced_when_the_view_is_written(scenario: Scenario) -> None:
    broken = scenario.conversation.fork()
    broken.identity = replace(broken.identity, title="half \ud83d")
    assert json.loads(render(broken))["title"] == "half ?"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_no_json_object_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "conversation.json").write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"conversation\.json (cannot be read|holds no JSON object)"):
        read_view(tmp_path / "conversation.json")
    with pytest.raises(StoreDamaged, match="Is a directory"):
        read_view(tmp_path)


def test_older_entries_are_put_back_in_and_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    (tmp_path / "orchestratorTurns-000001.json").write_text(json.dumps([1]))  # older than what the view lists
    (tmp_path / "orchestratorTurns-000002.json").write_text(json.dumps([2]))
    (tmp_path / "elsewhere.json").write_text("[9]")
    listed = ["orchestratorTurns-000002.json", "orchestratorTurns-000003.json", "../x/elsewhere.json", 7]
    view = {"earlierOrchestratorTurns": listed, "orchestratorTurns": [3]}
    (tmp_path / "conversation.json").write_text(json.dumps(view))
    found = read_view(tmp_path / "conversation.json")
    assert found["orchestratorTurns"] == [1, 2, 3]
    odd = "a file with a name that tenex does not use"
    assert found["unread"] == [odd, odd, "orchestratorTurns-000003.json"]


@pytest.mark.parametrize("form", ["\ufeff{}", "{}\r\n", "\ufeff{}\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_readable_file_is_read_with_the_marks_of_any_editor(tmp_path: Path, form: str, encoding: str) -> None:
    text = json.dumps({"title": "Grüße 日本"}, indent=2, ensure_ascii=False)
    text = form.format("@").replace("@", text.replace("\n", "\r\n"))
    (tmp_path / "conversation.json").write_bytes(
        (text.lstrip("\ufeff") if encoding == "utf-16" else text).encode(encoding)
    )
    assert read_view(tmp_path / "conversation.json")["title"] == "Grüße 日本"


def test_half_a_character_and_nan_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "conversation.json"
    path.write_text(r'{"title": "a\ud800b \u00fc", "cycle": NaN}')
    found = read_view(path)
    assert (found["title"], found["cycle"]) == ("a?b \u00fc", None)
