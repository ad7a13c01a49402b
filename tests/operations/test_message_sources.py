"""Messages read from a thread's events, from a readable file, and from an older program's file."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenex.core import records as r
from tenex.core.config import PeerGroup, Role
from tenex.core.errors import StoreDamaged
from tenex.core.ids import ConversationId, Slug
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.nostr.events import Event, sign, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.operations.message_sources import Participants, RecoveredMessages, messages_of_thread, messages_of_view
from tests.store.kit import json_values

ALICE, STRANGER, PROJECT, EXECUTOR = (SecretKey(bytes([n]) * 32) for n in (1, 2, 3, 4))
RELAY = "ws://127.0.0.1:7777"
PARTICIPANTS = Participants(
    project=PROJECT.public,
    agents={EXECUTOR.public: Slug("executor")},
    users=PeerGroup(owners=frozenset({ALICE.public})),
    names={ALICE.public: "alice", EXECUTOR.public: "Executor", PROJECT.public: "tenex"},
)


def event(key: SecretKey, text: str, at: int, *tags: tuple[str, ...], kind: int = 1) -> Event:
    return sign(unsigned_event(key.public, at, kind, tags, text), key)


ROOT = event(ALICE, "Please write a poem\nabout gongs", 100, ("p", PROJECT.public))
ID = ConversationId(ROOT.id)
E = ("e", ROOT.id, RELAY, "root")


def done(text: str, at: int, phase: str, *tags: tuple[str, ...], by: SecretKey = EXECUTOR) -> Event:
    return event(by, text, at, E, ("phase", phase), ("status", "completed"), *tags)


def read(*events: Event) -> RecoveredMessages:
    return messages_of_thread(ID, [(one, RELAY) for one in events], PARTICIPANTS)


def of_view(view: dict[str, Any]) -> RecoveredMessages:
    return messages_of_view(view, ID, "old.json", PARTICIPANTS)


# ---- events of a thread


def test_a_thread_is_read_in_its_order_with_its_phase_and_its_gates_open() -> None:
    first, second = done("wrote poem.txt", 101, "execute"), done("it rings", 102, "VERIFICATION")
    found = read(event(ALICE, "make it longer", 103, E), second, first, ROOT)
    kinds = [r.MessageRecorded, r.MessageSent, r.MessageSent, r.MessageRecorded]
    assert [type(one) for one in found.messages] == kinds
    assert [one.at for one in found.messages] == [100_000, 101_002, 102_002, 103_000]
    assert (found.title, found.address["root"]) == ("Please write a poem", ROOT.id)
    assert (found.phase, found.open_gates, found.turns) == (Phase.VERIFICATION, QUALITY_PHASES, 2)
    sent = [one for one in found.messages if isinstance(one, r.MessageSent)]
    assert [([part.id for part in one.events], one.relays) for one in sent] == [([first.id], ()), ([second.id], ())]


@pytest.mark.parametrize("at", [99, 100, 200])
def test_the_root_is_first_whatever_its_date_and_a_question_before_the_answer_of_its_second(at: int) -> None:
    """Its author's clock may be fast."""
    root = event(ALICE, "the beginning", at, ("p", PROJECT.public))
    under = ("e", root.id, RELAY, "root")
    talk = [event(key, text, 100 + n, under) for n in range(8) for key, text in ((EXECUTOR, "so"), (ALICE, f"{n}?"))]
    events = [(one, RELAY) for one in (*talk, root)]
    found = messages_of_thread(ConversationId(root.id), events, PARTICIPANTS)
    address = found.address
    assert (found.title, address["root"], address["root_author"]) == ("the beginning", root.id, ALICE.public)
    questions = [part for n in range(8) for part in (f"{n}?", "so")]
    assert [one.text for one in found.messages if not isinstance(one, r.CommandGiven)] == ["the beginning", *questions]


def test_the_purpose_of_a_message_follows_from_its_author_and_tags() -> None:
    found = read(
        ROOT,
        event(PROJECT, "I skip what follows", 101, E, ("phase", "chat")),
        event(EXECUTOR, "which colour?", 102, E, ("phase", "nap")),
        event(EXECUTOR, "I could not finish: no disk", 103, E, ("phase", "execute"), ("error", "agent")),
        done("done", 104, ""),
    )
    sent = [f"{m.purpose} in {m.phase}" for m in found.messages if isinstance(m, r.MessageSent)]
    assert sent == ["notice in chat", "question in chat", "error in execute", "completion in execute"]


def test_commands_mentions_and_replies_are_read_and_unauthorized_users_and_programs_left_out() -> None:
    answer = done("done", 101, "execute")
    again = event(ALICE, f"nostr:{EXECUTOR.npub} again", 103, E, ("e", answer.id, RELAY, "reply"))
    robot = event(ALICE, "beep", 102, E, ("L", "agent"), ("l", "ai", "agent"))
    stranger = event(STRANGER, "hello", 101, E)
    _, _, command, last = read(ROOT, answer, event(ALICE, "/stop", 102, E), again, robot, stranger).messages
    assert isinstance(command, r.CommandGiven)
    assert isinstance(last, r.MessageRecorded)
    assert command.command == "stop"
    assert (last.addressed, last.reply_to, last.name, last.role) == (("executor",), answer.id, "alice", Role.OWNER)
    label = (("L", "tenex"), ("l", "by-program", "tenex"))
    *_, text = read(ROOT, event(ALICE, "/stop", 102, E, *label)).messages
    assert isinstance(text, r.MessageRecorded), "a program gives no commands"


