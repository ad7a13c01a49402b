"""Daemons whose conversations are in PostgreSQL: one that is killed and goes on, and two of which one is killed.

What is promised is what the oracle of the other tests here holds against the files: the conversations are copied out of
the database into a folder, and that is checked.
"""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from tenex.cli.shared.chat_places import ChatPlaces
from tenex.core import records as r
from tenex.core.config import Replay
from tenex.core.conversation import fold
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.nostr.direct import GIFT_WRAP
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import KeyRing
from tenex.store.format import CONVERSATION
from tests.fakes import postgres

from . import person
from .chats import Chat
from .kit import Folder, Process, daemon, forked, of_kind, ordered, orders_for, tenex, tenex_here
from .moments import Moment
from .oracle import READS, check, survey

REQUEST = "Create hello.py that prints hello"
CONVERSATIONS, TRIAL = 300, 600.0
"""Of the long trial: how many there are, and for how many seconds workers are killed."""
WITH_WORK = 10
"""Of so many conversations there one is a piece of work, in which files are written and checked."""
SHORT: Any = {"lease": 3.0}
"""For daemons whose leases run out within a test."""


class SharedFolder(Folder):
    """A data folder whose conversations are in a database."""

    def __init__(self, data: Path, relay: str, url: str) -> None:
        super().__init__(data, relay)
        self.store = url
        text = self.file.read_text()
        self.file.write_text(f"store = {json.dumps(url)}\n{text}")

    def records(self, name: str) -> list[Record]:
        with psycopg.connect(self.store, autocommit=True, connect_timeout=10) as connection:
            lines = connection.execute(
                "select line from tenex_records where conversation = %s order by seq", [name]
            ).fetchall()
        records, _, fault = CONVERSATION.decode_lines("".join(f"{line}\n" for (line,) in lines).encode())
        assert fault is None
        return records

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.store, autocommit=True, connect_timeout=10) as connection:
            return connection.execute(query).fetchall()

    async def as_files(self) -> Folder:
        """The same as a folder of files: copied, and the setting taken out."""
        ended, out, err = await tenex_here(
            "conversations", "copy", "--to", self.data / "conversations", "--data", self.data
        )
        assert ended == 0, err
        assert out.startswith("1 copied"), out
        self.edit(f"store = {json.dumps(self.store)}\n", "")
        (self.data / "conversations" / ".worker").unlink()  # the name of its daemon, which files need not
        files: Any = self
        files.records = lambda name: Folder.records(self, name)
        return self


@pytest.fixture
def store() -> Iterator[str]:
    with postgres.schema() as url:
        yield url


@pytest.fixture
def shared(tmp_path: Path, relay: str, store: str) -> SharedFolder:
    return SharedFolder(tmp_path / "data", relay, store)


@pytest.fixture
async def two(tmp_path: Path, relay: str, store: str) -> tuple[SharedFolder, SharedFolder]:
    """The data folders of two workers of one project, with the same people and one folder of keys."""
    first = SharedFolder(tmp_path / "one", relay, store)
    second = SharedFolder(tmp_path / "two", relay, store)
    second.file.write_text(f"{first.file.read_text()}\n[paths]\nkeys = {json.dumps(str(first.data / 'keys'))}\n")
    second.owner, second.project, second.public_keys = first.owner, first.project, first.public_keys
    return first, second


async def died(process: Process) -> None:
    assert await process.ended() < 0, process.stderr


@pytest.mark.soak
@pytest.mark.parametrize(
    ("moment", "at"), [("append", 2), ("appended", 7), ("model", 2), ("tool", 2), ("tool done", 2), ("publish", 1)]
)
async def test_a_killed_daemon_goes_on_where_it_was(shared: SharedFolder, moment: Moment, at: int) -> None:
    async with ordered(shared, moment, at) as first:
        name = await shared.write(REQUEST)
        await died(first)
    death = survey(shared, name)
    async with ordered(shared) as second:
        await shared.until(name, "ended")
        assert await second.stop() == 0
        assert not second.errors, second.stderr
    assert (shared.workspace / "hello.py").read_text() == 'print("hello")\n'
    assert shared.rows("select holder from tenex_conversations") == [(None,)]
    await check(await shared.as_files(), name, [death])


