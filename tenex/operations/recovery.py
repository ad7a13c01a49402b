"""Rebuilds a conversation's journal from what is left of it and a source of messages, or imports an older file.

    good records + messages of later lines, conversation.json, a file or relays -> records -> the store

Needs the folder's lock; no model is asked, and nothing is published. In a database a conversation that another worker
writes is refused. (ADR 12 and 29.)
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from tenex.configuration.agents import PROJECT, former_keys
from tenex.core.conversation import fold
from tenex.core.cycle.records import CycleStarted, Ended
from tenex.core.delivery.records import MessageSent
from tenex.core.errors import RelayUnavailable, StoreDamaged, StoreError, StoreOtherVersion, UsageError
from tenex.core.functions.undecided import EvaluationRequested
from tenex.core.history.state import HistoryRecovered, MessagePlace
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, Slug
from tenex.core.inbox.records import CommandGiven, MessageRecorded
from tenex.core.people.trust import room_of
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.ports import Clock
from tenex.core.records import ConversationImported, JournalRebuilt, Record
from tenex.core.state import State
from tenex.log import get_logger
from tenex.nostr.events import Event
from tenex.nostr.filters import Filter
from tenex.nostr.keys import Key, KeyRing
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import METADATA, name_in
from tenex.nostr.threading import KINDS, read_event
from tenex.settings import ProjectPaths, Settings
from tenex.store.atomic_folder import as_one_decision
from tenex.store.conversations import Conversations
from tenex.store.disk import Disk
from tenex.store.index_reader import indexed_events, is_import, is_private, open_catalogue
from tenex.store.journal_reader import VIEW, covered_by
from tenex.store.repository import NEWEST
from tenex.store.salvage import MessageRecord, Salvaged, salvage
from tenex.store.verify import contradictions
from tenex.store.view import Views
from tenex.store.view_reader import read_view
from tenex.workflows.missions.state import mission_of
from tenex.workflows.speakers.state import session_of

from .imports import comes_from_elsewhere, import_record, thread_address
from .message_sources import (
    Participants,
    RecoveredMessages,
    gates_at,
    messages_of_thread,
    messages_of_view,
    participants_of,
)
from .view_entries import history_records, newer_transitions

log = get_logger(__name__)

RELAY_TIMEOUT: Final = 15.0
"""Seconds to connect to a relay, and again for each page of its events."""
PAGES: Final = 400
"""Of one filter: twenty times a long conversation, at the page size of common relays."""
LOST_WITHOUT_RECORDS: Final = (
    "the phases and turns, which agents worked together, and why: old files and relays show only the messages",
    "what agents were shown, which tools they called and what those returned; what it cost",
)
LOST_WITH_TRANSITIONS: Final = (
    "turns, runs, tool calls, decisions and costs: the old readable file, which is kept, shows what they were",
    "waivers, approvals and met gates of an open cycle: a file cannot give them",
)
LOST_PARTS: Final = {
    "workflow": "the workflow and its variables: the conversation continues in phases; begin a new thread to run it",
    "mission": "the mission and its steps: the conversation continues in phases; begin a new thread to run it",
    "agent_states": "the own phases of agents: they start from their first phase",
}

Source = Literal["conversation.json", "relay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildResult:
    """A journal that was rebuilt or made of a file."""

    id: ConversationId
    records: int
    messages: int
    """Those of users."""
    waiting: int
    """Those of them that the next start decides, because no agent has answered."""
    lost: Sequence[str]
    aside: Path | None = None
    """Where the damaged files are."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Rebuilds journals from what a store, the keys of its folder and its relays still have."""

    settings: Settings
    where: ProjectPaths
    folder: Conversations
    disk: Disk
    clock: Clock

    async def rebuild(self, conversation: ConversationId, source: Source, *, force: bool = False) -> RebuildResult:
        """Replace the journal of a conversation by its good records and the messages that a source adds.

        With `force`, a rebuild from relays uses no record of the journal.

        Raises:
            UsageError: the journal is whole, or can be continued, and `force` was not given; or there is no such
                conversation, or the id is that of another event in its thread.
            StoreDamaged: neither the journal nor the readable file can be read.
            RelayUnavailable: no relay answered.
            StoreError: the store did not take it.
            HeldElsewhere: another worker writes it.
        """
        path = self.folder.path(conversation)
        remains = await self.folder.remains(conversation)
        if not force and (why := await self._why_not(conversation)):
            raise UsageError(f"{why} `--force` replaces it all the same; it is kept beside.")
        left = await self.disk.run(salvage, conversation, remains)
        if source == "relay":
            if await self._is_private(conversation, left):
                raise UsageError(
                    f"{conversation} was held in direct messages, of which relays have nothing that can be read. "
                    f"`tenex conversations rebuild {conversation} --from conversation.json` takes what the file has."
                )
            found = await self._from_relays(conversation)
            if force:
                left = Salvaged(turns=left.turns)
            if not left.records and not any(isinstance(one, MessageRecorded) for one in found.messages):
                raise UsageError(
                    f"No relay that answered has a message of conversation {conversation} by a user who may write "
                    "here. The id is that of the event that began it, in full."
                )
        else:
            if not remains and not path.exists():
                raise UsageError(
                    f"There is no conversation {conversation} in {self.folder.place}. `tenex conversations list` shows "
                    "them; where its whole folder is lost, `--from relay` recovers what the relays keep."
                )
            try:
                view = await self.disk.run(read_view, path / VIEW)
                found = messages_of_view(view, conversation, VIEW)
            except StoreDamaged as fault:
                if not left.records:
                    raise StoreDamaged(
                        f"{fault} `tenex conversations rebuild {conversation} --from relay` needs no file."
                    ) from fault
                found = RecoveredMessages(source=source, messages=(), lost=[str(fault)])
        known = await self.disk.run(indexed_events, path)
        ours = await self.disk.run(former_keys, KeyRing(*self.where.key_folders), (), ())
        is_copy = bool(ours) and comes_from_elsewhere(left.records, ours)
        if is_copy or await self.disk.run(is_import, path):
            found = replace(found, is_import=True)
        found = await self._without_others(conversation, found)
        records, lost = rebuilt_records(conversation, left, found, known, self.clock.now(), found.agent)
        whole = left.records and not any(isinstance(record, ConversationImported) for record in records)
        decisions = [[record] for record in records] if whole else as_one_decision(records)
        aside = await self.folder.renew(conversation, remains, decisions)
        return _result(conversation, records, lost, aside)

    async def import_file(self, file: Path, conversation: ConversationId) -> RebuildResult:
        """Make a conversation of an older program's file, which moves into its folder if it is beside that.

        Raises:
            StoreDamaged: it holds no conversation, or another one.
            StoreError: the conversation is here already, its id is that of a message here, or the store did not take
                it.
        """
        await self.refuse_message_id(conversation)
        view = await self.disk.run(read_view, file)
        cast = await self.disk.run(participants_of, self.settings, self.where)
        found = messages_of_view(view, conversation, file.name, cast)
        found = await self._without_others(conversation, found)
        agent = Slug(self.settings.conversations.agent)
        records, lost = rebuilt_records(conversation, Salvaged(), found, (), self.clock.now(), agent)
        path = self.folder.path(conversation)
        await self.folder.create(conversation, as_one_decision(records))
        try:
            await Views(self.folder, self.disk).show(fold(conversation, records))
        except OSError as fault:  # the next start writes it
            log.warning("view.failed", conversation=conversation, reason=str(fault))
        if file.parent.resolve() == path.parent.resolve():
            with suppress(OSError):  # a file that is left there is not read again
                await asyncio.to_thread(file.rename, path / file.name)
        return _result(conversation, records, lost, None)

    async def refuse_message_id(self, conversation: ConversationId) -> None:
        """Refuse an import under the id of a message of another conversation.

        Raises:
            StoreError: there is such a message.
        """
        other = (await self._owners([conversation])).get(conversation, conversation)
        if other != conversation:
            raise StoreError(
                f"{conversation} is a message of the conversation {other} here, so none can be imported under that id. "
                "Nothing was changed."
            )

    async def _owners(self, events: Iterable[str]) -> Mapping[str, ConversationId]:
        async with open_catalogue(self.folder) as catalogue:
            return await catalogue.owners(events)

    async def _is_private(self, conversation: ConversationId, left: Salvaged) -> bool:
        """Whether it was held in direct messages, by its journal or the index: no relay is to learn its id."""
        begun = (record for record in left.records if isinstance(record, ConversationStarted))
        if any(room_of(record.address) for record in begun):
            return True
        return await self.disk.run(is_private, self.folder.path(conversation))

    async def _without_others(self, conversation: ConversationId, found: RecoveredMessages) -> RecoveredMessages:
        """What a source has, without the messages that another conversation has received or sent here."""
        ids = {event for message in found.messages for event in _event_ids(message)}
        ids |= {place.event for place in found.places.values() if place.event}
        owners = await self._owners(ids)
        others = {event for event, owner in owners.items() if owner != conversation}
        places = {key: replace(p, event=None) if p.event in others else p for key, p in found.places.items()}
        found = replace(found, places=places)
        kept = [message for message in found.messages if others.isdisjoint(_event_ids(message))]
        if len(kept) == len(found.messages):
            return found
        gone = f"messages that belong to other conversations here: {len(found.messages) - len(kept)}"
        unanswered = [one for one in found.unanswered if one.message.event_id not in others]
        return replace(found, messages=kept, unanswered=unanswered, lost=[*found.lost, gone])

    async def _why_not(self, conversation: ConversationId) -> str:
        """Why a journal needs no rebuild; empty where it cannot be continued."""
        damage = ""
        for since in (0, NEWEST):
            try:
                records = await self.folder.read(conversation, since)
            except UsageError:
                return ""
            except StoreOtherVersion as fault:
                return f"{fault} A rebuild would lose what this version cannot read."
            except StoreError as fault:
                damage = damage or str(fault)
                continue
            if not records or any(contradictions(conversation, records)):
                return ""
            if damage:
                return f"{damage} Only the past is lost: a daemon continues from the newest file, which is whole."
            return (
                f"The journal of {conversation} is whole ({len(records)} records), and has more than can be recovered."
            )
        return ""

    async def _from_relays(self, conversation: ConversationId) -> RecoveredMessages:
        cast = participants_of(self.settings, self.where)
        identity = KeyRing(*self.where.key_folders).read(PROJECT)
        urls = self.settings.relays.urls
        answers = await asyncio.gather(*(_thread_on(url, conversation, cast, identity) for url in urls))
        if all(answer is None for answer in answers):
            raise RelayUnavailable(f"None of the relays answered: {', '.join(urls)}. Look at `relays.urls`; try again.")
        events: dict[str, tuple[Event, str]] = {}
        names: dict[PublicKey, str] = {}
        lost: list[str] = []
        for url, answer in zip(urls, answers, strict=True):
            if answer is None:
                lost.append(f"what only {url} keeps: it did not answer")
                continue
            found, named, is_whole = answer
            names |= named
            if not is_whole:
                lost.append(f"what else {url} keeps: it did not send all of it; once it does, rebuild with --force")
            for event in found:
                events.setdefault(event.id, (event, url))
        if conversation in events:
            event, relay = events[conversation]
            inbound = read_event(event, (), {}, relay, None)
            if inbound is not None and inbound.conversation != conversation:
                raise UsageError(
                    f"The event {conversation} began no conversation; it is part of {inbound.conversation}. "
                    "Nothing was changed. Give that id."
                )
        return messages_of_thread(conversation, events.values(), replace(cast, names={**names, **cast.names}), lost)