# ---- files


def test_a_readable_file_gives_its_messages_and_the_completions_of_older_turns() -> None:
    said = [{"agent": "planner", "text": "planned", "time": "2023-11-14T22:13:21Z"}, {"agent": "planner", "text": "ho"}]
    turn = {"turnId": "turn-7", "timestamp": 1_700_000_000_000, "phase": "plan", "completions": said}
    messages = [
        {"time": "2023-11-14T23:00:00.250Z", "from": "a", "role": "owner", "text": "hi", "eventId": "e" * 64},
        {"time": "2023-11-14T23:00:01Z", "from": "Executor", "role": "agent", "text": "ho", "phase": "execute"},
    ]
    place = {"phase": "EXECUTE", "cycle": 3, "openGates": ["chores"]}
    found = of_view({**place, "orchestratorTurns": [turn], "messages": messages})
    assert [(type(m).__name__, m.at, m.text) for m in found.messages] == [  # type: ignore[union-attr]
        ("MessageSent", 1_700_000_001_000, "planned"),
        ("MessageRecorded", 1_700_002_800_250, "hi"),
        ("MessageSent", 1_700_002_801_000, "ho"),
    ]
    assert (found.phase, found.cycle, found.open_gates, found.turns) == (Phase.EXECUTE, 3, (Phase.CHORES,), 7)
    assert list(found.lost) == []


def test_what_a_file_does_not_hold_is_named_and_a_file_of_another_conversation_is_refused() -> None:
    messages = [{"time": 5, "from": "a", "role": "owner", "text": f"{n}", "eventId": "e" * 64} for n in range(40)]
    view = {"messages": [*messages, {"time": "then", "text": "secret"}], "undelivered": 3, "unread": ["x.json"]}
    found = of_view({**view, "mission": {"node": "a"}, "agents": {"executor": {}}})
    lost = "\n".join(found.lost)
    for part in ("x.json", "could not be understood", "older than the 40 newest", "3 undelivered"):
        assert part in lost
    assert "secret" not in lost
    assert found.parts == ("mission", "agent_states")
    assert found.open_gates == ()
    assert of_view({"phase": "EXECUTE"}).open_gates == QUALITY_PHASES, "none is known to be met"
    with pytest.raises(StoreDamaged, match="another conversation"):
        of_view({"id": "d" * 64})


FIELDS = ("title", "phase", "status", "cycle", "orchestratorTurns", "messages", "openGates", "metadata", "undelivered")
INNER = ("from", "timestamp", "phase", "role", "time", "text", "turnId", "completions", "eventId", "author")
odd_entries = st.lists(st.dictionaries(st.sampled_from(INNER), json_values))


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from((*FIELDS, "history", "unread")), json_values | odd_entries))
def test_no_content_of_a_file_raises(view: dict[str, Any]) -> None:
    of_view(view)


def as_array(one: Event, *rest: str) -> list[Any]:
    return [0, one.pubkey, one.created_at, one.kind, [list(tag) for tag in one.tags], one.content, *rest]


def test_events_of_an_older_file_are_read_in_every_form_they_were_written() -> None:
    for entry in (
        json.dumps(as_array(ROOT, ROOT.sig, ROOT.id)),
        json.dumps(as_array(ROOT)),
        as_array(ROOT),
        {"pubkey": ROOT.pubkey, "created_at": 100, "kind": 1, "tags": [["p", PROJECT.public]], "content": ROOT.content},
    ):
        found = of_view({"history": [entry]})
        (message,) = found.messages
        assert isinstance(message, r.MessageRecorded)
        assert (message.event_id, message.text) == (ROOT.id, ROOT.content)
        assert (list(found.lost), found.address["root"]) == ([], ROOT.id)


def test_all_authors_of_an_older_file_were_part_of_it() -> None:
    """Agents have their tags, users none; no author is dropped because this folder has other keys and settings."""
    agent = event(STRANGER, "done", 101, ("e", ROOT.id), ("phase", "EXECUTE"), ("llm-model", "x"))
    person = event(STRANGER, "thanks", 102, ("e", ROOT.id))
    messages = of_view({"history": [as_array(ROOT), as_array(agent), as_array(person)]}).messages
    assert [type(message).__name__ for message in messages] == ["MessageRecorded", "MessageSent", "MessageRecorded"]
    assert messages[1].phase is Phase.EXECUTE  # type: ignore[union-attr]
    assert messages[2].role is Role.GUEST  # type: ignore[union-attr]


@pytest.mark.parametrize("entry", ["", "{", 7, None, [], [1, 2], {"pubkey": 5}, ["0"] * 6, "[" * 100_000])
def test_an_entry_that_is_not_an_event_is_counted_as_lost(entry: object) -> None:
    found = of_view({"history": [entry, as_array(ROOT)]})
    assert (len(found.messages), list(found.lost)) == (1, ["entries of the history that are not events: 1"])