async def test_commands_read_what_is_in_the_database(shared: SharedFolder, tmp_path: Path) -> None:
    async with daemon(shared):
        name = await shared.write(REQUEST)
        await shared.until(name, "ended")
        status = await shared.facts("status")
        assert status["conversations"]["counts"]
        (row,) = await shared.facts("conversations", "list")
        assert (row["id"], row["status"]) == (name, "ended")
    shown = await shared.facts("conversations", "show", name[:12])
    assert shown == shared.view(name)
    lesson, *_ = await shared.facts("agents", "lessons", "list")
    assert lesson["conversation"] == name
    assert not (shared.data / "conversations" / "_daemon").exists()
    removed = await shared.facts("agents", "lessons", "remove", lesson["number"])
    assert removed == {"removed": lesson, "by": "command"}
    assert lesson not in await shared.facts("agents", "lessons", "list")
    (verdict,) = await shared.facts("conversations", "verify")
    assert (verdict["ok"], verdict["records"], verdict["remarks"]) == (True, len(shared.records(name)), [])
    replayed = await shared.facts("conversations", "replay", name[:12], "--to", "2")
    assert replayed["seq"] == 2
    file = tmp_path / "one.jsonl"
    exported = await shared.facts("conversations", "export", name[:12], "--out", file)
    assert exported["bytes"] == file.stat().st_size
    chat = ChatPlaces(conversations=shared.data / "conversations", store=shared.store)
    listed = await chat.find("")
    assert name[:12] in listed[0]
    assert await chat.named(name[:8]) == name
    doctor = await shared.facts("doctor")
    about = [one for one in doctor["findings"] if one["location"] == "store"]
    assert {one["level"] for one in about} == {"ok"}
    assert {one["check"] for one in about} == {"conversations", "database"}


