"""Makes a conversation's journal anew: from its readable file, from its relays, from the file of an older program.

    what tells of it -> Past -> records -> store.renewal

Needs the folder's lock; nothing is asked of a model, and nothing is published.
"""

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import structlog

from tenex.configuration.agents import PROJECT, load_agents, read_library
from tenex.core.config import Policy
from tenex.core.conversation import Conversation, fold
from tenex.core.errors import AppendFailed, ConfigurationError, RelayUnavailable, StoreDamaged, StoreError, UsageError
from tenex.core.ids import ConversationId, Millis, PublicKey, Slug
from tenex.core.ports import Clock
from tenex.core.records import ConversationImported, JournalRebuilt, MessageRecorded, MessageSent, Record, RunStarted
from tenex.core.state.snapshot import StateSnapshot
from tenex.nostr.events import Event
from tenex.nostr.filters import Filter
from tenex.nostr.keys import KeyRing, SecretKey, parse_public_key
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import METADATA, name_in
from tenex.nostr.subscriptions import KINDS
from tenex.settings import ProjectPaths, Settings
from tenex.store.atomic_folder import create, put_back, received_events, renew, stamp
from tenex.store.disk import Disk
from tenex.store.journal_reader import VIEW
from tenex.store.recovered_history import RecoveredHistory, decisions_of
from tenex.store.repository import NEWEST, ConversationFolder
from tenex.store.verify import contradictions
from tenex.store.view import Views
from tenex.store.view_reader import past_of_view, read_view

from .prompt_preview import at_a_glance
from .recovered_workflows import guided, is_guided
from .thread_import import Cast, past_of_thread, read_history

log = structlog.get_logger(__name__)

PATIENCE: Final = 15.0
"""Seconds a relay has to be there, and again for each page of what it keeps."""
PAGES: Final = 400
"""Of one filter: twenty times a long conversation, at what relays give to a page."""
OWNER: Final = "owner"
"""The key of the person who runs this; the others in that folder are ours."""

