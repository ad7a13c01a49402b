"""What every store of conversations does, whatever holds the records: one set of tests, run over each."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from tenex.core.conversation import Conversation, fold, new_conversation
from tenex.core.delivery.records import MessageSent
from tenex.core.errors import AppendFailed, InternalError, StoreDamaged, StoreError, UsageError
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey
from tenex.core.phases import Phase
from tenex.core.port_values import UnsignedEvent, Wrap
from tenex.core.ports import Journal
from tenex.core.records import Record
from tenex.core.router.records import RouteRequested
from tenex.core.snapshot import StateSnapshot
from tenex.store import segments
from tenex.store.conversations import Conversations
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.index import Index
from tenex.store.past_messages import PastMessages
from tenex.store.postgres.conversations import PostgresConversations
from tenex.store.repository import NEWEST, ConversationFolder
from tenex.store.salvage import salvage
from tenex.store.verify import verify
from tenex.store.view import Views
from tests.fakes.scenario import ID, Scenario

from .kit import CONVERSATION_ID, StillClock, asked, decisions_of, started, waits, wrote

OTHER = ConversationId("d" * 64)


class Store:
    """A store, as several processes see it."""

    def __init__(self, kind: str, place: Path, disk: Disk, url: str) -> None:
        self.kind, self.place, self.disk, self.url = kind, place, disk, url
        self.stack = AsyncExitStack()

    async def opened(self, worker: str = "one") -> Conversations:
        """The store as another process opens it; beside a database each worker has a folder of its own."""
        if self.kind == "files":
            return ConversationFolder(self.place / "conversations", self.disk, StillClock())
        return await self.stack.enter_async_context(
            PostgresConversations.connected(self.url, self.place / worker, self.disk, StillClock(), worker=worker)
        )

    def damage(self, conversation: str, seq: int) -> None:
        """Change a word in the line of a record."""
        if self.kind == "files":
            path = self.place / "conversations" / conversation / segments.FIRST
            lines = path.read_bytes().splitlines(keepends=True)
            lines[seq - 1] = lines[seq - 1].replace(b'"attempt":1', b'"attempt":9')
            path.write_bytes(b"".join(lines))
            return
        with psycopg.connect(self.url, autocommit=True) as connection:
            done = connection.execute(
                """update tenex_records set line = replace(line, '"attempt":1', '"attempt":9')
                   where conversation = %s and seq = %s""",
                [conversation, seq],
            )
            assert done.rowcount == 1


@pytest.fixture(params=["files", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path, disk: Disk) -> AsyncIterator[Store]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    store = Store(request.param, tmp_path, disk, url)
    async with store.stack:
        yield store


@pytest.fixture
async def here(store: Store) -> Conversations:
    return await store.opened()


def texts(*records: Record) -> list[str]:
    return [type(record).__name__ for record in records]


async def test_what_was_appended_is_read_again_by_every_process(store: Store, here: Conversations) -> None:
    journal, records = await here.open(CONVERSATION_ID)
    assert (journal.next_seq, records, journal.may_start) == (1, [], True)
    decisions = decisions_of(2, 1, 3)
    await journal.append([])
    await journal.append(decisions[:2])
    await journal.append(decisions[2:])
    assert journal.next_seq == 7
    flat = [record for decision in decisions for record in decision]
    assert await here.read(CONVERSATION_ID) == flat
    length = len(CONVERSATION.encode_decisions(decisions))
    assert (here.length(CONVERSATION_ID), await here.lengths()) == (length, {CONVERSATION_ID: length})
    await journal.close()
    await journal.close()
    with pytest.raises(AppendFailed, match="closed"):
        await journal.append([[asked(7)]])
    there = await store.opened("two")
    journal, records = await there.open(CONVERSATION_ID)
    assert (journal.next_seq, records) == (7, flat)
    await journal.append([[asked(7)]])
    assert [record.seq for record in await here.read(CONVERSATION_ID)] == list(range(1, 8))
    assert await here.last_written() is not None


async def test_a_conversation_that_is_not_there_is_named_and_leaves_no_trace(here: Conversations) -> None:
    with pytest.raises(UsageError, match=f"no conversation {OTHER}"):
        await here.read(OTHER)
    for name in ("", "..", "c" * 63, "C" * 64, "_daemon"):
        for use in (here.open, here.read, here.contents):
            with pytest.raises(UsageError, match="64 lower-case hex digits"):
                await use(ConversationId(name))
    journal, _ = await here.open(OTHER)
    await journal.close()
    assert (await here.lengths(), await here.behind(), await here.quarantined()) == ({}, [], {})
    assert await here.contents(OTHER) == []
    assert await here.last_written() is None
    with pytest.raises(UsageError, match="no conversation"):
        await here.read_file(OTHER, 1)


async def test_a_record_out_of_order_is_a_bug_and_stores_nothing(here: Conversations) -> None:
    journal, _ = await here.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    for wrong in ([[asked(1)]], [[asked(3)]], [[asked(2), asked(2)]], [[asked(2)], [asked(4)]]):
        with pytest.raises(InternalError, match="is next"):
            await journal.append(wrong)
    await journal.append([[asked(2)]])
    assert [record.seq for record in await here.read(CONVERSATION_ID)] == [1, 2]


async def test_of_two_writers_one_writes_and_the_other_is_refused(store: Store, here: Conversations) -> None:
    """Which it is depends on the store: a folder refuses at the append, a database at the opening."""
    first, _ = await here.open(CONVERSATION_ID)
    there = await store.opened("two")

    async def write(journals: Conversations) -> None:
        journal, _ = await journals.open(CONVERSATION_ID)
        await first.append(decisions_of(1))
        await journal.append([[started()], [asked(2)]])

    with pytest.raises(AppendFailed):
        await write(there)
    if first.next_seq == 1:
        await first.append(decisions_of(1))
    await first.append([[asked(2)], [asked(3)]])
    assert [record.seq for record in await there.read(CONVERSATION_ID)] == [1, 2, 3]


async def test_a_journal_that_is_opened_again_here_closes_the_one_before(here: Conversations) -> None:
    first, _ = await here.open(CONVERSATION_ID)
    await first.append(decisions_of(1))
    (second, _), (third, _) = await asyncio.gather(here.open(CONVERSATION_ID), here.open(CONVERSATION_ID))
    outcomes = await asyncio.gather(
        *(journal.append([[asked(2)]]) for journal in (first, second, third)), return_exceptions=True
    )
    assert sum(outcome is None for outcome in outcomes) == 1
    assert all(isinstance(outcome, AppendFailed) for outcome in outcomes if outcome is not None)
    assert len(await here.read(CONVERSATION_ID)) == 2


async def test_appends_at_the_same_time_take_turns(here: Conversations) -> None:
    journal, _ = await here.open(CONVERSATION_ID)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for seq in range(1, 60):
            group.create_task(journal.append(decisions_of(1, first=seq)))
    assert [record.seq for record in await here.read(CONVERSATION_ID)] == list(range(1, 60))


async def test_any_text_comes_back_as_it_was(store: Store, here: Conversations) -> None:
    """What JSON escapes, what ends a line elsewhere, what has no UTF-8."""
    text = "a\0b\r\nc\u2028\x85\x1f \ud800 𝄞 \\u0000 'quoted' %s {}"
    message = wrote(2, "e" * 64, text=text)
    journal, _ = await here.open(CONVERSATION_ID)
    await journal.append([[started(), message]])
    _, records = await here.open(CONVERSATION_ID)
    assert records[1] == message
    verdict = await verify(here, CONVERSATION_ID)
    assert not verdict.faults


async def write_long(here: Conversations, scenario: Scenario) -> tuple[Journal, Conversation]:
    """A conversation that goes on after several snapshots, and its state."""
    journal, _ = await here.open(ID)
    state, snapshots, written = new_conversation(ID), 0, b""
    for decision in scenario.journal:
        await journal.append([decision])
        written += CONVERSATION.encode_decisions([decision])
        for record in decision:
            state.apply(record)
        if len(written) > 20_000 * (snapshots + 1):
            assert not await journal.rotate(replace(StateSnapshot.of(state), seq=1))
            assert await journal.rotate(StateSnapshot.of(state))
            snapshots += 1
    assert snapshots > 1
    return journal, state


async def test_a_quick_verification_decodes_the_past_only_where_it_is_damaged(
    store: Store, here: Conversations, scenario: Scenario
) -> None:
    journal, state = await write_long(here, scenario)
    await journal.close()
    await Views(here, store.disk).show(state)
    quick = await verify(here, ID, is_quick=True)
    whole = await verify(here, ID)
    assert (quick.faults, quick.seq) == (whole.faults, whole.seq) == ((), scenario.records()[-1].seq)
    assert quick.records < whole.records == len(scenario.records())
    early = scenario.records(RouteRequested)[0].seq
    store.damage(ID, early)
    quick = await verify(here, ID, is_quick=True)
    assert f"line {early} cannot be right" in "".join(quick.faults)
    assert quick == await verify(here, ID)


async def test_a_long_journal_goes_on_after_a_snapshot(store: Store, here: Conversations, scenario: Scenario) -> None:
    journal, state = await write_long(here, scenario)
    flat = [record for decision in scenario.journal for record in decision]
    assert await here.read(ID) == flat
    assert (await here.lengths())[ID] == here.length(ID) == sum(map(len, await here.contents(ID)))
    await _check_files(here, flat)
    await journal.close()
    there = await store.opened("two")
    _, newest = await there.open(ID)
    assert isinstance(newest[0], StateSnapshot)
    assert len(newest) < len(flat)
    assert fold(ID, newest) == fold(ID, flat) == state
    assert await there.read(ID, NEWEST) == newest
    middle = newest[0].seq - 1
    part = await there.read(ID, middle)
    assert [record.seq for record in part if record.seq > middle] == list(range(middle + 1, flat[-1].seq + 1))
    assert not (await verify(there, ID)).faults


async def test_one_damaged_conversation_is_put_aside_and_others_go_on(store: Store, here: Conversations) -> None:
    for name in (CONVERSATION_ID, OTHER):
        journal, _ = await here.open(name)
        await journal.append([[started(name)], [asked(2)], [asked(3)], [asked(4)]])
        await journal.close()
    store.damage(CONVERSATION_ID, 3)
    for use in (here.read, here.open, here.contents):
        with pytest.raises(StoreDamaged, match="line 3 cannot be right"):
            await use(CONVERSATION_ID)
    assert list(await here.quarantined()) == [CONVERSATION_ID]
    assert (await verify(here, CONVERSATION_ID)).faults
    journal, _ = await here.open(OTHER)
    await journal.append([[asked(5)]])
    assert not (await verify(here, OTHER)).faults


async def test_a_view_without_its_journal_is_no_reason_to_begin_anew(store: Store, here: Conversations) -> None:
    view = here.path(CONVERSATION_ID) / "conversation.json"
    view.parent.mkdir(parents=True)
    view.write_text("{}")
    with pytest.raises(StoreDamaged, match="is missing, though"):
        await here.open(CONVERSATION_ID)


async def test_older_turns_of_a_view_are_made_from_the_journal(
    store: Store, here: Conversations, scenario: Scenario
) -> None:
    """A worker that has taken a conversation over has no files of it."""
    journal, _ = await here.open(ID)
    flat: list[Record] = []
    for decision in scenario.journal:
        await journal.append([decision])
        flat.extend(decision)
    state = fold(ID, flat)
    await Views(here, store.disk).show(state)
    shown = {path.name: path.read_bytes() for path in here.path(ID).iterdir() if path.suffix == ".json"}
    for name in shown:
        (here.path(ID) / name).unlink()
    await Views(here, store.disk).show(state)
    assert {path.name: path.read_bytes() for path in here.path(ID).iterdir() if path.suffix == ".json"} == shown
    assert await here.behind() == []


async def _check_files(store: Conversations, flat: list[Record]) -> None:
    """Each record is in one file, and files follow on one another, from the newest to the first."""
    part = await store.read_file(ID, NEWEST)
    joined: list[Record] = []
    while isinstance(part[0], StateSnapshot):
        joined = [*part[1:], *joined]
        holding = part[0].seq
        part = await store.read_file(ID, holding)
        assert part[-1].seq == holding
    assert [*part, *joined] == flat


async def test_contents_of_one_store_are_put_into_another_to_the_byte(
    store: Store, here: Conversations, scenario: Scenario, tmp_path: Path
) -> None:
    """In two steps, as a copy that was interrupted goes on."""
    files = ConversationFolder(tmp_path / "source", store.disk, StillClock())
    journal, _ = await files.open(ID)
    state, middle = new_conversation(ID), len(scenario.journal) // 2
    for number, decision in enumerate(scenario.journal):
        await journal.append([decision])
        for record in decision:
            state.apply(record)
        if number == middle // 2 or number == middle + 3:
            assert await journal.rotate(StateSnapshot.of(state))
        if number == middle:
            await here.put(ID, [], await files.contents(ID))
    wanted = await files.contents(ID)
    assert len(wanted) == 3
    await here.put(ID, await here.contents(ID), wanted)
    assert await here.contents(ID) == wanted
    opened, records = await here.open(ID)
    assert fold(ID, records) == state
    assert opened.next_seq == state.next_seq
    assert (await here.lengths())[ID] == sum(map(len, wanted))


async def test_a_conversation_is_created_whole_or_not_at_all(store: Store, here: Conversations) -> None:
    assert not await here.remains(CONVERSATION_ID)
    decisions = decisions_of(2, 1)
    await here.create(CONVERSATION_ID, decisions)
    assert await here.contents(CONVERSATION_ID) == [CONVERSATION.encode_decisions(decisions)]
    assert await here.remains(CONVERSATION_ID) == {1: CONVERSATION.encode_decisions(decisions)}
    with pytest.raises(StoreError, match="Nothing was changed"):
        await here.create(CONVERSATION_ID, decisions_of(1))
    journal, records = await (await store.opened("two")).open(CONVERSATION_ID)
    assert (journal.next_seq, len(records)) == (4, 3)


async def test_a_damaged_journal_is_replaced_by_another_one_and_kept_beside_it(
    store: Store, here: Conversations, scenario: Scenario
) -> None:
    """With its view, and however it was read: what is appended later follows on the new one."""
    journal, _ = await here.open(ID)
    for decision in scenario.journal:
        await journal.append([decision])
    flat = [record for decision in scenario.journal for record in decision]
    await journal.close()
    await Views(here, store.disk).show(fold(ID, flat))
    old_view = (here.path(ID) / "conversation.json").read_bytes()
    (number, damaged), *_ = [
        (number, record.seq)
        for number, decision in enumerate(scenario.journal[1:], 1)
        for record in decision
        if isinstance(record, RouteRequested)
    ]
    good = [record for decision in scenario.journal[:number] for record in decision]
    store.damage(ID, damaged)
    with pytest.raises(StoreDamaged):
        await here.open(ID)
    assert list(await here.quarantined()) == [ID]
    there = await here.remains(ID)
    left = salvage(ID, there)
    assert left.records == good
    aside = await here.renew(ID, there, [good])
    assert aside.parent == here.path(ID)
    kept = {path.name: path.read_bytes() for path in aside.iterdir()}
    assert kept.pop("conversation.json") == old_view
    assert kept.pop(segments.FIRST) == there[1]
    assert await here.contents(ID) == [CONVERSATION.encode_decisions([good])]
    assert not (await verify(here, ID)).faults
    assert json.loads((here.path(ID) / "conversation.json").read_bytes())["seq"] == len(good)
    journal, records = await (await store.opened("two")).open(ID)
    assert records == good
    await journal.append([[asked(len(good) + 1)]])
    assert await here.quarantined() == {}
    assert (await here.lengths())[ID] == sum(map(len, await here.contents(ID)))


async def test_a_journal_of_whose_past_a_snapshot_is_left_goes_on_after_it(
    store: Store, here: Conversations, scenario: Scenario
) -> None:
    """It is read with the sentence that says so, and cannot be copied."""
    first, *others = scenario.journal
    state = fold(ID, list(first))
    for decision in others[:-1]:
        for record in decision:
            state.apply(record)
    snapshot, last = StateSnapshot.of(state), others[-1]
    await here.create(ID, [first])
    await here.renew(ID, await here.remains(ID), [[snapshot], last])
    records, loss = await here.read_left(ID)
    assert records == [snapshot, *last]
    assert f"nothing is known of what was before record {snapshot.seq + 1}" in loss
    assert await here.read(ID, NEWEST) == await here.read(ID, snapshot.seq) == records
    assert await here.read_file(ID, NEWEST) == await here.read_file(ID, 1) == records
    for use in (here.read, here.contents):
        with pytest.raises(StoreDamaged, match="nothing is known"):
            await use(ID)
    assert list(await here.remains(ID)) == [2]
    assert salvage(ID, await here.remains(ID)).records == records
    there = await store.opened("two")
    journal, opened = await there.open(ID)
    assert opened == records
    await journal.append([[asked(last[-1].seq + 1)]])
    for record in last:
        state.apply(record)
    state.apply(asked(last[-1].seq + 1))
    assert await journal.rotate(StateSnapshot.of(state))
    assert list(await here.remains(ID)) == [2, 3]
    assert fold(ID, await there.read(ID, NEWEST)) == state


ADA = PublicKey("a" * 64)
ROOM = "f" * 64


async def said(store: Conversations, conversation: ConversationId, text: str, *, at: int, room: str = "") -> None:
    """A conversation in which Ada has written, in a room of direct messages or for all to read."""
    begun = replace(started(conversation), at=Millis(at), address={"room": room} if room else {})
    journal, _ = await store.open(conversation)
    await journal.append([[begun, wrote(2, conversation, text=text), waits(3)]])
    await journal.close()


async def test_a_room_is_read_by_its_people_alone_and_goes_on_where_it_was_begun_last(
    store: Store, here: Conversations
) -> None:
    """As another process knows it, by an index of its own, before and after the first one has written more."""
    public, private, newest, later = (ConversationId(letter * 64) for letter in "1234")
    await said(here, private, "the port is 8080", at=10, room=ROOM)
    await said(here, public, "the port is 9090", at=20)
    await said(here, newest, "hello", at=30, room=ROOM)
    there = await store.opened("two")
    there.root.mkdir(parents=True, exist_ok=True)
    index = Index(there.root / "index.sqlite")
    try:
        await index.catch_up(there)
        past = PastMessages(index, there)

        async def ports(asking: ConversationId) -> list[str]:
            answer = await past.search("port", asking, ADA)
            return sorted(message.text[-4:] for passages in answer.found for message in passages.messages)

        assert [await ports(asking) for asking in (public, newest)] == [["9090"], ["8080", "9090"]]
        quoted = [await past.quoted([EventId(private)], asking, ADA) for asking in (public, newest)]
        assert [quotation.text for (quotation,) in quoted] == ["", "the port is 8080"]
        assert [index.room_of(name) for name in (public, private)] == ["", ROOM]
        assert index.newest_in(ROOM) == (newest, "a title")
        assert not index.holds(later)
        await said(here, later, "the port is 7070", at=40, room=ROOM)
        rows, unfinished = await index.refresh(there, {later: await there.size(later)})
        assert ([row.id for row in rows], unfinished) == ([later], set())
        assert index.holds(later)
        assert (index.room_of(later), index.newest_in(ROOM)) == (ROOM, (later, "a title"))
        assert await ports(public) == ["9090"]
        assert await ports(newest) == ["7070", "8080", "9090"]
    finally:
        await index.close()


async def test_of_a_conversation_that_another_process_goes_on_with_only_what_is_new_is_read(
    store: Store, here: Conversations, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = await store.opened("two")
    there.root.mkdir(parents=True, exist_ok=True)
    index = Index(there.root / "index.sqlite")
    journal, _ = await here.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    read: list[ConversationId] = []
    whole = type(there).read

    async def counted(folder: Conversations, name: ConversationId, since: int = 0) -> list[Record]:
        read.append(name)
        return await whole(folder, name, since)

    try:
        await index.refresh(there, {CONVERSATION_ID: await there.size(CONVERSATION_ID)})
        monkeypatch.setattr(type(there), "read", counted)
        for seq in (2, 3):
            await journal.append([[asked(seq)]])
            rows, unfinished = await index.refresh(there, {CONVERSATION_ID: await there.size(CONVERSATION_ID)})
            assert ([row.seq for row in rows], unfinished) == ([seq], {CONVERSATION_ID})
        assert read == []
        assert (await index.rows())[0].seq == 3
        other = Index(there.root / "other.sqlite")
        (fresh,), _ = await other.refresh(there, {CONVERSATION_ID: await there.size(CONVERSATION_ID)})
        assert rows == [fresh], "as if all had been read"
        await other.close()
    finally:
        await journal.close()
        await index.close()


async def test_what_hides_a_message_is_published_by_the_next_process_as_it_was_finished(
    store: Store, here: Conversations
) -> None:
    """Its key is used once and stored nowhere: no process could make it again."""
    event = UnsignedEvent(id=EventId("b" * 64), pubkey=ADA, created_at=5, kind=14, tags=(), content="a secret")
    wrap = Wrap(
        event=UnsignedEvent(
            id=EventId("c" * 64),
            pubkey=PublicKey("d" * 64),
            created_at=3,
            kind=1059,
            tags=(("p", ADA),),
            content="Ag==",
            sig="e" * 128,
        ),
        relays=("wss://inbox.example",),
    )
    sent = MessageSent(
        seq=2,
        at=Millis(2),
        speaker=ADA,
        name="Executor",
        text="a secret",
        purpose="completion",
        phase=Phase.CHAT,
        events=(event,),
        wraps=(wrap,),
        relays=("wss://public.example",),
    )
    journal, _ = await here.open(CONVERSATION_ID)
    await journal.append([[started(), sent]])
    await journal.close()
    _, records = await (await store.opened("two")).open(CONVERSATION_ID)
    (row,) = fold(CONVERSATION_ID, records).delivery.outbox.values()
    assert (row.events, row.open) == ((wrap.event,), ((0, "wss://inbox.example"),))
