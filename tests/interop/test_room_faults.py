"""A relay of rooms that takes one key to a connection fails in mid-work: nothing is lost, and nothing comes twice."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.ports import Model, OnText, ignore_text
from tenex.nostr import pool, rooms
from tenex.nostr.keys import SecretKey, npub
from tenex.nostr.timeouts import RelayTimeouts
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import peek
from tests.kits.room_relay import Raw, RoomRelay, room_relay
from tests.service.kit import of_kind
from tests.service.person import note

from .daemons import Daemon, prepared, reopened
from .room_faults import FAULTS, Fault, cut_at

HELLO = "Create hello.py that prints hello"
IMPATIENT = partial(
    RelayTimeouts,
    retry_first=0.05,
    retry_most=0.5,
    close_timeout=0.2,
    ping_interval=0.5,
    ping_timeout=0.5,
    ok_timeout=1.0,
    eose_timeout=1.0,
    auth_timeout=1.0,
    redo_first=0.05,
    redo_most=0.5,
    refused_first=0.1,
    refused_most=0.5,
    rate_limited=0.2,
    probe_timeout=1.0,
    past_first=1.0,
)
WITHIN = 40.0
"""Seconds for what takes three without a fault; a look at all rooms, once a minute, comes too late."""
MINUTE = 60.0
PATIENT = 120.0
"""Seconds with the usual timeouts, after a minute of a fault: twice the longest pause between two tries."""


def faults(*quick: str) -> list[Any]:
    """All faults as parameters; those that are not named are for a soak."""
    assert {fault.name for fault in FAULTS} >= set(quick)
    return [
        pytest.param(fault, id=fault.name, marks=[] if fault.name in quick else [pytest.mark.soak]) for fault in FAULTS
    ]


class HeldModel:
    """A model whose first answer to an agent comes when it is let go."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    def wrap(self, model: Model) -> Model:
        held = self

        class Held:
            async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
                if request.purpose == "work":
                    held.is_asked.set()
                    await held.may_answer.wait()
                return await model.step(request, on_text)

        return Held()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "RelayTimeouts", IMPATIENT)
    monkeypatch.setattr(rooms, "SOON", 0.5)


class Site:
    """A room, a daemon in it, and its owner, who writes by another connection."""

    def __init__(self, relay: RoomRelay, data: Path) -> None:
        self.owner = SecretKey.generate()
        self.relay = relay
        self.model = HeldModel()
        self.daemon = prepared(data, npub(self.owner.public), relay.url)
        self.room = relay.make("room", self.owner.public, *self.daemon.agent_keys)
        self.asked: list[str] = []
        self.patience = WITHIN

    @asynccontextmanager
    async def daemon_at_work(self) -> AsyncIterator[Daemon]:
        async with reopened(self.daemon, self.model.wrap) as daemon:
            yield daemon

    def write(self, text: str) -> str:
        tags = [["h", self.room], ["p", self.daemon.project]]
        self.asked.append(self.relay.write(note(self.owner, text, *tags, kind=9)))
        return self.asked[-1]

    def answers(self, root: str) -> list[Raw]:
        """What the relay has of us in a thread, or below what quotes its root."""
        answers = [*self.relay.accepted(9, e=root), *self.relay.accepted(9, q=root)]
        return [event for event in answers if event["pubkey"] in self.daemon.agent_keys]

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(self.patience):
            while not holds():
                await asyncio.sleep(0.02)

    async def answered(self, root: str) -> None:
        await self.until(lambda: self.answers(root))

    def has_ended(self, root: str) -> bool:
        view = self.daemon.view(root)
        is_sent = all(any(event["id"] == sent for event in self.answers(root)) for sent in self.sent(root))
        return view.get("status") == "ended" and is_sent

    def sent(self, root: str) -> list[str]:
        """The ids of all that the journal of a conversation says is to be published."""
        journal = self.daemon.data / "conversations" / root / "journal.jsonl"
        records = peek(journal, CONVERSATION) if journal.exists() else []
        return [event.id for record in of_kind(records, r.MessageSent) for event in record.events]

    def check(self, *, are_in_threads: bool = True) -> None:
        """Hold what was published, taken in and done against the journals."""
        for root in self.asked:
            in_thread = [["e", root, "", "reply"] in event["tags"] for event in self.answers(root)]
            assert all(in_thread) or not are_in_threads
            records = peek(self.daemon.data / "conversations" / root / "journal.jsonl", CONVERSATION)
            assert Counter(event["id"] for event in self.answers(root)) == Counter(self.sent(root))
            texts = Counter((event["pubkey"], event["content"]) for event in self.answers(root))
            assert max(texts.values()) == 1, f"said twice: {texts}"
            recorded = of_kind(records, (r.MessageRecorded, r.CommandGiven))  # type: ignore[arg-type]
            assert [record.event_id for record in recorded] == [root]
        work = peek(self.daemon.data / "conversations" / self.asked[0] / "journal.jsonl", CONVERSATION)
        written = of_kind(work, r.ToolCallCompleted, lambda record: record.tool == "write_file")
        assert [record.ok for record in written] == [True]
        sent = of_kind(work, r.MessageSent, lambda record: record.is_published)
        assert [record.name for record in sent] == ["Executor", "tenex"], "the answer, and the last word on the cycle"


