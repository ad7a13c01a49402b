"""A thread read back: what people and agents said, in which phase, and what of it cannot be known."""

import json
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import PeerGroup, Role
from tenex.core.conversation import Conversation, fold
from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId, Millis, Slug
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.records import Record
from tenex.nostr.events import Event, sign, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.operations.thread_import import Cast, past_of_thread, read_history
from tenex.store.recovered_history import RecoveredHistory, decisions_of

ALICE, STRANGER, PROJECT, EXECUTOR = (SecretKey(bytes([n]) * 32) for n in (1, 2, 3, 4))
RELAY = "ws://127.0.0.1:7777"
CAST = Cast(
    project=PROJECT.public,
    agents={EXECUTOR.public: Slug("executor")},
    circle=PeerGroup(owners=frozenset({ALICE.public})),
    names={ALICE.public: "alice", EXECUTOR.public: "Executor", PROJECT.public: "tenex"},
)


def event(key: SecretKey, text: str, at: int, *tags: tuple[str, ...], kind: int = 1) -> Event:
    return sign(unsigned_event(key.public, at, kind, tags, text), key)


ROOT = event(ALICE, "Please write a poem\nabout gongs", 100, ("p", PROJECT.public))
ID = ConversationId(ROOT.id)
E = ("e", ROOT.id, RELAY, "root")


def done(text: str, at: int, phase: str, *tags: tuple[str, ...], by: SecretKey = EXECUTOR) -> Event:
    return event(by, text, at, E, ("phase", phase), ("status", "completed"), *tags)


def read(*events: Event) -> RecoveredHistory:
    return past_of_thread(ID, [(one, RELAY) for one in events], CAST)


def made(*events: Event) -> tuple[list[Record], Conversation]:
    records = [record for decision in decisions_of(read(*events), Millis(10**9)) for record in decision]
    return records, fold(ID, records)


def test_a_thread_becomes_the_conversation_it_was() -> None:
    records, state = made(
        ROOT,
        done("wrote poem.txt", 101, "execute", ("phase-from", "chat"), ("new-phase", "execute")),
        done("it rings", 102, "verification", ("phase-from", "execute")),
        event(ALICE, "make it longer", 103, E),
    )
    kinds = (r.MessageRecorded, r.PhaseTransition, r.MessageSent)
    assert [(type(one).__name__, one.at) for one in records if isinstance(one, kinds)] == [
        ("MessageRecorded", 100_000),
        ("PhaseTransition", 101_001),
        ("MessageSent", 101_002),
        ("PhaseTransition", 102_001),
        ("MessageSent", 102_002),
        ("MessageRecorded", 103_000),
    ]
    assert (state.phase, state.previous_phase, state.status) == (Phase.VERIFICATION, Phase.EXECUTE, "waiting")
    assert state.title == "Please write a poem"
    assert state.starter == ALICE.public
    assert state.address["root"] == ROOT.id
    assert [message.text for message in state.messages] == [ROOT.content, "make it longer"]
    assert [turn.summary for turn in state.turns] == ["executor: wrote poem.txt", "executor: it rings"]
    assert state.open_gates == (Phase.VERIFICATION, Phase.CHORES, Phase.REFLECTION)
    assert not pending(state)


def test_what_we_said_is_known_and_owed_to_no_relay() -> None:
    answer = done("wrote poem.txt", 101, "execute")
    records, state = made(ROOT, answer)
    (said,) = [record for record in records if isinstance(record, r.MessageSent)]
    assert [sealed.id for sealed in said.events] == [answer.id]
    assert said.relays == ()
    assert state.outbox == {}


def test_a_question_stands_before_the_answer_of_the_same_second() -> None:
    """Ids decide nothing here: an answer is dated no earlier than its question, and may be dated the same."""
    for n in range(8):
        asked = event(ALICE, f"and {n}?", 200, E)
        told = [m.text for m in read(ROOT, done(f"answer {n}", 200, "chat"), asked).messages if m.at >= 200_000]  # type: ignore[union-attr]
        assert told == [f"and {n}?", f"answer {n}"]


@pytest.mark.parametrize("at", [99, 100, 200])
def test_the_root_stands_before_all_whatever_its_date(at: int) -> None:
    """It gives the title and the address; its id comes before none, and its author's clock may be fast."""
    root = event(ALICE, "the beginning", at, ("p", PROJECT.public))
    replies = [event(ALICE, f"and {n}", 100, ("e", root.id, RELAY, "root")) for n in range(8)]
    past = past_of_thread(ConversationId(root.id), [(one, RELAY) for one in (*replies, root)], CAST)
    assert (past.title, past.address["root"], past.address["root_author"]) == ("the beginning", root.id, ALICE.public)
    assert len(past.messages) == 9


def test_a_failure_is_a_turn_that_failed() -> None:
    failed = event(EXECUTOR, "I could not finish: no disk", 101, E, ("phase", "execute"), ("error", "agent"))
    (turn,) = read(ROOT, failed).turns
    assert [(one.outcome, one.error) for one in turn.completions] == [("failed", "no disk")]


def test_notices_and_questions_are_words_and_no_turns() -> None:
    past = read(
        ROOT,
        event(PROJECT, "I skip what follows", 101, E, ("phase", "chat")),
        event(EXECUTOR, "which colour?", 102, E, ("phase", "chat")),
    )
    assert [m.purpose for m in past.messages if isinstance(m, r.MessageSent)] == ["notice", "question"]
    assert list(past.turns) == []


