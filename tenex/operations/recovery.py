"""Rebuilds a conversation's journal from its readable file, its relays, or the file of an older program.

    source -> RecoveredHistory -> records -> store.atomic_folder

Needs the folder's lock; no model is asked, and nothing is published.
"""

import asyncio
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import structlog

from tenex.configuration.agents import PROJECT, load_agents, read_library
from tenex.core.config import Policy
from tenex.core.conversation import fold
from tenex.core.errors import ConfigurationError, RelayUnavailable, StoreDamaged, StoreError, UsageError
from tenex.core.ids import ConversationId, PublicKey, Slug
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

from .prompt_preview import load_readonly
from .recovered_workflows import guided, is_guided
from .thread_import import Cast, past_of_thread, read_history

log = structlog.get_logger(__name__)

PATIENCE: Final = 15.0
"""Seconds a relay has to be there, and again for each page of what it keeps."""
PAGES: Final = 400
"""Of one filter: twenty times a long conversation, at what relays give to a page."""
OWNER: Final = "owner"
"""The operator's key; the others in that folder are the daemon's."""

Source = Literal["conversation.json", "relay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildResult:
    """A journal that was rebuilt."""

    id: ConversationId
    records: int
    messages: int
    turns: int
    lost: Sequence[str]
    aside: Path | None
    """Where the damaged files are."""


class Recovery:
    """Rebuilds journals from what a folder, its keys and its relays still have."""

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
            UsageError: its journal is whole, or can be continued, and `force` was not given; or there is no such
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
                    "them; where its whole folder is lost, `--from relay` recovers what the relays keep."
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

    async def import_file(self, file: Path, conversation: ConversationId) -> RebuildResult:
        """Make a conversation of an older program's file, which moves into its folder if it is beside that.

        Raises:
            StoreDamaged: it holds no conversation, or another one.
            StoreError: the conversation is here already, or the disk did not take it.
        """
        view = await self._disk.run(read_view, file)
        cast = await self._disk.run(cast_of, self._settings, self._where)
        past = past_of_old_file(view, conversation, file.name, cast)
        decisions = decisions_of(past, self._clock.now())
        path = self._folder.path(conversation)
        await self._disk.run(create, path, decisions)
        if file.parent.resolve() == path.parent.resolve():
            with suppress(OSError):  # a file that is left there is not read again
                await asyncio.to_thread(file.rename, path / file.name)
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
                f"The journal of {conversation} is whole ({len(records)} records), and has more than can be recovered."
            )
        return ""

    async def _rules(self) -> Policy | None:
        """What is configured now; None where that is faulty, which is no reason to lose a conversation."""
        try:
            library = await asyncio.to_thread(load_agents, self._where)
            return (await load_readonly(self._settings, self._where, library)).rules
        except ConfigurationError as fault:
            log.warning("configuration.invalid", reason=str(fault))
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


def legacy_file(folder: Path) -> Path | None:
    """The `<id>.json` of an older program that was not imported into a conversation's folder."""
    file = folder.with_name(f"{folder.name}.json")
    return file if not folder.exists() and file.is_file() else None


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
    """The history in the file of an older program; answers go to the thread its first event began.

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
    known: set[str] = set()  # of this filter: what another one found has no bearing on the next page
    page = wanted
    for _ in range(PAGES):
        events = await pool.fetch([page], PATIENCE, unread)
        found.update((event.id, event) for event in events)
        if unread or known.issuperset(event.id for event in events):
            return not unread
        known.update(event.id for event in events)
        page = {**wanted, "until": min(event.created_at for event in events)}
    return False
