"""A store of conversations against a list of records: whatever processes do to one conversation, in any order.

Three processes share a store. Two of them are one worker, as it was before and after a restart, so in a database the
second takes from the first at once what it has; the third one is another worker. In files the one that appends first
is right, and the others find out at their next append: there a lock of the folder keeps two daemons apart.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tenex.core.conversation import Conversation, fold
from tenex.core.errors import AppendFailed, HeldElsewhere
from tenex.core.ids import ConversationId
from tenex.core.ports import Journal
from tenex.core.records import Record
from tenex.core.snapshot import StateSnapshot
from tenex.operations.copying import copy_one
from tenex.store.conversations import Conversations
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.postgres.conversations import PostgresConversations
from tenex.store.record_log import Tail
from tenex.store.repository import NEWEST, ConversationFolder
from tenex.store.verify import verify
from tests.fakes import postgres
from tests.store.kit import StillClock, going_on

T = TypeVar("T")

TURNS = 2
"""Of each append: it ends in the phase in which it began."""
RECORDS = 3 * TURNS
"""Of each append, beside the one that begins the conversation."""
WORKERS = ("one", "one", "two")
"""Of each process the worker that it is."""


@dataclass
class Stores:
    """A store as three processes see it, and others to copy to."""

    runner: asyncio.Runner
    is_database: bool
    processes: list[Conversations]
    mirror: Conversations
    """A store of the same kind."""
    files: ConversationFolder
    numbers: Iterator[int]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)


@contextmanager
def opened(kind: str, place: Path) -> Iterator[Stores]:
    disk = Disk()
    urls = AsyncExitStack()
    with asyncio.Runner() as runner:
        try:
            if kind == "postgres":
                url = urls.enter_context(postgres.schema())
                other = urls.enter_context(postgres.schema())
                processes = [
                    runner.run(urls.enter_async_context(_connected(url, place / f"{number}", disk, worker)))
                    for number, worker in enumerate(WORKERS)
                ]
                mirror: Conversations = runner.run(
                    urls.enter_async_context(_connected(other, place / "mirror", disk, "one"))
                )
                stores: list[Conversations] = [*processes]
            else:
                stores = [ConversationFolder(place / "store", disk, StillClock()) for _ in WORKERS]
                mirror = ConversationFolder(place / "mirror", disk, StillClock())
            files = ConversationFolder(place / "files", disk, StillClock())
            yield Stores(runner, kind == "postgres", stores, mirror, files, count(1))
        finally:
            runner.run(urls.aclose())
            disk.close()


def _connected(url: str, root: Path, disk: Disk, worker: str) -> Any:
    return PostgresConversations.connected(url, root, disk, StillClock(), lease=3_600, worker=worker)


@dataclass(eq=False)
class Opened:
    """A journal that a process has open."""

    process: int
    journal: Any
    """A `Journal` that can be rotated."""


class StoreMachine(RuleBasedStateMachine):
    """One conversation, and what must be in it."""

    stores: Stores
    """Those of the test: `run_machine` sets them."""

    def __init__(self) -> None:
        super().__init__()
        self.id = ConversationId(f"{next(self.stores.numbers):064x}")
        self.decisions: list[Sequence[Record]] = []
        self.current: Opened | None = None
        """The journal that was opened last."""
        self.earlier: list[Opened] = []
        """Those that others have opened since."""
        self.is_contested = False
        """An earlier one has appended since."""
        self.tails: list[tuple[Tail, int]] = []
        self.is_renewed = False

    @property
    def records(self) -> list[Record]:
        return [record for decision in self.decisions for record in decision]

    @property
    def next_seq(self) -> int:
        return len(self.records) + 1

    @property
    def state(self) -> Conversation:
        return fold(self.id, self.records)

    def news(self, parts: int) -> list[Sequence[Record]]:
        """Decisions that may come next."""
        records = list(going_on(self.next_seq, TURNS, self.id))
        size = -(-len(records) // parts)
        return [records[start : start + size] for start in range(0, len(records), size)]

    def is_sole(self) -> bool:
        return self.current is not None and not self.is_contested

    # ---- what may happen ----

    @rule(process=st.integers(0, 2))
    def one_opens(self, process: int) -> None:
        """It gets the least that can be folded; where another worker has the conversation it is refused."""
        holder = self.current
        if self.stores.is_database and holder is not None and WORKERS[holder.process] != WORKERS[process]:
            with pytest.raises(HeldElsewhere):
                self.stores.run(self.stores.processes[process].open(self.id))
            return
        journal, records = self.stores.run(self.stores.processes[process].open(self.id))
        assert journal.next_seq == self.next_seq
        assert fold(self.id, records) == self.state
        if holder is not None and holder.process != process:
            self.earlier.append(holder)
        self.earlier = [one for one in self.earlier if one.process != process]
        self.current = Opened(process, journal)
        self.is_contested = False

    @precondition(lambda self: self.current)
    @rule(parts=st.integers(1, 3))
    def it_appends(self, parts: int) -> None:
        assert self.current is not None
        news = self.news(parts)
        if not self.is_contested:
            self.stores.run(self.current.journal.append(news))
            self.decisions += news
            return
        self.refused(self.current.journal, news)

    def refused(self, journal: Journal, news: Sequence[Sequence[Record]]) -> None:
        """What it appends is refused, now and later; that it is out of order may be noticed before."""
        first = journal.next_seq
        moved = list(going_on(first, 1, self.id))
        for decisions in (news if first == self.next_seq else [moved], [moved]):
            with pytest.raises(AppendFailed):
                self.stores.run(journal.append(decisions))

    @precondition(lambda self: self.earlier)
    @rule(which=st.integers(0, 9))
    def one_that_is_no_longer_right_appends(self, which: int) -> None:
        """It is refused. In files it may be the first to append: then the one that was opened later is refused."""
        earlier = self.earlier[which % len(self.earlier)]
        news = self.news(1)
        if self.stores.is_database or earlier.journal.next_seq != self.next_seq:
            self.refused(earlier.journal, news)
            self.earlier.remove(earlier)
            return
        try:
            self.stores.run(earlier.journal.append(news))
        except AppendFailed:
            self.earlier.remove(earlier)
        else:
            self.decisions += news
            self.is_contested = True

    @precondition(lambda self: self.is_sole())
    @rule(turns=st.integers(0, 6))
    def its_append_is_cut_off(self, turns: int) -> None:
        """It was made whole or not at all, as who opens it next sees."""
        assert self.current is not None
        news = self.news(1)
        journal = self.current.journal

        async def cut() -> None:
            task = asyncio.create_task(journal.append(news))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})

        self.stores.run(cut())
        reader = self.stores.processes[2]
        is_there = bool(self.stores.run(reader.lengths()).get(self.id))
        stored = self.stores.run(reader.read(self.id)) if is_there else []
        if len(stored) > len(self.records):
            self.decisions += news
        assert stored == self.records
        self.one_opens(self.current.process)

    @precondition(lambda self: self.is_sole() and self.decisions)
    @rule(is_of_now=st.booleans())
    def it_goes_on_after_a_snapshot(self, *, is_of_now: bool) -> None:
        assert self.current is not None
        state = self.state if is_of_now else fold(self.id, self.records[:-1])
        if state.next_seq == 1:
            return
        assert self.stores.run(self.current.journal.rotate(StateSnapshot.of(state))) is is_of_now
        if is_of_now:
            self.earlier.clear()  # they would need the lock of the folder

    @precondition(lambda self: self.current)
    @rule()
    def it_closes(self) -> None:
        assert self.current is not None
        self.stores.run(self.current.journal.close())
        with pytest.raises(AppendFailed):
            self.stores.run(self.current.journal.append(self.news(1)))
        self.current = None
        self.is_contested = False

    @precondition(lambda self: self.decisions)
    @rule(process=st.integers(0, 2), back=st.integers(0, 20))
    def one_reads(self, process: int, back: int) -> None:
        """Every record after a seq, from the newest snapshot before it on."""
        since = max(0, self.next_seq - 1 - back)
        records = self.stores.run(self.stores.processes[process].read(self.id, since))
        assert [record for record in records if record.seq > since] == self.records[since:]
        assert fold(self.id, records) == self.state

    @precondition(lambda self: self.decisions and not self.is_renewed)
    @rule(process=st.integers(0, 2), back=st.integers(0, 20))
    def one_follows(self, process: int, back: int) -> None:
        since = max(0, self.next_seq - 1 - back)
        self.tails.append((self.stores.processes[process].tail(self.id, since), since))

    @precondition(lambda self: self.tails)
    @rule(which=st.integers(0, 9))
    def who_follows_looks(self, which: int) -> None:
        tail, since = self.tails.pop(which % len(self.tails))
        assert self.stores.run(tail.read()) == self.records[since:]
        self.tails.append((tail, self.next_seq - 1))

    @precondition(lambda self: self.decisions and self.current is None and not self.is_renewed)
    @rule()
    def it_is_copied_there_and_back(self) -> None:
        """To another store, from there to files, and from those to where it was: each time to the byte."""
        source = self.stores.processes[0]
        wanted = self.stores.run(source.contents(self.id))
        for origin, target in ((source, self.stores.mirror), (self.stores.mirror, self.stores.files)):
            there = self.stores.run(target.contents(self.id))
            outcome = self.stores.run(copy_one(origin, target, self.id))
            assert outcome == ("same" if there == wanted else "copied")
            assert self.stores.run(target.contents(self.id)) == wanted
        assert self.stores.run(copy_one(self.stores.files, source, self.id)) == "same"

    @precondition(lambda self: len(self.decisions) > 1 and self.current is None)
    @rule(back=st.integers(1, 3))
    def it_gets_another_journal(self, back: int) -> None:
        """As a rebuild gives it; what it had is kept."""
        there = self.stores.processes[0]
        remains = self.stores.run(there.remains(self.id))
        ends = [end for end, decision in enumerate(self.decisions, 1) if decision[-1].seq % RECORDS == 1]
        self.decisions = self.decisions[: ends[-min(back, len(ends))]]
        aside = self.stores.run(there.renew(self.id, remains, self.decisions))
        assert sorted(path.read_bytes() for path in aside.glob("journal*.jsonl")) == sorted(remains.values())
        self.earlier.clear()
        self.tails.clear()
        self.is_renewed = True

    def teardown(self) -> None:
        """In the end all of it is there, however it is read."""
        here = self.stores.processes[2]
        if not self.decisions:
            return
        contents = self.stores.run(here.contents(self.id))
        assert sum(map(len, contents)) == self.stores.run(here.lengths())[self.id]
        assert b"".join(contents[:1]) in CONVERSATION.encode_decisions(self.decisions)
        assert self.stores.run(here.read(self.id)) == self.records
        assert fold(self.id, self.stores.run(here.read(self.id, NEWEST))) == self.state
        assert self.stores.run(verify(here, self.id)).faults == ()


def run_machine(kind: str, place: Path, how: settings) -> None:
    with opened(kind, place) as stores:
        run_state_machine_as_test(type("Machine", (StoreMachine,), {"stores": stores}), settings=how)


SHORT = settings(
    max_examples=10,
    stateful_step_count=20,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.parametrize("kind", ["files", "postgres"])
def test_a_store_holds_what_was_appended_to_it(kind: str, tmp_path: Path) -> None:
    run_machine(kind, tmp_path, SHORT)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["files", "postgres"])
def test_a_store_holds_it_in_many_other_orders(kind: str, tmp_path: Path) -> None:
    """New ones every time; one that fails is printed with the blob that shows it again."""
    many = settings(SHORT, max_examples=25, stateful_step_count=40, derandomize=False, print_blob=True)
    run_machine(kind, tmp_path, many)
