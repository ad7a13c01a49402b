"""What the store's tests share: a stopped clock, small records, journals, and strategies made from type hints."""

import asyncio
import dataclasses
import itertools
import os
import types
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NewType, NoReturn, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import strategies as st

from tenex.core.config import Role
from tenex.core.conversation import new_conversation
from tenex.core.cycle.records import PhaseTransition, Waiting
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, TurnId
from tenex.core.inbox.records import MessageRecorded
from tenex.core.phases import Phase
from tenex.core.records import Record
from tenex.core.router.answer import RoutingDecision
from tenex.core.router.records import RouteRequested
from tenex.core.snapshot import StateSnapshot
from tenex.core.work.records import TurnClosed, TurnOpened
from tenex.store.disk import Disk
from tenex.store.file_writer import FileWriter
from tenex.store.format import CONVERSATION, Codec
from tenex.store.index_row import Row
from tenex.store.journal import StoredJournal
from tenex.store.journal_reader import peek
from tenex.store.repository import ConversationFolder
from tests.fakes.scenario import ID, Scenario, diligent, longest_way

CONVERSATION_ID = ConversationId("c" * 64)


class StillClock:
    """A clock that is always at 2023-11-14T22:13:20Z."""

    def now(self) -> Millis:
        return Millis(1_700_000_000_000)

    async def sleep_until(self, due: Millis) -> None:
        raise NotImplementedError


def started(conversation: ConversationId = CONVERSATION_ID) -> ConversationStarted:
    return ConversationStarted(
        seq=1, at=Millis(1), id=conversation, title="a title", starter=PublicKey("a" * 64), address={}
    )


def asked(seq: int) -> RouteRequested:
    return RouteRequested(seq=seq, at=Millis(seq), attempt=1)


def closed(seq: int, summary: str = "done") -> TurnClosed:
    return TurnClosed(seq=seq, at=Millis(seq), turn_id=TurnId("turn-1"), summary=summary)


def wrote(seq: int, event_id: str, **fields: Any) -> MessageRecorded:
    """A user's message."""
    message = MessageRecorded(
        seq=seq,
        at=Millis(seq),
        event_id=EventId(event_id),
        author=PublicKey("a" * 64),
        name="Ana",
        role=Role.OWNER,
        text="hello",
        created_at=1,
    )
    return dataclasses.replace(message, **fields)


def waits(seq: int) -> Waiting:
    return Waiting(seq=seq, at=Millis(seq), reason="user")


def row(conversation: ConversationId = CONVERSATION_ID, **fields: Any) -> Row:
    """A settled conversation in the index."""
    settled = Row(
        id=conversation,
        bytes=10,
        seq=3,
        settled=True,
        status="waiting",
        place="chat",
        cycle=1,
        title="t",
        started=Millis(10),
        updated=Millis(1),
    )
    return dataclasses.replace(settled, **fields)


def encoded(*records: Record) -> bytes:
    """The lines of records, each of which is a decision."""
    return CONVERSATION.encode_decisions([[record] for record in records])


async def opened(path: Path, disk: Disk) -> StoredJournal:
    journal, _ = await opened_with(path, disk)
    return journal


async def opened_with(path: Path, disk: Disk, codec: Codec = CONVERSATION) -> tuple[StoredJournal, list[Record]]:
    """A journal in files, and the records of the newest."""
    writer, records = await FileWriter.open(path, codec, disk, StillClock())
    return StoredJournal(writer, codec, disk), records


def seqs(path: Path) -> list[int]:
    """The seqs of what is on disk."""
    return [record.seq for record in peek(path, CONVERSATION)]


async def stored(folder: ConversationFolder, conversation: ConversationId, *records: Record) -> int:
    """Append records to a conversation on disk, as one decision; the length of its journal."""
    journal, _ = await folder.open(conversation)
    await journal.append([records])
    await journal.close()
    return journal.length


class Seen(list[ConversationId]):
    """The conversations that an index reads, where it is given this to show how far it is."""

    def __call__(self, names: Sequence[ConversationId]) -> Sequence[ConversationId]:
        self.extend(names)
        return names


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def kind_of_conversation(path: Path) -> int:
    return path.stat().st_mode & 0o777


def longest_scenario() -> Scenario:
    """A conversation of all phases."""
    scenario = Scenario(longest_way, diligent)
    for text in ("I want something nice", "let us think", "plan it", "blue"):
        scenario.converse(text)
    return scenario


