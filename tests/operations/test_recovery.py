"""Rebuilding journals from what is left of them, from files and from relays, and importing older files."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.init import prepare
from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.conversation import Conversation, fold
from tenex.core.cycle.records import PhaseTransition
from tenex.core.dispatch import decide
from tenex.core.effects import Evaluate
from tenex.core.errors import RelayUnavailable, StoreDamaged, StoreError, UsageError
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey
from tenex.core.pending import pending
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.records import Record
from tenex.core.signals import Evaluated, InboundMessage, MessageReceived, Opened
from tenex.core.snapshot import StateSnapshot
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import KeyRing, SecretKey, npub, parse_public_key
from tenex.operations import recovery as module
from tenex.operations.message_sources import RecoveredMessages, messages_of_view
from tenex.operations.recovered_history import history_of_view
from tenex.operations.recovery import Recovery, legacy_file, rebuilt_records
from tenex.settings import load, resolve_paths
from tenex.store.atomic_folder import as_one_decision, create
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.index import Index
from tenex.store.journal_reader import JOURNAL, VIEW
from tenex.store.postgres.conversations import PostgresConversations
from tenex.store.repository import NEWEST, ConversationFolder
from tenex.store.salvage import MessageRecord, Salvaged
from tenex.store.verify import contradictions, verify
from tenex.store.view import SEGMENT, Views
from tenex.store.view_json import render
from tenex.store.view_reader import read_view
from tenex.workflows.phases import records as p
from tenex.workflows.phases.state import phases_of
from tests.fakes import postgres
from tests.fakes.faultrelay import FaultRelay, Peer
from tests.fakes.scenario import ID, Scenario, diligent, longest_way, policy
from tests.histories.record import ROOT, whole
from tests.service import person
from tests.store.kit import StillClock, going_on, started, stored, waits, wrote

UNREACHABLE = "ws://127.0.0.1:9"
"""The discard port: nothing listens there."""
OLD = ConversationId("d" * 64)
NOW = Millis(9_000_000)


@pytest.fixture
async def relay() -> AsyncIterator[str]:
    async with embedded_relay() as url:
        yield url


class Home:
    """A data folder with keys and its `Recovery`."""

    def __init__(self, data: Path, *relays: str) -> None:
        prepare(data, None, list(relays))
        settings = load(None, data, parse_key=parse_public_key)
        self.ring = KeyRing(data / "keys")
        self.root = resolve_paths(settings).conversations
        self.disk = Disk()
        self.folder = ConversationFolder(self.root, self.disk, StillClock())
        self.recovery = Recovery(settings, resolve_paths(settings), self.folder, self.disk, StillClock())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "data", UNREACHABLE)


BEGAN = 1_700_000_000


def thread(home: Home, relay: str, replies: int = 0, text: str = "begin", key: SecretKey | None = None) -> list[Any]:
    """A user's message to the project, and replies to it, a third of a second apart."""
    author = key or home.ring.get("owner")
    root = person.note(author, text, ["p", home.ring.get("project").public], at=BEGAN)
    under = ["e", root["id"], relay, "root"]
    return [root, *(person.note(author, f"and {n}", under, at=BEGAN + n // 3) for n in range(1, replies + 1))]


async def test_a_long_thread_is_read_to_its_beginning(tmp_path: Path, relay: str) -> None:
    """Relays send their newest few hundred events to a page, without a sign that there are more."""
    home = Home(tmp_path / "data", relay)
    events = thread(home, relay, 1200)
    answer = person.note(home.ring.get_or_create("executor"), "done", ["e", events[0]["id"]], at=BEGAN + 1200)
    await person.publish(relay, *events, answer)
    made = await home.recovery.rebuild(ConversationId(events[0]["id"]), "relay")
    assert made.messages == 1201
    records = await home.folder.read(made.id)
    recorded = {record.event_id for record in records if isinstance(record, r.MessageRecorded)}
    assert recorded == {event["id"] for event in events}


@pytest.mark.parametrize("answered_at", [BEGAN, BEGAN + 50, None])
async def test_a_message_that_no_agent_answered_waits_for_the_next_start(
    answered_at: int | None, tmp_path: Path, relay: str
) -> None:
    """A notice of the daemon, such as that the journal is damaged, is no answer; an answer may bear a later date."""
    home = Home(tmp_path / "data", relay)
    (root,) = thread(home, relay)
    under = ["e", root["id"], relay, "root"]
    later = person.note(home.ring.get("owner"), "and 1", under, at=BEGAN + 5)
    answers = [person.note(home.ring.get_or_create("executor"), "done", under, at=answered_at)] if answered_at else []
    notice = person.note(
        home.ring.get("project"), "Your message waits on the relays.", under, ["error", "damaged"], at=BEGAN + 9
    )
    await person.publish(relay, root, *answers, later, notice)
    id_ = ConversationId(root["id"])
    made = await home.recovery.rebuild(id_, "relay")
    assert (made.messages, made.waiting) == (2, 2 - len(answers))
    again = await home.recovery.rebuild(id_, "relay", force=True)
    assert (again.messages, again.waiting) == (made.messages, made.waiting)
    records = await home.folder.read(id_)
    assert [record.text for record in records if isinstance(record, r.MessageRecorded)] == ["begin"] * len(answers)
    state = fold(id_, records)
    while state.work.undecided:
        (waiting,) = (effect for effect in pending(state).values() if isinstance(effect, Evaluate))
        state = decide(state, Evaluated(key=waiting.key, verdicts=()), policy(), NOW).after
    assert (state.cycle.status, texts(state)[-1]) == ("active", "and 1")


async def test_an_unanswered_message_that_has_expired_is_not_rebuilt(tmp_path: Path) -> None:
    async with FaultRelay() as keeper:  # most relays drop what has expired
        home = Home(tmp_path / "data", keeper.url)
        (root,) = thread(home, keeper.url)
        under = ["e", root["id"], keeper.url, "root"]
        later = person.note(home.ring.get("owner"), "and 1", under, ["expiration", "1"], at=BEGAN + 5)
        await person.publish(keeper.url, root, later)
        made = await home.recovery.rebuild(ConversationId(root["id"]), "relay")
    assert (made.messages, made.waiting) == (1, 1)


async def test_an_id_that_began_no_conversation_with_a_user_is_refused(tmp_path: Path, relay: str) -> None:
    """That of a reply, and that of a message by somebody who may not write here."""
    home = Home(tmp_path / "data", relay)
    root, middle = thread(home, relay, 1)
    under = [["e", root["id"], relay, "root"], ["e", middle["id"], relay, "reply"]]
    last = person.note(home.ring.get("owner"), "more", *under, at=BEGAN + 2)
    (foreign,) = thread(home, relay, key=SecretKey.generate())
    await person.publish(relay, root, middle, last, foreign)
    with pytest.raises(UsageError, match=f"{middle['id']} began no conversation; it is part of {root['id']}"):
        await home.recovery.rebuild(ConversationId(middle["id"]), "relay")
    with pytest.raises(UsageError, match="by a user who may write here"):
        await home.recovery.rebuild(ConversationId(foreign["id"]), "relay")
    assert await home.folder.lengths() == {}


async def test_relays_that_are_away_or_break_off_are_named_among_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one had sent until then is recovered, without the project's own mention.

    A second rebuild needs `force` and keeps the first.
    """
    monkeypatch.setattr(module, "RELAY_TIMEOUT", 2.0)
    async with FaultRelay(clamp=4) as relay:
        home = Home(tmp_path / "data", relay.url, UNREACHABLE)
        events = thread(home, relay.url, 12, text=f"nostr:{npub(home.ring.get('project').public)}, build it")
        relay.stored += events

        async def breaks_off(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
            if any("until" in wanted for wanted in filters):
                peer.drop()
            else:
                await relay.serve_stored(peer, sub_id, filters)

        relay.on_req = breaks_off
        made = await home.recovery.rebuild(ConversationId(events[0]["id"]), "relay")
        assert made.messages == 5
        assert f"what only {UNREACHABLE} keeps: it did not answer" in made.lost
        assert [sentence for sentence in made.lost if f"what else {relay.url} keeps" in sentence]
        state = fold(made.id, await home.folder.read(made.id))
        (waiting, *_) = [one.signal for one in state.work.undecided]
        assert isinstance(waiting, MessageReceived), "no agent has answered"
        assert (state.identity.title, waiting.message.text) == ("build it", "build it")
        with pytest.raises(UsageError, match="is whole"):
            await home.recovery.rebuild(made.id, "relay")
        again = await home.recovery.rebuild(made.id, "relay", force=True)
        assert again.aside is not None
        assert (again.aside / JOURNAL).exists()


@pytest.mark.parametrize("is_there", [True, False])
async def test_where_no_relay_answers_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """One that refuses reads has not answered: it may have the thread."""
    monkeypatch.setattr(module, "RELAY_TIMEOUT", 1.0)

    async def refuses(peer: Peer, sub_id: str, _: list[dict[str, Any]]) -> None:
        await peer.send("CLOSED", sub_id, "restricted: members only")

    async with FaultRelay() as relay:
        relay.on_req = refuses
        url = relay.url if is_there else UNREACHABLE
        home = Home(tmp_path / "data", url)
        path = home.folder.path(OLD)
        path.mkdir(parents=True)
        (path / JOURNAL).write_bytes(b"damaged\n{}\n")
        with pytest.raises(RelayUnavailable, match=url):
            await home.recovery.rebuild(OLD, "relay")
    assert [entry.name for entry in path.iterdir()] == [JOURNAL]


async def written(home: Home) -> list[Record]:
    """A conversation on disk, in a journal of one file."""
    records = list(going_on(1, 4, OLD))
    journal, _ = await home.folder.open(OLD)
    await journal.append([[record] for record in records])
    await Views(home.folder, home.disk).show(fold(OLD, records))
    return records


@pytest.mark.parametrize("harm", ["gone", "damaged"])
async def test_a_conversation_whose_newest_file_is_whole_is_not_rebuilt(home: Home, harm: str) -> None:
    """Its newest file holds the whole state."""
    records = await written(home)
    journal, _ = await home.folder.open(OLD)
    assert await journal.rotate(StateSnapshot.of(fold(OLD, records)))
    await home.folder.close()
    first = home.folder.path(OLD) / JOURNAL
    first.unlink() if harm == "gone" else first.write_bytes(b"x" + first.read_bytes())
    before = sorted(home.folder.path(OLD).iterdir())
    with pytest.raises(UsageError, match=r"journal\.jsonl.*continues from the newest file.*--force"):
        await home.recovery.rebuild(OLD, "conversation.json")
    assert sorted(home.folder.path(OLD).iterdir()) == before
    made = await home.recovery.rebuild(OLD, "conversation.json", force=True)
    assert (made.id, made.aside is not None) == (OLD, True)
    assert any("the records before" in sentence for sentence in made.lost)


async def test_the_files_of_older_turns_that_nothing_else_holds_stay_after_a_rebuild(home: Home) -> None:
    records = list(going_on(1, 3 * SEGMENT, OLD))
    await stored(home.folder, OLD, *records)
    path = home.folder.path(OLD)
    state = fold(OLD, records)
    await Views(home.folder, home.disk).show(state)
    journal, _ = await home.folder.open(OLD)
    assert await journal.rotate(StateSnapshot.of(state))
    await home.folder.close()
    before = read_view(path / VIEW)
    (path / JOURNAL).unlink()
    await home.recovery.rebuild(OLD, "conversation.json", force=True)
    after = read_view(path / VIEW)
    assert [one["turnId"] for one in after["orchestratorTurns"]] == [
        one["turnId"] for one in before["orchestratorTurns"]
    ]
    assert len(after["orchestratorTurns"]) == 3 * SEGMENT
    assert not any("cannot be read" in fault for fault in (await verify(home.folder, OLD)).faults)


MESSAGES = ("I want something nice", "let us think", "plan it", "blue", "another one")


def played() -> list[Record]:
    """Two cycles in which agents worked and asked."""
    scenario = Scenario(longest_way, diligent)
    for text in MESSAGES:
        scenario.user_writes(text)
        scenario.settle(seed=len(text))
    return [record for decision in scenario.journal for record in decision]


def view_of(state: Conversation) -> dict[str, Any]:
    view: dict[str, Any] = json.loads(render(state))
    return view


def texts(state: Conversation) -> list[str]:
    return [message.text for message in state.memory.recent]


def past_of(state: Conversation) -> dict[str, list[Any]]:
    """What the readable file shows of transitions, turns, runs and calls."""
    view = view_of(state)
    return {
        "transitions": [(one["from"], one["to"], one["cycle"], one["decidedBy"]) for one in view["phaseTransitions"]],
        "turns": [
            {name: value for name, value in turn.items() if name != "source"} for turn in view["orchestratorTurns"]
        ],
        "runs": [{name: value for name, value in run.items() if name != "source"} for run in view["runs"]],
        "calls": [{name: value for name, value in call.items() if name != "source"} for call in view["toolCalls"]],
    }


@pytest.mark.altered
@pytest.mark.parametrize("seed", range(3))
def test_from_damage_anywhere_the_conversation_comes_back_and_continues(seed: int) -> None:
    """Good records up to a cut, and the readable file: the messages, the phase, nothing in flight, a legal way on."""
    records = played()
    before = fold(ID, records)
    found = messages_of_view(view_of(before), ID, "conversation.json")
    for cut in range(seed, len(records), 17):
        made, lost = rebuilt_records(ID, Salvaged(records=records[:cut], damage=["x"]), found, (), NOW)
        decoded, _, fault = CONVERSATION.decode_lines(CONVERSATION.encode_decisions([[one] for one in made]))
        assert (decoded, fault) == (made, None)
        assert list(contradictions(ID, made)) == []
        state = fold(ID, made)
        assert texts(state) == texts(before)
        assert (state.cycle.phase, state.cycle.number, state.unmet_gates) == (
            before.cycle.phase,
            before.cycle.number,
            before.unmet_gates,
        ), cut
        assert (dict(pending(state)), state.cycle.waiting_for) == ({}, "user")
        assert not decide(state, Opened(), policy(), NOW).records
        assert lost[0] == "x"
        assert past_of(state) == past_of(before), cut
        again = Scenario(longest_way, diligent)
        again.journal, again.now, again.conversation = [(record,) for record in made], NOW, state
        known = next(one.event_id for one in made if isinstance(one, r.MessageRecorded))
        assert again.user_writes("known", event_id=known) == []
        again.user_writes("please go on", event_id="e" * 64)
        again.settle(seed)
        assert list(contradictions(ID, [record for decision in again.journal for record in decision])) == []


def test_records_of_agents_that_only_the_journal_holds_are_kept_or_named() -> None:
    name, records = whole(ROOT / "own-phases")
    state = fold(name, records)
    found = messages_of_view(view_of(state), name, "conversation.json")
    made, lost = rebuilt_records(name, Salvaged(records=records[:-1]), found, (), NOW)
    assert fold(name, made).memory.agent_states == state.memory.agent_states
    assert not any("own phases" in sentence for sentence in lost)
    ended = replace(found, has_ended=True)
    made, lost = rebuilt_records(name, Salvaged(), ended, (), NOW)
    assert any("own phases" in sentence for sentence in lost)
    assert (fold(name, made).cycle.status, dict(pending(fold(name, made)))) == ("ended", {})


def test_messages_in_intact_lines_after_the_damage_are_kept_without_a_readable_file() -> None:
    records = played()
    after: list[MessageRecord] = [one for one in records[20:] if isinstance(one, r.MessageRecorded | r.MessageSent)]
    unreadable = RecoveredMessages(source="conversation.json", messages=(), lost=["the file"])
    made, lost = rebuilt_records(ID, Salvaged(records=records[:18], messages=after, turns=9), unreadable, (), NOW)
    state, before = fold(ID, made), fold(ID, records[:18])
    assert texts(state)[-2:] == texts(fold(ID, records))[-2:]
    assert (state.cycle.phase, state.cycle.number, state.totals.turn_count) == (
        before.cycle.phase,
        before.cycle.number,
        9,
    )
    assert "the file" in lost


async def test_what_its_author_deleted_does_not_come_back_by_a_rebuild(tmp_path: Path, relay: str) -> None:
    """The deletions are after the damage, of a message before it and of one after it, which a relay keeps."""
    home = Home(tmp_path / "data", relay)
    root, first, second = thread(home, relay, 2)
    await person.publish(relay, root, first, second)
    name = ConversationId(root["id"])
    journal, _ = await home.folder.open(name)
    owner = home.ring.get("owner").public

    def recorded(seq: int, event: Any) -> r.MessageRecorded:
        return replace(wrote(seq, event["id"]), text=event["content"], author=owner, at=Millis(BEGAN * 1000 + seq))

    records = [started(name), recorded(2, root), recorded(3, first), waits(4), recorded(5, second)]
    withdrawn = [
        r.MessageWithdrawn(seq=6 + n, at=Millis(BEGAN * 1000 + 9), message=seq) for n, seq in enumerate((3, 5))
    ]
    for record in (*records, *withdrawn, waits(8)):
        await journal.append([[record]])
    await home.folder.close()
    path = home.root / name / JOURNAL
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"damage\n", *lines[4:]]))
    made = await home.recovery.rebuild(name, "relay")
    state = fold(name, await home.folder.read(made.id))
    assert [message.text for message in state.memory.recent] == ["begin"]


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_message_whose_answer_only_the_journal_has_is_not_answered_again(is_answered: bool) -> None:
    """The answer is after the damage, and no relay has taken it yet."""
    records = played()
    last = next(record for record in reversed(records) if isinstance(record, r.MessageRecorded))
    sent = [one for one in records if isinstance(one, r.MessageSent) and one.seq > last.seq]
    assert sent
    inbound = InboundMessage(
        event_id=last.event_id,
        author=last.author,
        text=last.text,
        created_at=last.created_at,
        conversation=ID,
        starts=False,
    )
    found = RecoveredMessages(
        source="relay",
        messages=[last],
        unanswered=[MessageReceived(message=inbound, role=Role.OWNER, name="alice")],
    )
    left = Salvaged(records=records[:18], messages=[last, *sent] if is_answered else [last], damage=["x"])
    made, _ = rebuilt_records(ID, left, found, (), NOW)
    assert len(fold(ID, made).work.undecided) == (0 if is_answered else 1)
    assert sum(isinstance(one, r.MessageRecorded) and one.event_id == last.event_id for one in made) == is_answered


def test_a_message_of_the_second_in_which_the_good_records_begin_is_kept() -> None:
    records = played()
    sent = next(record for record in records if isinstance(record, r.MessageSent))
    good = [record for record in records if record.seq < sent.seq]
    of_relay = replace(sent, at=Millis(sent.at // 1000 * 1000))
    assert of_relay.at < fold(ID, good).memory.recent[0].at
    found = RecoveredMessages(source="relay", messages=[of_relay])
    made, _ = rebuilt_records(ID, Salvaged(records=good, damage=["x"]), found, (), NOW)
    assert texts(fold(ID, made))[-1] == sent.text


async def test_a_damaged_journal_keeps_its_good_records(home: Home) -> None:
    records = await written(home)
    await home.folder.close()
    file = home.folder.path(OLD) / JOURNAL
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:7], b"damaged\n", *lines[8:]]))
    (home.folder.path(OLD) / "conversation.json").unlink()
    made = await home.recovery.rebuild(OLD, "conversation.json")
    assert (await home.folder.read(OLD))[:7] == records[:7]
    assert "journal.jsonl from line 8 on, except for the messages in it" in made.lost


async def test_a_damaged_journal_that_was_copied_to_here_is_rebuilt_as_an_import(home: Home) -> None:
    """Its good records may be forged as those of any import, and no daemon has marked it yet."""
    waiver = p.Waived(
        seq=4,
        at=Millis(4),
        phases=QUALITY_PHASES,
        author=PublicKey("a" * 64),
        name="a",
        quote="yes",
        message_id=EventId(REPLY),
    )
    answer = r.MessageSent(
        seq=3, at=Millis(3), speaker=PublicKey("b" * 64), name="b", text="x", purpose="notice", phase=Phase.CHAT
    )
    for record in (started(OLD), wrote(2, REPLY), answer, waiver, waits(5), waits(6)):
        await stored(home.folder, OLD, record)
    file = home.folder.path(OLD) / JOURNAL
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:4], b"damaged\n", *lines[5:]]))
    await home.recovery.rebuild(OLD, "conversation.json")
    state = fold(OLD, await home.folder.read(OLD))
    assert (bool(state.identity.imported), phases_of(state).waivers) == (True, ())


async def test_from_the_readable_file_alone_answers_go_to_the_thread_with_the_conversations_id(home: Home) -> None:
    path = home.folder.path(OLD)
    path.mkdir(parents=True)
    (path / "conversation.json").write_text(json.dumps({"id": OLD, "title": "Login"}))
    made = await home.recovery.rebuild(OLD, "conversation.json")
    assert "the ids of older messages: relays may send some of them again" in made.lost
    assert fold(OLD, await home.folder.read(OLD)).identity.address["root"] == OLD


async def test_without_a_readable_file_nothing_is_changed(home: Home) -> None:
    """A conversation of which nothing is there is no damage."""
    path = home.folder.path(OLD)
    with pytest.raises(UsageError, match=rf"no conversation {OLD} in .*`--from relay` recovers"):
        await home.recovery.rebuild(OLD, "conversation.json")
    assert not path.exists()
    (path / JOURNAL).mkdir(parents=True)
    with pytest.raises(StoreDamaged, match=r"conversation\.json cannot be read.*--from relay"):
        await home.recovery.rebuild(OLD, "conversation.json")
    assert [entry.name for entry in path.iterdir()] == [JOURNAL]


def put(home: Home, content: dict[str, Any]) -> Path:
    file = home.root / f"{OLD}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return file


async def test_a_file_that_is_imported_moves_into_its_folder(home: Home) -> None:
    """A relay that only the file names is not used."""
    address = {"form": "notes", "root": OLD, "root_kind": 1, "root_author": "", "root_relay": "", "relays": ["ws://x"]}
    file = put(home, {"id": OLD, "title": "Login", "phase": "PLAN", "metadata": {"address": address}})
    assert legacy_file(home.folder.path(OLD)) == file
    await home.recovery.import_file(file, OLD)
    assert legacy_file(home.folder.path(OLD)) is None
    assert json.loads((home.folder.path(OLD) / file.name).read_text())["phase"] == "PLAN"
    state = fold(OLD, await home.folder.read(OLD))
    assert (state.cycle.phase.value, state.cycle.status, state.identity.title) == ("plan", "waiting", "Login")
    assert state.identity.address == {**address, "relays": []}
    with pytest.raises(StoreError, match="cannot be made"):  # it exists
        await home.recovery.import_file(put(home, {"id": OLD, "phase": "CHAT"}), OLD)
    assert fold(OLD, await home.folder.read(OLD)) == state


async def test_an_imported_conversation_in_direct_messages_is_sent_to_no_one(home: Home) -> None:
    """A file may name anybody as its people."""
    named: dict[str, Any] = {"form": "direct", "root": OLD, "room": "e" * 64, "key": "a" * 64, "relays": ["ws://x"]}
    named["people"] = ["b" * 64]
    file = put(home, {"id": OLD, "title": "Login", "phase": "PLAN", "metadata": {"address": named}})
    await home.recovery.import_file(file, OLD)
    place = fold(OLD, await home.folder.read(OLD)).identity.address
    assert (place["form"], place["room"], place["key"], place["people"], place["relays"]) == ("direct", OLD, "", [], [])


@pytest.mark.parametrize("name", ["history", "phaseTransitions", "orchestratorTurns"])
async def test_a_value_that_is_not_a_list_is_named_and_the_rest_is_imported(home: Home, name: str) -> None:
    imported = await home.recovery.import_file(put(home, {"id": OLD, "phase": "PLAN", name: 5}), OLD)
    assert [sentence for sentence in imported.lost if sentence.startswith(f"{name}, ")]
    assert fold(OLD, await home.folder.read(OLD)).cycle.phase is Phase.PLAN


async def test_a_rebuild_from_the_file_alone_shows_what_the_file_showed(home: Home) -> None:
    """Also of turns in its older files; with its cycles, messages, and why it ended."""
    records = played()
    records += [one for one in going_on(records[-1].seq + 1, 2 * SEGMENT, ID) if not isinstance(one, PhaseTransition)]
    records = [replace(one, seq=number) for number, one in enumerate(records, start=1)]
    path = home.folder.path(ID)
    await stored(home.folder, ID, *records)
    await home.folder.close()
    before = fold(ID, records)
    await Views(home.folder, home.disk).show(before)
    old = read_view(path / VIEW)
    for journal in path.glob("journal*.jsonl"):
        journal.unlink()
    made = await home.recovery.rebuild(ID, "conversation.json")
    new = read_view(path / VIEW)
    for name in ("phaseTransitions", "orchestratorTurns", "runs", "toolCalls"):
        assert len(new[name]) == len(old[name]) > 5
        assert [one.pop("source") for one in new[name]] == [VIEW] * len(new[name])
        assert new[name] == old[name]
    assert len(new["orchestratorTurns"]) > 2 * SEGMENT
    assert [one["cycle"] for one in new["cycles"]] == [one["cycle"] for one in old["cycles"]]
    assert new["cycles"][0]["endedBecause"] == old["cycles"][0]["endedBecause"]
    fields = ("text", "cycle", "phase", "turn", "eventId")
    shown = [[[one.get(field) for field in fields] for one in view["messages"]] for view in (old, new)]
    assert shown[0] == shown[1]
    assert not any("phases and turns" in sentence for sentence in made.lost)
    assert (await verify(home.folder, ID)).faults == ()
    assert render(fold(ID, await home.folder.read(ID, NEWEST))) == (path / VIEW).read_text()


def test_why_work_was_not_tried_is_read_from_the_file() -> None:
    done = {"agent": "executor", "outcome": "finished", "text": "no", "verdict": "untried", "untried": "no browser"}
    ran = [{"agent": "executor", "command": "python a.py", "exitStatus": 1}]
    turn = {"turnId": "turn-1", "timestamp": 5, "phase": "verification", "completions": [done], "ran": ran}
    lost: list[str] = []
    (found,) = history_of_view({"orchestratorTurns": [turn]}, VIEW, lost).turns
    assert lost == []
    assert [(one.verdict, one.untried) for one in found.completions] == [("untried", "no browser")]
    assert [(one.command, one.status) for one in found.ran] == [("python a.py", 1)]


async def test_the_transitions_and_turns_of_an_older_programs_file_are_kept(home: Home) -> None:
    moved = {"message": "m", "agentPubkey": "a" * 64, "agentName": "PM", "reason": "because", "summary": "s"}
    ways = [("CHAT", "EXECUTE"), ("EXECUTE", "CHAT")] * 6 + [("CHAT", "PLAN")]
    transitions = [
        {"from": here, "to": there, "timestamp": 1_755_000_000_000 + number, **moved}
        for number, (here, there) in enumerate(ways)
    ]
    turns = [
        {
            "turnId": f"t{number}",
            "timestamp": 1_755_000_000_000 + number,
            "phase": "EXECUTE",
            "agents": ["executor"],
            "completions": [
                {"agent": "executor", "message": f"done {number}", "timestamp": 1_755_000_000_500 + number}
            ],
            "reason": "asked for",
            "isCompleted": True,
        }
        for number in range(16)
    ]
    turns[3] = {**turns[3], "phase": "SLEEP"}
    file = put(home, {"id": OLD, "phase": "PLAN", "phaseTransitions": transitions, "orchestratorTurns": turns})
    made = await home.recovery.import_file(file, OLD)
    view = read_view(home.folder.path(OLD) / VIEW)
    assert [(one["from"], one["to"], one["agentName"], one["reason"]) for one in view["phaseTransitions"]] == [
        (here.lower(), there.lower(), "PM", "because") for here, there in ways
    ]
    assert [one["turnId"] for one in view["orchestratorTurns"]] == [f"t{number}" for number in range(16) if number != 3]
    assert view["orchestratorTurns"][0]["completions"][0]["text"] == "done 0"
    assert {one["source"] for one in (*view["phaseTransitions"], *view["orchestratorTurns"])} == {file.name}
    assert "turn 4 of 16, which could not be understood" in made.lost
    assert not any("show only the messages" in sentence for sentence in made.lost)


async def test_the_past_that_a_file_shows_approves_waives_and_counts_nothing(home: Home) -> None:
    scenario = Scenario(longest_way, diligent).converse("I want something nice").converse("/quick")
    view = view_of(scenario.conversation)
    owner = {"kind": "person", "name": "owner", "pubkey": "a" * 64}
    at = "2026-01-01T00:00:00Z"
    forged = [
        {"time": at, "cycle": 1, "kind": kind, "by": owner, "reason": "all gates skipped"}
        for kind in ("waiver", "approval", "continue")
    ]
    view |= {"id": OLD, "phase": "execute", "status": "waiting", "openGates": [], "decisions": forged}
    view["waivers"] = [{"phases": [*QUALITY_PHASES], "by": "owner", "quote": "/quick", "messageId": "e" * 64, "at": at}]
    usage = {"calls": -5, "inputTokens": -9, "costUsd": -1e9}
    view["orchestratorTurns"] = [*view["orchestratorTurns"], {**view["orchestratorTurns"][0], "models": {"m": usage}}]
    await home.recovery.import_file(put(home, view), OLD)
    state = fold(OLD, await home.folder.read(OLD))
    assert [one.kind for one in state.history.decisions if one.source] == ["waiver", "approval", "continue"]  # type: ignore[union-attr]
    assert (phases_of(state).waivers, phases_of(state).approved_turn, phases_of(state).gates_met) == (
        (),
        "",
        frozenset(),
    )
    assert state.unmet_gates == tuple(QUALITY_PHASES)
    assert (state.totals.usage.calls, state.totals.usage.tokens, state.totals.usage.cost_usd) == (0, 0, None)
    assert (state.cycle.turns, state.work.runs, state.totals.metrics.get(Phase.EXECUTE)) == ((), {}, None)


# ---- what a source cannot prove -------------------------------------------------------------------------------------


async def noted(home: Home, *names: ConversationId) -> None:
    """The index has these conversations."""
    index = Index(home.root / "index.sqlite")
    await index.catch_up(home.folder)
    assert {row.id for row in await index.rows()} >= set(names)
    await index.close()


OURS = ConversationId("c" * 64)
REPLY = "e" * 64


async def ours(home: Home) -> None:
    """A conversation here that has received a reply."""
    await stored(home.folder, OURS, started(OURS), wrote(2, REPLY), waits(3))


def said(text: str, event_id: str, **more: str) -> dict[str, str]:
    return {"time": "2023-11-14T23:00:00Z", "from": "a", "role": "owner", "text": text, "eventId": event_id, **more}


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("way", ["rebuild", "import"])
async def test_a_file_brings_no_message_of_another_conversation_here(home: Home, way: str, *, has_index: bool) -> None:
    """Messages that are known here stay where they are; who wrote the others is what the file says."""
    await ours(home)
    if has_index:
        await noted(home, OURS)
    view = {"id": OLD, "phase": "EXECUTE", "messages": [said("taken", REPLY), said("new", "f" * 64, author="a" * 64)]}
    if way == "import":
        made = await home.recovery.import_file(put(home, view), OLD)
    else:
        home.folder.path(OLD).mkdir(parents=True)
        (home.folder.path(OLD) / "conversation.json").write_text(json.dumps(view))
        made = await home.recovery.rebuild(OLD, "conversation.json")
    assert "messages that belong to other conversations here: 1" in made.lost
    records = await home.folder.read(OLD)
    assert [(one.text, one.author) for one in records if isinstance(one, r.MessageRecorded)] == [("new", "")]
    state = fold(OLD, records)
    assert (bool(state.identity.imported), state.identity.starter, state.unmet_gates) == (True, "", QUALITY_PHASES)
    index = Index(home.root / "index.sqlite")
    await index.catch_up(home.folder)
    assert [index.conversation_of(event) for event in (REPLY, "f" * 64)] == [OURS, None]
    assert index.imported("f" * 64) == OLD
    await index.close()


async def test_an_import_under_the_id_of_a_message_here_is_refused(home: Home) -> None:
    await ours(home)
    file = put(home, {"id": REPLY, "phase": "PLAN"})
    with pytest.raises(StoreError, match=f"{REPLY} is a message of the conversation {OURS} here"):
        await home.recovery.import_file(file, ConversationId(REPLY))
    assert list(await home.folder.lengths()) == [OURS]


@pytest.mark.parametrize("claim", ["no gate is open", "a waiver", "it is back in chat"])
def test_after_a_rebuild_a_gate_that_the_good_records_have_open_is_open(claim: str) -> None:
    """`conversation.json` can be edited."""
    records = played()
    cut = (
        next(
            n
            for n, record in enumerate(records)
            if isinstance(record, r.TurnClosed) and record.gate is None and fold(ID, records[: n + 1]).unmet_gates
        )
        + 1
    )
    good = records[:cut]
    before = fold(ID, good)
    view = view_of(before) | {"openGates": []}
    view["messages"] += [said("go on", "f" * 64)]
    if claim == "a waiver":
        view["waivers"] = [{"phases": [*QUALITY_PHASES], "by": "alice", "quote": "yes", "messageId": "f" * 64}]
    if claim == "it is back in chat":
        view["phase"] = "chat"
    found = messages_of_view(view, ID, "conversation.json")
    made, _ = rebuilt_records(ID, Salvaged(records=good, damage=["x"]), found, (), NOW)
    state = fold(ID, made)
    assert state.unmet_gates == QUALITY_PHASES
    assert (phases_of(state).waivers, state.memory.recent[-1].text, state.identity.imported) == (
        phases_of(before).waivers,
        "go on",
        0,
    )


@pytest.mark.parametrize("harm", ["a line", "the import", "torn"])
@pytest.mark.parametrize("proof", ["none", "the index", "conversation.json"])
async def test_a_damaged_import_stays_an_import(home: Home, harm: str, proof: str) -> None:
    """Of its first records, which another folder wrote, none becomes one of ours because the import's is damaged."""
    waiver = p.Waived(
        seq=3,
        at=Millis(3),
        phases=QUALITY_PHASES,
        author=PublicKey("a" * 64),
        name="a",
        quote="yes",
        message_id=EventId(REPLY),
    )
    closing = r.ConversationImported(seq=4, at=Millis(4))
    records = [started(OLD), wrote(2, REPLY), waiver, closing]
    create(home.folder.path(OLD), as_one_decision(records))
    if proof == "the index":
        await noted(home, OLD)
    if proof == "conversation.json":
        await Views(home.folder, home.disk).show(fold(OLD, records))
    else:
        (home.folder.path(OLD) / "conversation.json").write_text(json.dumps({"id": OLD, "phase": "execute"}))
    file = home.folder.path(OLD) / JOURNAL
    lines = file.read_bytes().splitlines(keepends=True)
    harmed = {
        "a line": [*lines[:2], b"damaged\n", *lines[3:]],
        "the import": [*lines[:3], b"damaged\n"],
        "torn": lines[:3],
    }
    file.write_bytes(b"".join(harmed[harm]))
    with pytest.raises(StoreDamaged):
        await home.folder.open(OLD)
    await home.recovery.rebuild(OLD, "conversation.json", force=True)
    state = fold(OLD, await home.folder.read(OLD))
    assert (bool(state.identity.imported), phases_of(state).waivers) == (True, ())


@pytest.fixture(params=["files", "database"])
async def either(request: pytest.FixtureRequest, tmp_path: Path, relay: str) -> AsyncIterator[Home]:
    """A data folder that holds no conversation, with its store in files and in a database."""
    home = Home(tmp_path / "data", relay)
    if request.param == "files":
        yield home
        return
    with postgres.schema() as url:
        async with PostgresConversations.connected(url, home.root, home.disk, StillClock(), worker="one") as store:
            home.recovery = replace(home.recovery, folder=store)
            yield home


async def test_a_rebuild_from_relays_takes_the_messages_of_the_thread_and_not_those_that_mention_it(
    either: Home, relay: str
) -> None:
    """Where the whole store is lost; a second rebuild is refused, unless forced, and then the first is kept beside."""
    root, first = thread(either, relay, 1)
    other, *_ = thread(either, relay, text="another thread")
    mentions = [["e", other["id"], relay, "root"], ["e", root["id"], relay, "mention"]]
    elsewhere = person.note(either.ring.get("owner"), "as we said there", *mentions, at=BEGAN + 3)
    await person.publish(relay, root, first, other, elsewhere)
    store = either.recovery.folder
    made = await either.recovery.rebuild(ConversationId(root["id"]), "relay")
    state = fold(made.id, await store.read(made.id))
    assert [one.signal.message.text for one in state.work.undecided if isinstance(one.signal, MessageReceived)] == [
        "begin",
        "and 1",
    ]
    assert not state.identity.imported, "relays have the signatures of those who wrote"
    assert (store.path(made.id) / VIEW).read_bytes() == render(state).encode()
    before = await store.contents(made.id)
    with pytest.raises(UsageError, match="is whole"):
        await either.recovery.rebuild(made.id, "relay")
    again = await either.recovery.rebuild(made.id, "relay", force=True)
    assert again.messages == 2
    assert again.aside
    assert [(again.aside / JOURNAL).read_bytes()] == before
    assert fold(made.id, await store.read(made.id)).work.undecided == state.work.undecided


@pytest.mark.parametrize("is_indexed", [False, True], ids=["by its journal", "by the index alone"])
async def test_no_relay_is_asked_for_a_conversation_in_direct_messages(tmp_path: Path, *, is_indexed: bool) -> None:
    async with FaultRelay() as keeper:
        home = Home(tmp_path / "data", keeper.url)
        begun = replace(started(OLD), address={"form": "direct", "root": OLD, "room": "e" * 64})
        records: list[Record] = [begun, wrote(2, "7" * 64)]
        path = home.folder.path(OLD)
        await home.disk.run(create, path, as_one_decision(records))
        if is_indexed:
            index = Index(home.root / "index.sqlite")
            await index.catch_up(home.folder)
            await index.close()
            (path / JOURNAL).write_bytes(b"")
        with pytest.raises(UsageError, match="direct messages, of which relays have nothing"):
            await home.recovery.rebuild(OLD, "relay", force=True)
        assert keeper.connections == 0