def _losses(left: Salvaged, found: RecoveredMessages, state: State, *, has_transitions: bool) -> list[str]:
    """What neither the good records nor the other source have, in words."""
    without_records = LOST_WITH_TRANSITIONS if has_transitions else LOST_WITHOUT_RECORDS
    lost = [*left.damage, *(() if left.records else without_records), *found.lost]
    kept = {"workflow": session_of(state), "mission": mission_of(state), "agent_states": state.memory.agent_states}
    lost += [LOST_PARTS[part] for part in found.parts if not kept[part]]
    turn = state.work.turn
    has_ended = found.has_ended and found.cycle >= state.cycle.number
    if left.records and turn is not None and not has_ended and turn.turn_id not in found.ended_turns:
        lost.append("the work in the open turn: it counts as stopped")
    return lost


def _withdrawals(left: Salvaged) -> Iterator[Record]:
    """The withdrawals of messages that are left."""
    kept = {record.seq for record in left.records}
    return (withdrawn for withdrawn in left.withdrawn if withdrawn.message in kept)


def rebuilt_records(
    conversation: ConversationId,
    left: Salvaged,
    found: RecoveredMessages,
    known: Sequence[EventId],
    now: Millis,
    agent: Slug = Slug(""),  # noqa: B008 - it is a string
) -> tuple[list[Record], list[str]]:
    """The records of the new journal, and what is lost, in sentences.

    A source shows which cycle it is and whether that is over. That a gate of an open cycle was met or waived only the
    good records prove: where one is open after them, or by the source, all are. What consists of a file alone is an
    import, and so is what was one before the damage.

    Args:
        conversation: its id.
        left: what can be read of the old journal.
        found: what another source has.
        known: ids of received messages, which are not to be received again.
        now: the time of the rebuild.
        agent: the agent that answers alone where this is an import: by the settings, or by this folder's own file.
    """
    records = [*left.records]
    if not records:
        started = min((message.at for message in found.messages), default=now)
        author = next((one.author for one in found.messages if not isinstance(one, MessageSent)), "")
        first = ConversationStarted(
            seq=1,
            at=started,
            id=conversation,
            title=found.title or "Untitled",
            starter=PublicKey(author or found.address.get("root_author") or ""),
            address=found.address or thread_address(conversation),
            agent=found.agent,
        )
        records.append(first)
    state = fold(conversation, records)
    past = newer_transitions(found.transitions, left.records, state)
    lost = _losses(left, found, state, has_transitions=bool(past))
    if not left.records and not known and found.source == VIEW:
        lost.append("the ids of older messages: relays may send some of them again")

    def add(record: Record) -> None:
        records.append(replace(record, seq=state.next_seq))
        state.apply(records[-1])

    newer = _newer(left, found.messages, state)
    handled = state.identity.seen.keys() | _answered_after_damage(left) | left.deleted
    expired = {one.message.event_id for one in found.unanswered if one.message.has_expired(now)}
    unanswered = [one for one in found.unanswered if one.message.event_id not in handled | expired]
    waiting = {one.message.event_id for one in unanswered}
    newer = [one for one in newer if isinstance(one, MessageSent) or one.event_id not in waiting | expired]
    is_open = bool(found.open_gates or (found.phase and gates_at(found.phase)))
    is_open = is_open or (found.cycle <= state.cycle.number and bool(state.unmet_gates))
    open_gates = QUALITY_PHASES if is_open and not found.has_ended else ()  # a cycle that is over has none
    is_position_known = found.phase is not None and (bool(newer) or not left.records)
    for record in history_records(past, found.source, state.identity.updated_at):
        add(record)
    if is_position_known and found.cycle > state.cycle.number:
        at = newer[0].at if newer else now
        phase = Phase.CHAT if state.has_phases else Phase.EXECUTE
        add(CycleStarted(seq=0, at=at, cycle=found.cycle, reason=f"as in {found.source}", phase=phase))
    for message in newer:
        add(replace(message, relays=()) if isinstance(message, MessageSent) else message)
    for withdrawn in _withdrawals(left):
        add(withdrawn)
    if places := tuple(_places(records, found)):
        add(HistoryRecovered(seq=0, at=state.identity.updated_at, source=found.source, places=places))
    add(
        JournalRebuilt(
            seq=0,
            at=now,
            source=found.source,
            missing=tuple(lost),
            known_events=tuple(one for one in dict.fromkeys((EventId(conversation), *known)) if one not in waiting),
            turns=max(left.turns, found.turns),
            phase=found.phase if is_position_known and state.has_phases else None,
            open_gates=open_gates if is_position_known else (),
        )
    )
    is_file_alone = not left.records and found.source != "relay"
    if is_position_known and found.has_ended:
        add(Ended(seq=0, at=now, reason=": ".join(filter(None, [f"as in {found.source}", found.status_reason]))))
    if is_file_alone or (not state.identity.imported and (left.has_import or found.is_import)):
        add(import_record(state, agent, now))
    for signal in unanswered:  # decided at the next start
        add(EvaluationRequested(seq=0, at=now, signal=signal))
    return records, lost