async def write_rotated(
    folder: ConversationFolder, decisions: Sequence[Sequence[Record]], each: float = 40
) -> StoredJournal:
    """A conversation on disk, a new file after so many records."""
    journal, _ = await folder.open(ID)
    state, since = new_conversation(ID), 0
    for decision in decisions:
        await journal.append([decision])
        for record in decision:
            state.apply(record)
        since += len(decision)
        if since >= each:
            assert await journal.rotate(StateSnapshot.of(state))
            since = 0
    return journal


def at_call(number: int, what: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
    """Do something before the system call with that number, of those that change something."""
    calls = itertools.count(1)

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **keywords: object) -> object:
            if next(calls) == number:
                what()
            return real(*arguments, **keywords)

        return call

    for name in ("mkdir", "link", "rename", "fsync", "write", "unlink", "replace", "rmdir"):
        patch.setattr(os, name, counted(getattr(os, name)))


def fails(number: int) -> Callable[..., NoReturn]:
    """A system call that fails with this error number."""

    def call(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return call


async def cancel_writing(work: Coroutine[Any, Any, None], disk: Disk) -> None:
    """Cancel work once the disk has begun to write for it, a few bytes at a time."""
    loop, writing = asyncio.get_running_loop(), asyncio.Event()

    def write(descriptor: int, data: memoryview) -> int:
        loop.call_soon_threadsafe(writing.set)
        return os.write(descriptor, data[:20])

    disk.write = write
    task = asyncio.create_task(work)
    async with asyncio.timeout(60):
        await writing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def decisions_of(*sizes: int, first: int = 1) -> list[list[Record]]:
    """Decisions of so many records each, their seqs counting up."""
    decisions: list[list[Record]] = []
    seq = first
    for size in sizes:
        decisions.append([started() if seq + part == 1 else asked(seq + part) for part in range(size)])
        seq += size
    return decisions


def going_on(first: int, turns: int, conversation: ConversationId = CONVERSATION_ID) -> Iterator[Record]:
    """The records of so many turns, each with a change of phase before it; from seq 1 on they begin a conversation."""
    seq = first
    if seq == 1:
        yield started(conversation)
        seq += 1
    ways = itertools.cycle([(Phase.CHAT, Phase.EXECUTE), (Phase.EXECUTE, Phase.CHAT)])
    for number in range(turns):
        at, (here, there) = Millis(seq), next(ways)
        yield PhaseTransition(
            seq=seq,
            at=at,
            from_=here,
            to=there,
            message=f"m{seq}",
            agent_pubkey=PublicKey("a" * 64),
            agent_name="o",
            reason="",
            summary="",
        )
        turn = TurnId(f"turn-{seq}")
        yield TurnOpened(seq=seq + 1, at=at, turn_id=turn, phase=there, agents=(), reason=f"n{number}")
        yield TurnClosed(seq=seq + 2, at=at, turn_id=turn, summary="")
        seq += 3


def _joined(text: str) -> str:
    """Two surrogates that belong together are one character to JSON; only lone ones differ."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


words = st.text(st.characters(exclude_categories=()), max_size=20).map(_joined)
"""Any text a Python string can hold, lone surrogates too."""

integers = st.integers(-(2**70), 2**70)

json_values = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type hint, as our records use them."""
    if isinstance(hint, NewType):
        return values_of(hint.__supertype__)
    plain = {str: words, int: integers, float: st.floats(allow_nan=False), Any: json_values, None: st.none()}
    if hint in plain:
        return plain[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(member) for member in arguments])
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    if origin is frozenset:
        return st.frozensets(values_of(arguments[0]), max_size=3)
    if origin in (Mapping, dict):
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, tuple):  # a named one
        return st.tuples(*map(values_of, get_type_hints(hint).values())).map(lambda parts: hint(*parts))
    return objects_of(hint) if dataclasses.is_dataclass(hint) else st.from_type(hint)


def objects_of(kind: Any, **given: Any) -> st.SearchStrategy[Any]:
    """Objects of a dataclass, some of their fields left at their defaults."""
    hints = get_type_hints(kind)
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for spec in dataclasses.fields(kind):
        if spec.name in given:
            continue
        has_default = spec.default is not dataclasses.MISSING or spec.default_factory is not dataclasses.MISSING
        (optional if has_default else required)[spec.name] = values_of(hints[spec.name])
    if kind is RoutingDecision:  # it refuses what is no decision
        required["agents"] = st.lists(words.map(lambda text: f"a{text}"), min_size=1, max_size=3).map(tuple)
        optional["phase"] = st.sampled_from([None, *map(str, Phase)])
    return st.fixed_dictionaries(required, optional=optional).map(lambda chosen: kind(**given, **chosen))