@pytest.mark.soak
async def test_files_are_copied_to_a_database_and_back_to_the_byte(tmp_path: Path, relay: str, store: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    async with daemon(folder):
        name = await folder.write(REQUEST)
        await folder.until(name, "ended")
    lessons = await folder.facts("agents", "lessons", "list")
    assert lessons
    before = {path.name: path.read_bytes() for path in folder.conversation(name).glob("journal*.jsonl")}
    data = ("--data", folder.data)
    folder.file.write_text(f"store = {json.dumps(store)}\n{folder.file.read_text()}")
    ended, _, err = await tenex("run", *data)
    assert ended == 3
    assert "1 conversation in" in err
    assert "are not in the database" in err
    assert await folder.facts("conversations", "copy", "--to", store) == {
        "copied": 1,
        "same": 0,
        "newer there": 0,
        "lessons": len(lessons),
        "faults": {},
    }
    assert (await folder.facts("conversations", "copy", "--to", store))["same"] == 1
    back = tmp_path / "back"
    assert (await folder.facts("conversations", "copy", "--to", back))["copied"] == 1
    assert {path.name: path.read_bytes() for path in (back / name).iterdir()} == before
    async with daemon(folder):
        await folder.write("Create more.py that prints more", to=name)
        await person.until(lambda: (folder.workspace / "more.py").exists())
    assert (await folder.facts("conversations", "copy", "--to", store))["newer there"] == 1
    assert (await folder.facts("conversations", "copy", "--to", back))["copied"] == 1


@pytest.mark.soak
async def test_the_other_worker_takes_over_what_a_killed_one_has_left(
    two: tuple[SharedFolder, SharedFolder],
) -> None:
    """Both run and receive from the relays. One is killed while an agent's model answers; the lease has to run out."""
    first, second = two
    async with ordered(first, "model", 2, hold=True, **SHORT) as one:
        name = await first.write(REQUEST)
        await first.held()
        async with ordered(second, **SHORT) as other:
            await other.until("conversation.held_elsewhere")
            before = len(first.records(name))
            one.signal(signal.SIGKILL)
            await died(one)
            death = survey(first, name)
            assert len(death.records) == before
            await other.until("conversation.taken_over")
            await second.until(name, "ended")
            assert await other.stop() == 0
            assert not other.errors, other.stderr
    assert second.records(name)[: len(death.records)] == death.records
    await _check_published_once(second, name)


@pytest.mark.soak
async def test_a_worker_that_was_stopped_for_longer_than_its_lease_changes_nothing_when_it_wakes(
    two: tuple[SharedFolder, SharedFolder],
) -> None:
    first, second = two
    async with ordered(first, "model", 2, hold=True, **SHORT) as one:
        name = await first.write(REQUEST)
        await first.held()
        one.signal(signal.SIGSTOP)
        try:
            async with ordered(second, **SHORT) as other:
                await other.until("conversation.taken_over")
                await second.until(name, "ended")
                records = second.records(name)
                one.signal(signal.SIGCONT)
                first.let_go()  # the model answers the one that has lost the conversation
                await one.until("lease.lost")
                await person.until(
                    lambda: not first.rows("select 1 from tenex_conversations where holder is not null"), 60
                )
                assert await other.stop() == 0
        finally:
            one.signal(signal.SIGCONT)
        assert await one.stop() == 0
        assert not one.errors, one.stderr
    assert second.records(name)[: len(records)] == records
    await _check_published_once(second, name)


@pytest.mark.soak
async def test_a_daemon_that_is_cut_off_from_its_database_goes_on_when_it_is_back(
    tmp_path: Path, relay: str, store: str
) -> None:
    async with postgres.Proxy(store).running() as proxy:
        cut_off = SharedFolder(tmp_path / "data", relay, store)
        cut_off.edit(json.dumps(store), json.dumps(proxy.url))
        async with ordered(cut_off, "model", 2, hold=True, **SHORT) as process:
            name = await cut_off.write(REQUEST)
            await cut_off.held()
            proxy.refuses = True
            proxy.cut()
            await process.until("conversation.held_elsewhere")
            proxy.refuses = False
            cut_off.let_go()
            await cut_off.until(name, "ended")
            assert await process.stop() == 0
    await _check_published_once(cut_off, name)


@pytest.mark.soak
async def test_a_worker_that_is_drained_finishes_what_runs_and_leaves_the_rest_to_the_other(
    two: tuple[SharedFolder, SharedFolder],
) -> None:
    first, second = two
    async with ordered(first, "model", 2, hold=True, **SHORT) as one:
        name = await first.write(REQUEST)
        await first.held()
        async with ordered(second, **SHORT) as other:
            await other.until("conversation.held_elsewhere")
            draining = asyncio.create_task(tenex("worker", "drain", "--data", first.data))
            await one.until("worker.drains")
            status = await second.facts("status")
            states = {worker["isOwn"]: worker["state"] for worker in status["workers"]}
            assert states == {True: "running", False: "draining"}
            await person.until(lambda: "limits.shared" in other.events())
            later = await first.write("Hello")
            await person.until(partial(_is_answered, second, later))
            assert not draining.done()
            first.let_go()
            await second.until(name, "ended")
            ended, out, err = await draining
            assert ended == 0, err
            assert "writes no conversation, and takes none." in out
            ended, _, err = await tenex_here("worker", "resume", "elsewhere", "--data", first.data)
            assert ended == 2
            assert "No daemon with 'elsewhere' in its name is known to the database" in err
            assert await one.stop() == 0
            assert not one.errors, one.stderr
            assert [worker["isOwn"] for worker in (await second.facts("status"))["workers"]] == [True]
            assert await other.stop() == 0
    records = [*first.records(name), *first.records(later)]
    sent = [event.id for record in of_kind(records, r.MessageSent) for event in record.events]
    assert sorted(event["id"] for event in await first.sent()) == sorted(sent)


async def test_agents_use_files_at_one_worker_and_the_next_one_knows_what_they_learned(
    two: tuple[SharedFolder, SharedFolder],
) -> None:
    """The worker without the workspace begins a conversation, and leaves it to the other before an agent works."""
    first, second = two
    async with ordered(first) as one, ordered(second) as other:
        one.signal(signal.SIGSTOP)
        try:
            name = await first.write(REQUEST)
            await other.until("conversation.held_elsewhere")
        finally:
            one.signal(signal.SIGCONT)
        await first.until(name, "ended")
        assert (first.workspace / "hello.py").exists()
        status = await second.facts("status")
        assert {worker["isOwn"]: worker["hasWorkspace"] for worker in status["workers"]} == {False: True, True: False}
        assert await one.stop() == 0
        later = await second.write("Create more.py that prints more")
        await second.until(later, "ended")
        assert (second.workspace / "more.py").exists()
        assert not (second.workspace / "hello.py").exists()
        assert await other.stop() == 0
        assert not [*one.errors, *other.errors], one.stderr + other.stderr
    tokens = second.rows(f"select distinct token from tenex_records where conversation = '{name}'")
    assert len(tokens) == 2, "begun by one, and gone on with by the other"
    prompts = [str(record) for record in of_kind(second.records(later), r.RunStarted)]
    learned = await second.facts("agents", "lessons", "list")
    of_first = [lesson["lesson"] for lesson in learned if lesson["conversation"] == name]
    assert of_first
    assert all(any(lesson[:40] in prompt for prompt in prompts) for lesson in of_first)


async def test_a_chat_in_direct_messages_goes_on_at_the_other_worker(two: tuple[SharedFolder, SharedFolder]) -> None:
    """Both open every wrap. One is killed, and the other one knows by its index whose the next message is."""
    first, second = two
    me = Chat(first.owner, first.url, first.project.public)
    async with daemon(first), daemon(second):  # wraps are dated days back, where a first start does not look
        pass
    async with ordered(first, **SHORT) as one, ordered(second, **SHORT) as other:
        name = await me.write("Hello there")
        await person.until(partial(_is_answered, first, name))
        ((holder,),) = first.rows(f"select holder from tenex_conversations where id = '{name}'")
        dying, living = (one, other) if f"{first.data}/" in holder else (other, one)
        dying.signal(signal.SIGKILL)
        await died(dying)
        await me.write("And hello again")
        await person.until(partial(_is_answered, first, name, messages=2))
        assert await living.stop() == 0
        assert not living.errors, living.stderr
    sent = of_kind(first.records(name), r.MessageSent)
    wraps = [wrap.event.id for record in sent for wrap in record.wraps]
    kept = await person.stored(first.url, kinds=[GIFT_WRAP], _p=[first.owner.public])
    assert sorted(event["id"] for event in kept) == sorted(wraps), "each that the journal holds, once"
    assert len(wraps) > 1
    assert len({token for (token,) in first.rows(f"select token from tenex_records where conversation = '{name}'")}) > 1


async def test_a_message_that_only_the_other_worker_receives_makes_a_conversation_go_on_there(
    two: tuple[SharedFolder, SharedFolder],
) -> None:
    """An event that one of its relays never takes keeps the conversation; then its person writes at another relay."""
    first, second = two
    async with embedded_relay() as elsewhere:
        for folder, url in ((first, first.url), (second, elsewhere)):
            folder.edit(json.dumps(first.url), f'{json.dumps(url)}, "ws://127.0.0.1:1"')
        second.url = elsewhere
        async with ordered(first) as one, ordered(second) as other:
            name = await first.write("Hello there")
            await person.until(lambda: of_kind(first.records(name), r.MessageSent))
            await second.write("And hello again", to=name)
            await person.until(lambda: len(of_kind(first.records(name), r.MessageSent)) > 1)
            await person.until(lambda: first.rows(f"select 1 from tenex_conversations where holder ~ '{second.data}'"))
            assert "conversation.wanted" in other.events()
            assert "conversation.wanted" not in one.events()
            assert "lease.lost" not in one.events()
            tokens = first.rows(f"select distinct token from tenex_records where conversation = '{name}'")
            assert len(tokens) == 2, "it has moved once; as soon as a daemon stops, the other may take it again"
            assert not [*one.errors, *other.errors], one.stderr + other.stderr
    records = first.records(name)
    assert [record.text for record in of_kind(records, r.MessageRecorded)] == ["Hello there", "And hello again"]
    assert fold(ConversationId(name), records).delivery.outbox, "what the relay that is away has not taken went along"


async def _check_published_once(folder: SharedFolder, name: str) -> None:
    """The relay has exactly what the journal says was sent; no older token follows a newer one."""
    records = folder.records(name)
    sent = [event.id for record in of_kind(records, r.MessageSent) for event in record.events]
    assert sorted(event["id"] for event in await folder.sent()) == sorted(sent), "published twice, or not at all"
    assert not fold(ConversationId(name), records).delivery.outbox
    assert len(of_kind(records, r.MessageRecorded)) == 1
    rows = folder.rows(f"select token from tenex_records where conversation = '{name}' order by seq")
    tokens = [token for (token,) in rows]
    assert tokens == sorted(tokens), "an older token after a newer one"
    assert len(set(tokens)) > 1


async def test_of_two_workers_each_message_is_taken_by_one(two: tuple[SharedFolder, SharedFolder]) -> None:
    """Both receive every message; which of them takes a conversation depends on who is first."""
    first, second = two
    async with daemon(first), daemon(second):
        picture = person.note(first.owner, "look", ["p", first.project.public], kind=20)
        await person.publish(first.url, picture)
        names = [await first.write(f"Hello, this is number {number}") for number in range(6)]
        for name in names:
            await person.until(partial(_is_answered, first, name))
        for name in names:
            await first.write("And again hello", to=name)
        for name in names:
            await person.until(partial(_is_answered, first, name, messages=2))
    everything = [record for name in names for record in first.records(name)]
    received = [record.event_id for record in of_kind(everything, r.MessageRecorded)]
    assert len(received) == len(set(received)) == 12
    assert len(await first.sent(kinds=[1111])) == 1, "what is not read is answered by one of them"
    sent = [event.id for record in of_kind(everything, r.MessageSent) for event in record.events]
    assert sorted(event["id"] for event in await first.sent()) == sorted(sent)


def _is_answered(folder: SharedFolder, name: str, messages: int = 1) -> bool:
    records = folder.records(name)
    if len(of_kind(records, r.MessageRecorded)) < messages:
        return False
    state = fold(ConversationId(name), records)
    return state.cycle.status == "waiting" and not state.delivery.outbox and state.work.turn is None


def _is_done(folder: SharedFolder, name: str) -> bool:
    state = fold(ConversationId(name), folder.records(name))
    return state.cycle.status == "ended" and not state.delivery.outbox


class Trial:
    """Three workers on one database, each behind a proxy, and one of them with a clock that is an hour ahead."""

    def __init__(self, place: Path, relay: str, server: postgres.Server, proxies: Sequence[postgres.Proxy]) -> None:
        self.seed = int.from_bytes(os.urandom(4), "big")
        self.dice = Random(self.seed)
        self.server = server
        self.proxies = proxies
        self.folders = [SharedFolder(place / f"worker{number}", relay, server.url) for number in range(len(proxies))]
        paths = {"keys": str(self.first.data / "keys"), "workspace": str(self.first.workspace)}
        shared = "\n[paths]\n" + "".join(f"{name} = {json.dumps(path)}\n" for name, path in paths.items())
        settings = self.first.file.read_text()
        for folder, proxy in zip(self.folders, proxies, strict=True):
            folder.file.write_text(settings.replace(json.dumps(server.url), json.dumps(proxy.url)) + shared)
        self.faults: Counter[str] = Counter()
        self.written: dict[str, list[str]] = {}
        """By the conversation the messages of its person, in order."""
        self.works: list[str] = []
        """The conversations in which agents work."""
        ring = KeyRing(self.first.data / "keys")
        self.chats = [Chat(self.first.owner, relay, ring.get(name).public) for name in ("project", "planner")]
        self.rooms: dict[str, Chat] = {}
        """By the conversation in direct messages."""

    @property
    def first(self) -> SharedFolder:
        return self.folders[0]

    async def listen(self) -> None:
        """Start and stop each worker: a first start does not look days back, where gift wraps are dated."""
        for number in range(len(self.folders)):
            async with self.started(number) as process:
                await process.until("runtime.ready")

    async def begin(self, conversations: int) -> None:
        for number in range(conversations):
            is_work = number % WITH_WORK == 0
            name = await self.first.write(f"Create n{number}.py that prints {number}" if is_work else f"Hello {number}")
            self.written[name] = [name]
            self.works += [name] * is_work
        for chat in self.chats:
            name = await chat.write("Hello in private")
            self.written[name] = [name]
            self.rooms[name] = chat

    async def talk(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            name = self.dice.choice(sorted(self.written.keys() - self.works))
            text = f"And hello again {len(self.written[name])}"
            chat = self.rooms.get(name)
            message = await (self.first.write(text, to=name) if chat is None else chat.write(text))
            self.written[name].append(message)
            await asyncio.sleep(self.dice.uniform(0.2, 1))

    async def live(self, number: int, until: float) -> None:
        """Lives of one worker, each of which suffers something and ends by a kill."""
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            async with self.started(number) as process:
                with suppress(AssertionError):  # the database may be away, and then it ends
                    await process.until("runtime.ready")
                await asyncio.sleep(self.dice.uniform(1, 6))
                fault = self.dice.choice((self._pause, self._cut, self._silence, self._nothing))
                self.faults[fault.__name__.removeprefix("_")] += 1
                await fault(process, self.proxies[number])
                with suppress(ProcessLookupError):
                    process.signal(signal.SIGKILL)
                await process.ended()

    def started(self, number: int) -> AbstractAsyncContextManager[Process]:
        ahead = 3600 if number == 1 else 0
        return forked(orders_for(self.folders[number], ahead=ahead, **SHORT))

    async def _pause(self, process: Process, _: postgres.Proxy) -> None:
        with suppress(ProcessLookupError):
            process.signal(signal.SIGSTOP)
            await asyncio.sleep(self.dice.uniform(3, 8))
            process.signal(signal.SIGCONT)
        await asyncio.sleep(self.dice.uniform(1, 4))

    async def _cut(self, _: Process, proxy: postgres.Proxy) -> None:
        proxy.refuses = True
        proxy.cut()
        await asyncio.sleep(self.dice.uniform(0.1, 6))
        proxy.refuses = False
        await asyncio.sleep(self.dice.uniform(1, 4))

    async def _silence(self, _: Process, proxy: postgres.Proxy) -> None:
        proxy.is_deaf = True
        await asyncio.sleep(self.dice.uniform(0.1, 6))
        proxy.cut()
        proxy.is_deaf = False
        await asyncio.sleep(self.dice.uniform(1, 4))

    async def _nothing(self, _: Process, __: postgres.Proxy) -> None:
        pass

    async def restart_server(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until - 10:
            await asyncio.sleep(self.dice.uniform(8, 15))
            self.faults["power cut of the server"] += 1
            await asyncio.to_thread(self.server.kill)
            await asyncio.to_thread(self.server.start)

    async def settle(self, within: float) -> None:
        """Wait until every message is answered and every work has ended; seconds for each conversation."""
        for name, messages in self.written.items():
            holds = _is_done if name in self.works else partial(_is_answered, messages=len(messages))
            await person.until(partial(holds, self.first, name), within)

    async def check(self) -> None:
        """Nothing is lost, nothing is recorded or published twice, and no older token follows a newer one."""
        recorded = {
            name: [record.event_id for record in of_kind(self.first.records(name), r.MessageRecorded)]
            for name in self.written
        }
        assert {name: sorted(events) for name, events in recorded.items()} == {
            name: sorted(events) for name, events in self.written.items()
        }
        everything = [record for name in self.written for record in self.first.records(name)]
        messages = of_kind(everything, r.MessageSent)
        sent = Counter(event.id for record in messages if not record.wraps for event in record.events)
        wraps = Counter(wrap.event.id for record in messages for wrap in record.wraps)
        assert {*sent.values(), *wraps.values()} == {1}
        seen = await self.first.sent()
        notices = [event for event in seen if ["error", "storage"] in event["tags"]]  # the daemon's, about messages
        assert Counter(event["id"] for event in seen if event not in notices) == sent, [
            event for event in seen if event["id"] not in sent
        ]
        kept = await person.stored(self.first.url, kinds=[GIFT_WRAP], _p=[self.first.owner.public])
        assert Counter(event["id"] for event in kept) == wraps
        wrong = self.first.rows(
            "select 1 from (select token, max(token) over (partition by conversation order by seq) as newest"
            " from tenex_records) as each where token < newest"
        )
        assert not wrong, "an older token after a newer one"
        for name in self.written:  # those of one second have no order that a relay keeps
            dates = [record.created_at for record in of_kind(self.first.records(name), r.MessageRecorded)]
            where = "in direct messages" if name in self.rooms else "in a thread"
            assert dates == sorted(dates), f"the messages of a person in another order, {where}"
        self._check_executions()
        count = sum(map(len, recorded.values()))
        print(f"{len(everything)} records, {sent.total()} events, {wraps.total()} wraps, {count} messages")

    def _check_executions(self) -> None:
        """What may not be repeated ran once at most, and nothing ran again of which it was recorded that it had ended.

        Each worker had the workspace for some time; a file is written where the call that writes it was permitted.
        """
        ran = Counter(key for folder in self.folders for key, tool, _ in folder.executions() if tool not in READS)
        for name in self.works:
            permitted = {
                f"{name}:{record.seq}": record.replay for record in of_kind(self.first.records(name), r.ToolCallStarted)
            }
            twice = {key for key, replay in permitted.items() if replay is Replay.ONCE and ran[key] > 1}
            assert not twice, "what may not be repeated ran again"
            assert {key for key in ran if key.startswith(name)} <= permitted.keys(), "a tool ran without permission"
        assert len([*self.first.workspace.glob("n*.py")]) == len(self.works)


@pytest.mark.soak
async def test_three_workers_suffer_kills_pauses_cuts_silence_and_a_server_that_loses_its_power(
    tmp_path: Path, relay: str
) -> None:
    with postgres.own_server() as server:
        async with AsyncExitStack() as stack:
            proxies = [await stack.enter_async_context(postgres.Proxy(server.url).running()) for _ in range(3)]
            trial = Trial(tmp_path, relay, server, proxies)
            print(f"seed {trial.seed}")
            await trial.listen()
            await trial.begin(CONVERSATIONS)
            end = asyncio.get_running_loop().time() + TRIAL
            async with asyncio.TaskGroup() as group:
                for number in range(len(proxies)):
                    group.create_task(trial.live(number, end))
                group.create_task(trial.talk(end))
                group.create_task(trial.restart_server(end))
            print(dict(trial.faults))
            async with trial.started(0) as one, trial.started(1) as two, trial.started(2) as three:
                for process in (one, two, three):
                    await process.until("runtime.ready")
                await trial.settle(240)
            await trial.check()


@pytest.mark.soak
async def test_daemons_go_on_after_a_failover_to_a_synchronous_standby(tmp_path: Path, relay: str) -> None:
    """The promoted server waits for a standby of its own at first: for a while no commit is acknowledged."""
    with postgres.own_server("synchronous_standby_names = 'standby'\n") as primary:
        standby = postgres.Server(primary.programs, primary)
        try:
            standby.start()
            with psycopg.connect(primary.url, autocommit=True, connect_timeout=10) as connection:
                state = "select 1 from pg_stat_replication where sync_state = 'sync'"
                await person.until(lambda: connection.execute(state).fetchone())
            async with AsyncExitStack() as stack:
                proxies = [await stack.enter_async_context(postgres.Proxy(primary.url).running()) for _ in range(2)]
                trial = Trial(tmp_path, relay, primary, proxies)
                await trial.listen()

                async def fail_over() -> None:
                    await asyncio.sleep(8)
                    await asyncio.to_thread(primary.kill)
                    await asyncio.to_thread(standby.promote)
                    for proxy in proxies:
                        proxy.lead_to(standby.url)
                    await asyncio.sleep(3)
                    with psycopg.connect(standby.url, autocommit=True, connect_timeout=10) as connection:
                        connection.execute("alter system set synchronous_standby_names = ''")
                        connection.execute("select pg_reload_conf()")

                async with trial.started(0) as one, trial.started(1) as two:
                    for process in (one, two):
                        await process.until("runtime.ready")
                    await trial.begin(6)
                    async with asyncio.TaskGroup() as group:
                        group.create_task(trial.talk(asyncio.get_running_loop().time() + 20))
                        group.create_task(fail_over())
                    trial.first.store = standby.url
                    await trial.settle(120)
                await trial.check()
        finally:
            standby.close()


TABLES = ("tenex_conversations", "tenex_records", "tenex_snapshots", "tenex_events", "tenex_workers", "tenex_meta")


def dump(url: str) -> dict[str, bytes]:
    """The content of every table, as `pg_dump --data-only` has it."""
    contents = {}
    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            with connection.cursor().copy(f"copy {table} to stdout") as rows:
                contents[table] = b"".join(bytes(row) for row in rows)
    return contents


def restore(url: str, contents: dict[str, bytes]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"truncate {', '.join(TABLES)} cascade")
        for table, content in contents.items():
            with connection.cursor().copy(f"copy {table} from stdin") as rows:
                rows.write(content)


async def test_what_was_said_after_a_dump_that_is_restored_is_not_said_again(shared: SharedFolder) -> None:
    async with daemon(shared):
        old = await shared.write(REQUEST)
        await shared.until(old, "ended")
        await shared.delivered(old)
    older = dump(shared.store)
    async with daemon(shared):
        await shared.write("Create bye.py that prints bye", to=old)
        await shared.until(old, "ended", cycle=2)
        new = await shared.write("Create new.py that prints new")
        await shared.until(new, "ended")
        await shared.delivered(old)
        await shared.delivered(new)
    said = {event["id"] for event in await shared.sent()}
    (shared.workspace / "bye.py").unlink()
    (shared.workspace / "new.py").unlink()
    restore(shared.store, older)
    async with daemon(shared) as process:
        for name, cycle in ((old, 3), (new, 2)):
            await shared.write("Create again.py that prints again", to=name)
            await shared.until(name, "ended", cycle=cycle)
            await shared.delivered(name)
        report = await shared.facts("status")
        assert report["conversations"]["quarantined"] == []
        assert process.events().count("journal.end_recovered") == 2
    assert not (shared.workspace / "bye.py").exists()
    assert not (shared.workspace / "new.py").exists()
    for name, file in ((old, "bye.py"), (new, "new.py")):
        assert file in json.dumps(shared.view(name)["messages"])
    later = [event["content"] for event in await shared.sent() if event["id"] not in said]
    assert not [text for text in later if "bye.py" in text or "new.py" in text]