def lost_end(
    conversation: ConversationId, records: Sequence[Record], view: Path, now: Millis, agent: Slug
) -> list[Record]:
    """The records that bring back what agents have said after the end of a journal, by the readable file; blocks.

    A journal that was restored from an older copy ends before what people have read. Without these records their
    messages, which relays send again, would be answered again. Messages after the last answer are left out: they are
    received again, and answered then.

    Args:
        conversation: its id.
        records: what is left of it, perhaps beginning with a snapshot; empty where the whole journal is lost.
        view: the path of the readable file, which may be missing.
        now: the time.
        agent: the agent that answers alone, by the settings.

    Returns:
        The records to append as one decision; none where the file shows no answer that the journal lacks.
    """
    last = records[-1].seq if records else 0
    try:
        if covered_by(view) <= last:
            return []
        found = messages_of_view(read_view(view), conversation, VIEW)
    except OSError:
        return []
    except StoreDamaged as fault:
        log.warning("journal.end_not_recovered", conversation=conversation, reason=str(fault))
        return []
    left = Salvaged(records=list(records))
    newer = _newer(left, found.messages, fold(conversation, records))
    answers = [message.at for message in newer if isinstance(message, MessageSent)]
    if not answers:
        return []
    answered = [message for message in found.messages if message.at <= max(answers)]
    kept, _ = rebuilt_records(conversation, left, replace(found, messages=answered), (), now, agent)
    return [record for record in kept if record.seq > last]