Source = Literal["conversation.json", "relay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildResult:
    """A journal that was made anew."""

    id: ConversationId
    records: int
    messages: int
    turns: int
    lost: Sequence[str]
    aside: Path | None
    """Where the damaged files are."""


class Recovery:
    """What a folder of conversations, its keys and its relays can still tell."""

    def __init__(
        self, settings: Settings, where: ProjectPaths, folder: ConversationFolder, disk: Disk, clock: Clock
    ) -> None:
        self._settings = settings
        self._where = where
        self._folder = folder
        self._disk = disk
        self._clock = clock

    async def rebuild(self, conversation: ConversationId, source: Source, *, force: bool = False) -> RebuildResult:
        """Give a conversation whose journal is damaged or gone a new one.

        Raises:
            UsageError: its journal is whole, or can be gone on with, and `force` was not given; or nobody knows that
                conversation.
            StoreDamaged: the readable file cannot be read either.
            RelayUnavailable: none of the relays answered.
            StoreError: the disk did not take it.
        """
        path = self._folder.path(conversation)
        await self._disk.run(put_back, path)
        if not force and (why := await self._why_not(conversation)):
            raise UsageError(f"{why} `--force` replaces it all the same; it is kept beside.")
        if source == "relay":
            past = await self._from_relays(conversation)
        else:
            if not path.exists():
                raise UsageError(
                    f"There is no conversation {conversation} in {self._folder.root}. `tenex conversations list` shows "
                    "them; where its whole folder is lost, `--from relay` regains what the relays keep."
                )
            try:
                view = await self._disk.run(read_view, path / VIEW)
            except StoreDamaged as fault:
                raise StoreDamaged(
                    f"{fault} `tenex conversations rebuild {conversation} --from relay` needs no file."
                ) from fault
            past = past_of_view(view, conversation, VIEW, None)
            if is_guided(view):
                past = guided(past, view, await self._rules())
        seen = await self._disk.run(received_events, path, past.covered)
        if source != "relay" and not seen:
            past = replace(past, lost=[*past.lost, "the ids of older messages: relays may bring some of them again"])
        past = replace(past, seen=seen, address=past.address or _thread_of(conversation))
        decisions = decisions_of(past, self._clock.now())
        aside = await self._disk.run(renew, path, decisions, stamp(self._clock.now()))
        return _made(past, decisions, aside)

    async def take_in(self, file: Path, conversation: ConversationId) -> RebuildResult:
        """Make a conversation of an older program's file, which stays as it is.

        Raises:
            StoreDamaged: it holds no conversation, or another one.
            StoreError: the conversation is here already, or the disk did not take it.
        """
        view = await self._disk.run(read_view, file)
        cast = await self._disk.run(cast_of, self._settings, self._where)
        past = past_of_old_file(view, conversation, file.name, cast)
        decisions = decisions_of(past, self._clock.now())
        await self._disk.run(create, self._folder.path(conversation), decisions)
        made = _made(past, decisions, None)
        try:
            await Views(self._folder, self._disk).show(fold(past.id, _flat(decisions)))
        except OSError as fault:  # the next start writes it
            log.warning("view.failed", conversation=past.id, reason=str(fault))
        return made

    async def _why_not(self, conversation: ConversationId) -> str:
        """Why a journal needs no other in its place; empty where it cannot be gone on with."""
        damage = ""
        for since in (0, NEWEST):
            try:
                records = await self._folder.read(conversation, since)
            except UsageError:
                return ""
            except StoreError as fault:
                damage = damage or str(fault)
                continue
            if not records or any(contradictions(conversation, records)):
                return ""
            if damage:
                return (
                    f"{damage} Only the past is lost with that: a daemon goes on from the newest file, which is whole."
                )
            return (
                f"The journal of {conversation} is whole ({len(records)} records), and holds more than can be regained."
            )
        return ""

    async def _rules(self) -> Policy | None:
        """What is configured now; None where that is faulty, which is no reason to lose a conversation."""
        try:
            library = await asyncio.to_thread(load_agents, self._where)
            return (await at_a_glance(self._settings, self._where, library)).rules
        except ConfigurationError as fault:
            log.warning("configuration.faulty", reason=str(fault))
            return None

    async def _from_relays(self, conversation: ConversationId) -> RecoveredHistory:
        cast = cast_of(self._settings, self._where)
        identity = KeyRing(self._where.keys).get(PROJECT)
        urls = self._settings.relays.urls
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
                lost.append(f"what else {url} keeps: it did not hand out all of it; once it does, rebuild with --force")
            for event in found:
                events.setdefault(event.id, (event, url))
        return past_of_thread(conversation, events.values(), replace(cast, names={**names, **cast.names}), lost)


def _made(past: RecoveredHistory, decisions: Sequence[Sequence[Record]], aside: Path | None) -> RebuildResult:
    records = _flat(decisions)
    messages = sum(isinstance(record, MessageRecorded) for record in records)
    return RebuildResult(
        id=past.id, records=len(records), messages=messages, turns=len(past.turns), lost=past.lost, aside=aside
    )


def _flat(decisions: Sequence[Sequence[Record]]) -> list[Record]:
    return [record for decision in decisions for record in decision]


class LegacyImport:
    """`<id>.json` beside the conversations' folders: conversations of an older program, taken in when they go on."""

    def __init__(
        self, folder: ConversationFolder, regaining: Recovery, heard: Callable[[Conversation, Sequence[Record]], object]
    ) -> None:
        """Look beside the folders.

        Args:
            folder: where they are.
            regaining: makes the journals.
            heard: takes what was made, as if it had just been heard; for the index.
        """
        self._folder = folder
        self._regaining = regaining
        self._heard = heard

    def has(self, conversation: ConversationId) -> bool:
        """Whether an old file waits to be taken in."""
        return self._file(conversation).is_file()

    async def take_in(self, conversation: ConversationId) -> None:
        """Make a journal of the old file, if there is one and no folder yet; the file then lies in the folder.

        Raises:
            StoreDamaged: it holds no conversation, or another one; nothing was changed.
            AppendFailed: the disk did not take it, or cannot be read now, or what agents there are; try again.
        """
        file, path = self._file(conversation), self._folder.path(conversation)
        if not file.is_file() or path.exists():
            return
        try:
            taken = await self._regaining.take_in(file, conversation)
        except StoreDamaged as fault:
            if not isinstance(fault.__cause__, OSError):
                raise
            raise AppendFailed(f"{file} cannot be taken in now: {fault}") from fault
        # neither a full disk nor an agent's file that is being edited is damage, and nobody is to be told that it is
        except (OSError, StoreError, ConfigurationError) as fault:
            raise AppendFailed(f"{file} cannot be taken in now: {fault}") from fault
        log.info("conversation.taken_in", conversation=conversation, file=str(file), messages=taken.messages)
        with suppress(OSError):  # where it is left, nobody looks at it again
            file.rename(path / file.name)
        records = await self._folder.read(conversation)
        self._heard(fold(conversation, records), records)

    def _file(self, conversation: ConversationId) -> Path:
        return self._folder.root / f"{conversation}.json"


class LegacyImportJournals(ConversationFolder):
    """A folder as commands read it: the files of an older program count as the conversations they would be taken in as.

    Nothing is written.
    """

    def __init__(self, root: Path, disk: Disk, clock: Clock, cast: Callable[[], Cast]) -> None:
        """Look into a folder; `cast` is asked only where there is such a file."""
        super().__init__(root, disk, clock)
        self._cast = cast

    async def lengths(self) -> dict[ConversationId, int]:
        """As that of the folder, and each such file with its bytes."""
        return {**await asyncio.to_thread(self._old_files), **await super().lengths()}

    async def read(self, conversation: ConversationId, since: int = 0) -> list[Record]:
        """As that of the folder; of such a file always everything."""
        records = await asyncio.to_thread(self._records, conversation)
        return await super().read(conversation, since) if records is None else records

    async def read_left(self, conversation: ConversationId) -> tuple[list[Record], str]:
        """As that of the folder."""
        records = await asyncio.to_thread(self._records, conversation)
        return await super().read_left(conversation) if records is None else (records, "")

    def _old_files(self) -> dict[ConversationId, int]:
        found = {}
        for file in self.root.glob("*.json"):
            with suppress(OSError, UsageError):
                if not self.path(name := ConversationId(file.stem)).exists():
                    found[name] = file.stat().st_size
        return found

    def _records(self, conversation: ConversationId) -> list[Record] | None:
        path = self.path(conversation)
        file = path.with_name(f"{path.name}.json")
        if path.exists() or not file.is_file():
            return None
        try:
            past = past_of_old_file(read_view(file), conversation, file.name, self._cast())
            written = Millis(int(file.stat().st_mtime * 1000))
        except (OSError, ConfigurationError) as fault:
            raise UsageError(f"{file} cannot be read: {fault}") from fault
        return _flat(decisions_of(past, written))


def comes_from_elsewhere(records: Sequence[Record], ours: Container[PublicKey]) -> bool:
    """Whether all that spoke or worked in a journal were keys of somebody else: its folder was copied to here."""
    if any(isinstance(record, ConversationImported | JournalRebuilt) for record in records):
        return False
    keys: set[PublicKey] = set()
    for record in records:
        match record:
            case MessageSent(speaker=key) | RunStarted(pubkey=key):
                keys.add(key)
            case StateSnapshot(state=state):
                keys |= {run.pubkey for run in state.runs.values()}
                keys |= {event.pubkey for row in state.outbox.values() for event in row.events}
            case _:
                pass
    return bool(keys) and not any(key in ours for key in keys)


def past_of_old_file(view: Mapping[str, Any], conversation: ConversationId, name: str, cast: Cast) -> RecoveredHistory:
    """What the file of an older program tells; answers go to the thread its first event began.

    Raises:
        StoreDamaged: it is of another conversation.
    """
    history = view.get("history")
    messages, phases, lost, address = read_history(history if isinstance(history, list) else [], cast)
    past = past_of_view(view, conversation, name, lambda _: (messages, phases, lost))
    found = past.address or address or _thread_of(conversation)
    return replace(past, address={**found, "relays": []})  # what is sent goes to no relay that only a file names


def _thread_of(conversation: ConversationId) -> dict[str, Any]:
    """The address of a thread of which only the id is known, as the form `threads` writes it."""
    return {
        "form": "threads",
        "root": conversation,
        "root_kind": 11,
        "root_author": "",
        "root_relay": "",
        "relays": [],
        "scope": [["E", conversation], ["K", "11"]],
    }


def cast_of(settings: Settings, where: ProjectPaths) -> Cast:
    """Who is who, by the keys and agents of this folder.

    Raises:
        ConfigurationError: the project has no key, or what is there cannot be read.
    """
    ring = KeyRing(where.keys)
    keys = {name: ring.get(name).public for name in ring.names() if name != OWNER}
    project = ring.get(PROJECT).public
    library = read_library(where.agents, code_refusal=where.code_refusal)
    known = {definition.slug: definition.name for definition in library.roster}
    agents = {key: Slug(name) for name, key in keys.items() if name != PROJECT}
    names = {key: known[slug] for key, slug in agents.items() if slug in known} | {project: settings.project.name}
    return Cast(project=project, agents=agents, circle=settings.peer_group(parse_public_key), names=names)


async def _thread_on(
    url: str, conversation: ConversationId, cast: Cast, identity: SecretKey
) -> tuple[list[Event], dict[PublicKey, str], bool] | None:
    """What a relay keeps of a thread, what those who wrote call themselves, and whether that is all it keeps.

    None where it does not answer, or hands out nothing.
    """
    pool = RelayPool([url], on_event=lambda *_: None, identity=identity)
    running = asyncio.create_task(pool.run(), name=f"relay {url}")
    try:
        await pool.connected(PATIENCE)
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
        people = sorted({event.pubkey for event in found.values()} - {cast.project, *cast.agents})
        profiles = await pool.fetch([{"kinds": [METADATA], "authors": people}], PATIENCE) if people else []
        names = {profile.pubkey: name for profile in reversed(profiles) if (name := name_in(profile))}
    except RelayUnavailable:
        return None
    finally:
        running.cancel()
        await asyncio.wait([running])
    return list(found.values()), names, all(whole)


async def _page(pool: RelayPool, wanted: Filter, found: dict[str, Event]) -> bool:
    """Read what a filter matches, the newest first, until a page brings nothing new; whether that is all of it."""
    unread: list[str] = []
    known: set[str] = set()  # of this filter: what another one found says nothing about the next page
    page = wanted
    for _ in range(PAGES):
        events = await pool.fetch([page], PATIENCE, unread)
        found.update((event.id, event) for event in events)
        if unread or known.issuperset(event.id for event in events):
            return not unread
        known.update(event.id for event in events)
        page = {**wanted, "until": min(event.created_at for event in events)}
    return False
