"""Reading files people may have edited: what is odd is left out and named, and the rest stands."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenex.core import records as r
from tenex.core.conversation import fold
from tenex.core.errors import StoreDamaged
from tenex.core.ids import ConversationId, Millis
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.store.format import CONVERSATION
from tenex.store.recovered_history import RecoveredHistory, decisions_of
from tenex.store.view_reader import past_of_view, read_view

from .kit import json_values

ID = ConversationId("c" * 64)


def past_of(view: dict[str, Any]) -> RecoveredHistory:
    return past_of_view(view, ID, "conversation.json", None)


def test_an_old_file_without_a_phase_is_in_chat() -> None:
    past = past_of({"id": ID, "title": "t"})
    assert past.position is not None
    assert past.position.phase is Phase.CHAT


@pytest.mark.parametrize("word", ["EXECUTE", "execute", " Execute "])
def test_phases_are_read_in_any_case(word: str) -> None:
    transition = {"from": "CHAT", "to": word, "timestamp": 5, "message": "m", "agentPubkey": "p", "agentName": "n"}
    turn = {"turnId": "t", "timestamp": 6, "phase": word, "agents": ["executor"], "completions": [], "reason": "x"}
    past = past_of({"phase": word, "phaseTransitions": [transition], "orchestratorTurns": [turn]})
    assert past.position is not None
    assert past.position.phase is Phase.EXECUTE
    assert [(move.from_, move.to, move.at) for move in past.transitions] == [(Phase.CHAT, Phase.EXECUTE, 5)]
    assert [one.phase for one in past.turns] == [Phase.EXECUTE]


def test_a_completion_of_an_old_file_has_its_words_in_message() -> None:
    turn = {
        "turnId": "5ac1",
        "timestamp": 6,
        "phase": "CHAT",
        "agents": ["planner", "END"],
        "isCompleted": True,
        "completions": [{"agent": "planner", "message": "planned", "timestamp": 8}],
    }
    (one,) = past_of({"orchestratorTurns": [turn]}).turns
    assert one.agents == ("planner",)
    (done,) = one.completions
    assert (done.text, done.at, done.outcome) == ("planned", 8, "finished")


def test_what_an_old_file_does_not_say_is_left_as_the_turns_have_it() -> None:
    """No list of gates means that nobody knows which are open: those of an executed cycle are."""
    turn = {"turnId": "t", "timestamp": 6, "phase": "EXECUTE", "agents": ["executor"], "completions": []}
    made = decisions_of(past_of({"phase": "EXECUTE", "orchestratorTurns": [turn]}), Millis(50))
    state = fold(ID, [record for decision in made for record in decision])
    assert state.open_gates == (Phase.VERIFICATION, Phase.CHORES, Phase.REFLECTION)
    assert state.participants == ("executor",)


def test_an_entry_that_is_odd_is_named_and_the_others_stand() -> None:
    good = {"turnId": "t", "timestamp": 6, "phase": "chat", "agents": ["a"], "completions": []}
    past = past_of({"orchestratorTurns": [good, {"turnId": 5}, "secret words", {**good, "phase": "nap"}]})
    assert len(past.turns) == 1
    assert [sentence for sentence in past.lost if "orchestratorTurns" in sentence] == [
        f"entry {number} of orchestratorTurns, which could not be understood" for number in (2, 3, 4)
    ]
    assert "secret" not in str(past.lost)


def test_a_message_keeps_its_id_and_who_wrote() -> None:
    said = [
        {"time": "2026-11-21T20:00:00.250Z", "from": "alice", "role": "owner", "text": "hi", "eventId": "e" * 64},
        {"time": "2026-11-21T20:00:01Z", "from": "Executor", "role": "agent", "text": "ho", "phase": "execute"},
    ]
    one, two = past_of({"messages": said}).messages
    assert isinstance(one, r.MessageRecorded)
    assert isinstance(two, r.MessageSent)
    assert (one.event_id, one.name, one.role, one.at % 1000) == ("e" * 64, "alice", "owner", 250)
    assert (two.name, two.phase, two.events, two.relays) == ("Executor", Phase.EXECUTE, (), ())


def test_what_a_view_cannot_hold_is_said_to_be_lost() -> None:
    said = [{"time": 5, "from": "a", "role": "owner", "text": "hi", "eventId": "e" * 64}] * 40
    lost = past_of(
        {
            "messages": said,
            "undelivered": 3,
            "openTurn": {"turnId": "t", "timestamp": 1, "phase": "chat", "agents": ["a"]},
        }
    ).lost
    assert [sentence.split(" ")[0:3] for sentence in lost] == [
        ["what", "was", "under"],
        ["messages", "older", "than"],
        ["the", "keys", "of"],
        ["3", "undelivered", "messages;"],
        ["what", "agents", "were"],
    ]


FIELDS = (
    "title",
    "phase",
    "status",
    "cycle",
    "phaseStartedAt",
    "createdAt",
    "phaseTransitions",
    "orchestratorTurns",
    "seq",
    "messages",
    "openTurn",
    "participants",
    "openGates",
    "waivers",
    "metadata",
    "phaseMetrics",
    "undelivered",
    "unread",
)
INNER = (
    "from",
    "to",
    "timestamp",
    "agents",
    "phase",
    "role",
    "time",
    "text",
    "turnId",
    "completions",
    "usage",
    "readFiles",
    "address",
)
entries = st.lists(st.dictionaries(st.sampled_from(INNER), json_values))


@given(st.dictionaries(st.sampled_from(FIELDS), json_values | entries))
@settings(max_examples=60)
def test_whatever_somebody_made_of_the_file_a_journal_comes_of_it(view: dict[str, Any]) -> None:
    """Never an exception, never anything in flight, and always bytes that can be read again."""
    made = decisions_of(past_of(view), Millis(50))
    records, _, fault = CONVERSATION.decode_lines(CONVERSATION.encode_decisions(made))
    assert fault is None
    assert not pending(fold(ID, records))


def test_another_conversations_file_is_refused() -> None:
    with pytest.raises(StoreDamaged, match="another conversation"):
        past_of({"id": "d" * 64})


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_no_json_object_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "conversation.json").write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"conversation\.json (cannot be read|holds no JSON object)"):
        read_view(tmp_path / "conversation.json")


def test_a_missing_file_and_a_folder_in_its_place_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreDamaged, match="No such file"):
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
    odd = "a file whose name is not ours"
    assert found["unread"] == [odd, odd, "orchestratorTurns-000003.json"]
    assert "orchestratorTurns-000003.json, which could not be read" in past_of(found).lost


@pytest.mark.parametrize("far", ["1" + "0" * 30, "-1", "NaN", "Infinity", "1e999"])
def test_a_time_or_a_count_that_can_be_none_is_left_out_and_named(tmp_path: Path, far: str) -> None:
    """No journal is begun with it: the index could not hold it, and the views would show it for ever."""
    path = tmp_path / "conversation.json"
    path.write_text(
        f"""{{"createdAt": {far}, "phaseStartedAt": {far}, "cycle": {far}, "metadata": {{"address": {{"x": {far}}}}},
        "phaseTransitions": [{{"from": "CHAT", "to": "EXECUTE", "timestamp": {far}, "message": "m"}}],
        "phaseMetrics": {{"chat": {{"usage": {{"calls": 1, "costUsd": {far}}}}}}}}}"""
    )
    past = past_of(read_view(path))
    assert past.transitions == []
    assert "entry 1 of phaseTransitions, which could not be understood" in past.lost
    assert past.started_at == 0
    assert past.position is not None
    assert (past.position.phase_started_at, past.position.cycle) == (0, 0)
    assert all(usage.cost_usd is None or math.isfinite(usage.cost_usd) for usage in past.spent.values())


def test_half_a_character_is_read_as_a_view_would_write_it(tmp_path: Path) -> None:
    path = tmp_path / "conversation.json"
    path.write_text(r'{"title": "a\ud800b ü", "messages": [{"time": 1, "from": "x", "text": "\udfff", "role": ""}]}')
    past = past_of(read_view(path))
    assert past.title == "a?b ü"
    assert [message.text for message in past.messages if isinstance(message, r.MessageSent)] == ["?"]