def _places(records: Sequence[Record], found: RecoveredMessages) -> Iterator[MessagePlace]:
    """Cycle and turn of the newest messages that the source adds."""
    for record in records:
        if isinstance(record, MessageRecorded | MessageSent) and (record.at, record.text) in found.places:
            yield replace(found.places[record.at, record.text], message=record.seq)


def _answered_after_damage(left: Salvaged) -> set[str]:
    """The ids of users' messages after the damage that an agent answered there; relays may not have the answer yet."""
    answered: set[str] = set()
    waiting: list[str] = []
    for one in left.messages:
        if isinstance(one, MessageRecorded):
            waiting.append(one.event_id)
        elif isinstance(one, MessageSent) and one.purpose in ("completion", "question"):
            answered.update(waiting)
    return answered


def _newer(left: Salvaged, messages: Sequence[MessageRecord], state: State) -> list[MessageRecord]:
    """The messages that the good records do not have, oldest first.

    An agent's message has no event id in a readable file, so time and text identify it as well. Relays know the second
    only.
    """
    known: set[object] = {
        *left.deleted,
        *state.identity.seen,
        *(pair for one in state.memory.recent for pair in ((one.at, one.text),)),
    }
    for record in left.records:
        known.update(_identities(record))
    found: list[MessageRecord] = []
    oldest = state.memory.recent[0].at // 1000 if state.memory.recent else 0
    for message in sorted((*left.messages, *messages), key=lambda one: one.at):
        identities = _identities(message)
        if known.isdisjoint(identities) and message.at // 1000 >= oldest:
            found.append(message)
        known.update(identities)
    return found


