"""What is promised of a conversation, held against what its daemons left: on disk, on the relay, in the tools' notes.

Call it when the conversation has come to rest and the last daemon has stopped; who died on the way, and with what on
disk, comes from `survey`.
"""

import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tenex.core import records as r
from tenex.core.config import Replay
from tenex.core.conversation import fold
from tenex.core.effects import Work
from tenex.core.ids import ConversationId
from tenex.core.pending import pending
from tenex.core.phases import Access
from tenex.core.records import Record
from tenex.core.snapshot import StateSnapshot
from tenex.runtime.clock import SystemClock
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.index import Index
from tenex.store.journal_reader import NEWEST, peek
from tenex.store.repository import ConversationFolder
from tenex.store.verify import verify
from tenex.store.view_json import render
from tenex.workflows.phases import records as p
from tests.fakes.tools import tools_with

from . import person
from .kit import FULL_CYCLE, Folder, of_kind, phases

FILE: Final = re.compile(r"journal(-\d{6})?\.jsonl")

MESSAGES: Final = (
    "select id, m.seq, at, name, text from messages m, conversations c, words where m.conversation = c.number"
    " and words.rowid = m.number"
)
ROWS: Final = (
    "select id, bytes, seq, settled, status, place, cycle, title, started, updated from conversations",
    "select event_id, id from events join conversations on conversation = number",
    "select kind, value, id from facets join conversations on conversation = number",
    MESSAGES,
)
"""All that the index derives from journals: without its own numbers and cursors."""


READS = tools_with(Access.READ)
"""Tools that may run before it is durable that they are wanted."""


@dataclass(frozen=True, slots=True)
class Survived:
    """What a daemon that died left behind."""

    records: list[Record]
    """Those that were whole."""
    checks: int
    """How many runs of checks had been noted."""
    executions: int
    """How many runs of tools had been noted."""
    steps: int
    """How many questions to models had been noted."""


def survey(folder: Folder, name: str) -> Survived:
    """Look at what a death has left, before the next daemon starts."""
    return Survived(folder.records(name), len(checks_of(folder)), len(folder.executions()), len(steps_of(folder)))


def checks_of(folder: Folder) -> list[tuple[int, str, str, str]]:
    """(number of the record that wanted it, name, tree, pid) of each run of a check, in order."""
    try:
        lines = (folder.marks / "checks").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [(int(seq), name, tree, pid) for seq, name, tree, pid in (line.split() for line in lines)]


def steps_of(folder: Folder) -> list[tuple[str, str]]:
    """(idempotency key, pid) of every question to an agent's model, in order."""
    try:
        lines = (folder.marks / "steps").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [(key, pid) for key, pid in (line.split() for line in lines)]


async def check(
    folder: Folder,
    name: str,
    deaths: Sequence[Survived] = (),
    *,
    way: Sequence[str] = FULL_CYCLE,
    messages: Sequence[str] | None = None,
    quarrels: int = 0,
) -> None:
    """Hold everything that is promised against what there is.

    Args:
        folder: the data folder; no daemon runs on it.
        name: the conversation, which has ended.
        deaths: what each daemon that died had left, in order.
        way: the phases it has to have entered.
        messages: the ids of what people wrote; None: the first alone.
        quarrels: how many disk operations were refused; each may leave a torn tail.
    """
    records = folder.records(name)
    _check_journal(folder, name, records, deaths)
    state = fold(ConversationId(name), records)
    assert (state.cycle.status, state.delivery.outbox, pending(state)) == ("ended", {}, {})
    shown = (folder.conversation(name) / "conversation.json").read_text()
    assert shown == render(state), "the view differs from the journal"
    assert phases(folder.view(name)) == list(way)
    _check_messages(records, [name] if messages is None else messages)
    await _check_relay(folder, records)
    _check_executions(folder, name, records, deaths, quarrels)
    _check_steps(folder, name, records, deaths, quarrels)
    _check_checks(folder, records, deaths)
    _check_files(folder, name, len(deaths) + quarrels)  # first: to read the index is to make files beside it
    await _check_books(folder, name)


def _check_journal(folder: Folder, name: str, records: list[Record], deaths: Sequence[Survived]) -> None:
    whole: list[Record] = []
    for file in sorted(folder.conversation(name).glob("journal*.jsonl"), key=lambda file: (len(file.name), file.name)):
        data = file.read_bytes()
        part, length, fault = CONVERSATION.decode_lines(data)
        assert (length, fault) == (len(data), None), file
        whole.extend(record for record in part if not isinstance(record, StateSnapshot))
    assert whole == records
    newest = peek(folder.conversation(name) / "journal.jsonl", CONVERSATION, NEWEST)
    assert fold(ConversationId(name), newest) == fold(ConversationId(name), records)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    for death in deaths:
        assert records[: len(death.records)] == death.records, "what was durable has changed"


def _check_messages(records: list[Record], messages: Sequence[str]) -> None:
    """Each was taken in once, and something was sent after it."""
    wrote = of_kind(records, r.MessageRecorded)
    assert Counter(record.event_id for record in wrote) == Counter(messages)
    sent = of_kind(records, r.MessageSent)
    for record in wrote:
        assert any(word.seq > record.seq for word in sent), f"{record.event_id} was not answered"


async def _check_relay(folder: Folder, records: list[Record]) -> None:
    """What people see: exactly the messages of the journal, once each."""
    sent = [event for record in of_kind(records, r.MessageSent) for event in record.events]
    seen = await person.stored(folder.url, kinds=[1], authors=sorted(folder.public_keys))
    assert Counter(event["id"] for event in seen) == Counter(event.id for event in sent)
    assert {event["id"]: event["content"] for event in seen} == {event.id: event.content for event in sent}
    words = Counter((record.speaker, record.run, record.text) for record in of_kind(records, r.MessageSent))
    assert max(words.values()) == 1, f"sent again: {words.most_common(1)}"