@pytest.mark.parametrize("fault", faults("the relay is down", "OK is lost", "AUTH: OK false, auth-required"))
async def test_nothing_is_lost_and_nothing_comes_twice_when_the_relay_fails_in_mid_work(
    fault: Fault, tmp_path: Path
) -> None:
    async with room_relay() as relay:
        site = Site(relay, tmp_path / "data")
        async with site.daemon_at_work():
            work = site.write(HELLO)
            async with asyncio.timeout(WITHIN):
                await site.model.is_asked.wait()
            async with fault.run(relay):
                meanwhile = site.write("/status")
                site.model.may_answer.set()
                await asyncio.sleep(fault.lasts)
            await site.answered(meanwhile)
            await site.until(lambda: site.has_ended(work))
            await site.answered(site.write("/help"))
        site.check()


@pytest.mark.soak
@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.lasts and not fault.hides_rooms], ids=lambda it: it.name
)
async def test_a_full_minute_of_it_with_the_usual_timeouts_loses_nothing(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "RelayTimeouts", RelayTimeouts)
    async with room_relay() as relay:
        site = Site(relay, tmp_path / "data")
        site.patience = PATIENT
        async with site.daemon_at_work():
            work = site.write(HELLO)
            async with asyncio.timeout(PATIENT):
                await site.model.is_asked.wait()
            async with fault.run(relay):
                meanwhile = site.write("/status")
                site.model.may_answer.set()
                await asyncio.sleep(MINUTE)
            await site.answered(meanwhile)
            await site.until(lambda: site.has_ended(work))
            await site.answered(site.write("/help"))
        site.check()


@pytest.mark.parametrize("fault", faults("the document answers 503", "REQ: CLOSED restricted", "everything twice"))
async def test_nothing_is_lost_and_nothing_comes_twice_when_the_relay_fails_at_the_start(
    fault: Fault, tmp_path: Path
) -> None:
    async with room_relay() as relay, AsyncExitStack() as stack:
        site = Site(relay, tmp_path / "data")
        site.model.may_answer.set()
        async with fault.run(relay):
            await stack.enter_async_context(site.daemon_at_work())
            work = site.write(HELLO)
            await asyncio.sleep(fault.lasts)
        await site.until(lambda: site.has_ended(work))
        await site.answered(site.write("/help"))
        await stack.aclose()
        site.check(are_in_threads=not fault.hides_rooms)


@pytest.mark.parametrize(
    ("number", "is_handled"),
    [
        *[(3, True), (7, False)],
        *(pytest.param(*each, marks=pytest.mark.soak) for each in product(range(1, 41), (False, True))),
    ],
)
async def test_nothing_is_lost_when_a_connection_ends_before_a_frame_is_taken_or_answered(
    number: int, is_handled: bool, tmp_path: Path
) -> None:
    async with room_relay() as relay:
        site = Site(relay, tmp_path / "data")
        async with site.daemon_at_work():
            work = site.write(HELLO)
            async with asyncio.timeout(WITHIN):
                await site.model.is_asked.wait()
            async with cut_at(number, handled=is_handled)(relay):
                meanwhile = site.write("/status")
                site.model.may_answer.set()
                await site.answered(meanwhile)
                await site.until(lambda: site.has_ended(work))
        site.check()