def _event_ids(record: MessageRecord) -> list[str]:
    if isinstance(record, MessageSent):
        return [event.id for event in record.events]
    return [record.event_id] if record.event_id else []


def _identities(record: Record) -> list[object]:
    match record:
        case MessageSent():
            return [*(event.id for event in record.events), (record.at, record.text)]
        case MessageRecorded() | CommandGiven() if record.event_id:
            return [record.event_id]
        case MessageRecorded():
            return [(record.at, record.text)]
    return []


def _result(
    conversation: ConversationId, records: Sequence[Record], lost: Sequence[str], aside: Path | None
) -> RebuildResult:
    waiting = len(fold(conversation, records).work.undecided)
    messages = waiting + sum(isinstance(record, MessageRecorded) for record in records)
    return RebuildResult(
        id=conversation, records=len(records), messages=messages, waiting=waiting, lost=lost, aside=aside
    )


def legacy_file(folder: Path) -> Path | None:
    """The `<id>.json` of an older program that was not imported into a conversation's folder."""
    file = folder.with_name(f"{folder.name}.json")
    return file if not folder.exists() and file.is_file() else None


async def _thread_on(
    url: str, conversation: ConversationId, cast: Participants, identity: Key
) -> tuple[list[Event], dict[PublicKey, str], bool] | None:
    """The events of a thread on a relay, the names of their authors, and whether that is all it keeps.

    None where it does not answer, or sends nothing.
    """
    pool = RelayPool([url], on_event=lambda *_: None, identity=identity)
    running = asyncio.create_task(pool.run(), name=f"relay {url}")
    try:
        await pool.connected(RELAY_TIMEOUT)
        found: dict[str, Event] = {}
        whole = [
            await _page(pool, wanted, found)
            for wanted in (
                {"ids": [conversation]},
                {"kinds": list(KINDS), "#e": [conversation]},
                {"kinds": [1111], "#E": [conversation]},
            )
        ]
        if not found and not all(whole):
            return None
        users = sorted({event.pubkey for event in found.values()} - cast.keys)
        profiles = await pool.fetch([{"kinds": [METADATA], "authors": users}], RELAY_TIMEOUT) if users else []
        names = {profile.pubkey: name for profile in reversed(profiles) if (name := name_in(profile))}
    except RelayUnavailable:
        return None
    finally:
        running.cancel()
        await asyncio.wait([running])
    return list(found.values()), names, all(whole)


async def _page(pool: RelayPool, wanted: Filter, found: dict[str, Event]) -> bool:
    """Read all events that match a filter, the newest first, until a page has nothing new; whether that was all."""
    unread: list[str] = []
    known: set[str] = set()  # of this filter: the events of another one must not end its pages
    page = wanted
    for _ in range(PAGES):
        events = await pool.fetch([page], RELAY_TIMEOUT, unread)
        found.update((event.id, event) for event in events)
        if unread or known.issuperset(event.id for event in events):
            return not unread
        known.update(event.id for event in events)
        page = {**wanted, "until": min(event.created_at for event in events)}
    return False