def test_costs_are_those_of_the_last_message_of_each_run() -> None:
    tags = (("llm-prompt-tokens", "10"), ("llm-completion-tokens", "2"), ("llm-cost-usd", "0.5"))
    _, state = made(
        ROOT,
        event(EXECUTOR, "which colour?", 101, E, ("phase", "execute"), *tags),  # stands in the completion again
        done("built", 102, "execute", *tags),
        done("odd", 103, "chores", ("llm-prompt-tokens", "many"), ("llm-completion-tokens", "2")),
    )
    assert (state.usage.input_tokens, state.usage.output_tokens, state.usage.cost_usd) == (10, 2, 0.5)
    assert state.metrics[Phase.EXECUTE].usage.calls == 1


def test_commands_mentions_and_replies_are_what_they_were() -> None:
    answer = done("done", 101, "execute")
    records, _ = made(
        ROOT,
        answer,
        event(ALICE, "/stop", 102, E),
        event(ALICE, f"nostr:{EXECUTOR.npub} again", 103, E, ("e", answer.id, RELAY, "reply")),
    )
    assert [record.command for record in records if isinstance(record, r.CommandGiven)] == ["stop"]
    last = [record for record in records if isinstance(record, r.MessageRecorded)][-1]
    assert (last.addressed, last.reply_to, last.name, last.role) == (("executor",), answer.id, "alice", Role.OWNER)


def test_strangers_and_programs_are_left_out() -> None:
    robot = event(ALICE, "beep", 102, E, ("L", "agent"), ("l", "ai", "agent"))
    past = read(ROOT, event(STRANGER, "hello", 101, E), robot)
    assert [m.text for m in past.messages if isinstance(m, r.MessageRecorded)] == [ROOT.content]
    with pytest.raises(UsageError, match="anybody who may talk here"):
        read(event(STRANGER, "hello", 101, E), done("x", 102, "chat"))


def test_a_phase_no_message_has_shown_is_passed_through() -> None:
    """Waived phases, and what no relay kept: the table's own way, and a new cycle into chat."""
    records, state = made(ROOT, done("a", 101, "reflection"), event(PROJECT, "b", 102, E, ("phase", "chat")))
    assert [(t.from_.value, t.to.value) for t in records if isinstance(t, r.PhaseTransition)] == [
        ("chat", "execute"),
        ("execute", "verification"),
        ("verification", "chores"),
        ("chores", "reflection"),
    ]
    assert (state.phase, state.cycle) == (Phase.CHAT, 2)


@pytest.mark.parametrize(("tag", "phase"), [("nap", Phase.CHAT), ("", Phase.CHAT), ("EXECUTE", Phase.EXECUTE)])
def test_a_tag_that_names_no_phase_changes_none(tag: str, phase: Phase) -> None:
    _, state = made(ROOT, done("a", 101, tag))
    assert state.phase is phase


# ---- the history of an old file -----------------------------------------------------------------------------------


def as_array(one: Event, *rest: str) -> list[Any]:
    return [0, one.pubkey, one.created_at, one.kind, [list(tag) for tag in one.tags], one.content, *rest]


def test_old_events_are_read_in_every_way_they_were_written() -> None:
    for entry in (
        json.dumps(as_array(ROOT, ROOT.sig, ROOT.id)),
        json.dumps(as_array(ROOT)),
        as_array(ROOT),
        {"pubkey": ROOT.pubkey, "created_at": 100, "kind": 1, "tags": [["p", PROJECT.public]], "content": ROOT.content},
    ):
        (message,), phases, lost, address = read_history([entry], CAST)
        assert isinstance(message, r.MessageRecorded)
        assert (message.event_id, message.text) == (ROOT.id, ROOT.content)
        assert (list(phases), list(lost), address["root"]) == ([None], [], ROOT.id)


def test_everybody_in_an_old_file_was_part_of_it() -> None:
    """Agents bear their tags, people none; nobody is dropped because our keys and settings are others."""
    agent = event(STRANGER, "done", 101, ("e", ROOT.id), ("phase", "EXECUTE"), ("llm-model", "x"))
    person = event(STRANGER, "thanks", 102, ("e", ROOT.id))
    messages, phases, _, _ = read_history([as_array(ROOT), as_array(agent), as_array(person)], CAST)
    assert [type(message).__name__ for message in messages] == ["MessageRecorded", "MessageSent", "MessageRecorded"]
    assert list(phases) == [None, Phase.EXECUTE, None]
    assert messages[2].role is Role.GUEST  # type: ignore[union-attr]


@pytest.mark.parametrize("entry", ["", "{", 7, None, [], [1, 2], {"pubkey": 5}, ["0"] * 6, "[" * 100_000])
def test_an_entry_that_is_no_event_is_counted_as_lost(entry: object) -> None:
    messages, _, lost, address = read_history([entry, as_array(ROOT)], CAST)
    assert len(messages) == 1
    assert lost == ["entries of the history that are no events: 1"]
    assert address


def test_a_thread_of_a_workflow_says_that_its_rules_are_lost() -> None:
    spoken = event(EXECUTOR, "a draft", 101, E, ("workflow", "draft-and-review"), ("status", "completed"))
    assert any("the rules of the workflow it was of" in sentence for sentence in read(ROOT, spoken).lost)
    assert not any("the rules of the workflow" in sentence for sentence in read(ROOT, done("x", 101, "chat")).lost)