def _check_executions(
    folder: Folder, name: str, records: list[Record], deaths: Sequence[Survived], quarrels: int
) -> None:
    """What tools did: what had returned is not run again, what may not be repeated is run once at most."""
    permitted = {f"{name}:{record.seq}": record for record in of_kind(records, r.ToolCallStarted)}

    def is_durable(execution: tuple[str, str, str]) -> bool:
        key, tool, _ = execution
        return key in permitted and permitted[key].tool == tool

    early = [tool for key, tool, pid in folder.executions() if not is_durable((key, tool, pid))]
    assert set(early) <= READS, "a tool ran whose intent was never durable"
    executions = [execution for execution in folder.executions() if is_durable(execution)]
    for key, record in permitted.items():
        if record.replay is not Replay.ONCE:
            assert any(key == ran for ran, _, _ in executions), f"{record.tool} was permitted and never run"
    for death in deaths:
        returned = {(record.run, record.call) for record in of_kind(death.records, r.ToolCallCompleted)}
        for key, _, _ in filter(is_durable, folder.executions()[death.executions :]):
            assert (permitted[key].run, permitted[key].call) not in returned, "a finished call ran again"
    for key, times in Counter(key for key, _, _ in executions).items():
        again = quarrels if permitted[key].tool in READS else 0  # a read that began during a refused append
        assert times <= (1 if permitted[key].replay is Replay.ONCE else 1 + len(deaths) + again)
    for (key, _), times in Counter((key, pid) for key, _, pid in executions).items():
        again = quarrels if permitted[key].tool in READS else 0
        assert times <= 1 + again, f"{permitted[key].tool} ran twice in one process"


def _check_steps(folder: Folder, name: str, records: list[Record], deaths: Sequence[Survived], quarrels: int) -> None:
    """What models were asked: a step whose answer was durable is not asked for again.

    The number of a record that was not durable may be given to another, and then the same key is another step. One that
    began during a refused append is asked for again.
    """
    steps = steps_of(folder)
    assert max(Counter(steps).values(), default=0) <= 1 + quarrels, "a step was asked for twice in one process"
    for death in deaths:
        open_then = {
            f"{name}:{key.seq}" for key in pending(fold(ConversationId(name), death.records)) if key.work is Work.MODEL
        }
        asked_before = {key for key, _ in steps[: death.steps]}
        again = {key for key, _ in steps[death.steps :]} & asked_before
        last = death.records[-1].seq if death.records else 0
        durable = {key for key in again if int(key.rpartition(":")[2]) <= last}
        assert durable <= open_then, "a finished step was asked for again"
    assert len({key for key, _ in steps}) >= len(of_kind(records, r.ModelResponded))


def _check_checks(folder: Folder, records: list[Record], deaths: Sequence[Survived]) -> None:
    """Each check has one result on a tree, and is not run again there once that is durable."""
    runs = checks_of(folder)
    results = Counter((record.result.name, record.result.tree) for record in of_kind(records, p.CheckEnded))
    assert set(results.values()) <= {1}, "a check has two results on one tree"
    assert {(name, tree) for _, name, tree, _ in runs} == results.keys(), "a check was run and has no result"
    assert max(Counter(runs).values(), default=0) <= 1, "a check was run twice in one process"
    for death in deaths:
        durable = {(one.result.name, one.result.tree) for one in of_kind(death.records, p.CheckEnded)}
        again = {(name, tree) for _, name, tree, _ in runs[death.checks :]}
        assert not again & durable, "a check ran again after its result was durable"


async def _check_books(folder: Folder, name: str) -> None:
    """The checks an operator has find nothing, and the index equals a rebuilt one."""
    conversations = folder.data / "conversations"
    disk, clock = Disk(), SystemClock()
    try:
        verdict = await verify(ConversationFolder(conversations, disk, clock), ConversationId(name))
        assert (verdict.faults, verdict.remarks) == ((), ())
        with tempfile.TemporaryDirectory() as place:
            copy = Path(place) / "conversations"
            shutil.copytree(conversations, copy, ignore=shutil.ignore_patterns("index.sqlite*"))
            index = Index(copy / "index.sqlite")
            await index.catch_up(ConversationFolder(copy, disk, clock))
            await index.close()
            assert sorted(rows(conversations / "index.sqlite")) == sorted(rows(copy / "index.sqlite"))
    finally:
        disk.close()


def rows(index: Path) -> Iterator[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{index}?mode=ro", uri=True)) as connection:
        for number, query in enumerate(ROWS):
            for row in connection.execute(query):
                yield (number, *map(str, row))


def _check_files(folder: Folder, name: str, torn: int) -> None:
    """No stray files: no half file, no lock of a program that died, no socket."""
    here = folder.data / "conversations"
    found = {path.name for path in here.iterdir()}
    assert found | {"_daemon"} == {name, "_daemon", ".lock", "index.sqlite"}, found  # a short life records no profile
    (here / "_daemon").mkdir(exist_ok=True)
    for place, files in ((here / name, {"conversation.json"}), (here / "_daemon", set[str]())):
        more = {path.name for path in place.iterdir() if not FILE.fullmatch(path.name)} - files
        assert all(other.startswith("journal.torn-") for other in more), f"stray files in {place}: {more}"
        assert len(more) <= torn
    stray = [path for path in folder.data.rglob("*") if path.suffix in (".tmp", ".lock")]
    assert not stray, f"stray files: {stray}"
    assert not (folder.data / "tenex.sock").exists()
