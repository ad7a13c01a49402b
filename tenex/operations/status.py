"""The report of `tenex status`: by a daemon about itself, or from the files where none runs.

    {"state", "at", "process": {...}, "configuration": {...}, "disk": {...}, "clock": {"aheadSeconds"} or {},
     "relays": [...], "models": {...}, "refusals": [...], "background": [{"id", "conversation", "agent", ...}],
     "today": {"endsAt", "who", "state", "tokens", "costUsd", "limits", "people": [...]},
     "mcp": [{"name", "state", "why", "tools", "protocol", "starts", "losses", "calls", "failures"}],
     "web": {"state", "address", "why", "starts", "losses"}, only with `web.enabled`,
     "workers": [{"name", "state", "version", "seconds", "unseen", "conversations", "isOwn",
                   "hasWorkspace"}], with a shared store,
     "conversations": {"counts": {kind: n}, "open": [...], "waiting": [...], "suspended": [...], "quarantined": [...]}}

and the parts of features by their names. Names are spelled as in `conversation.json`; times are ISO 8601 in UTC, ages
in seconds.
"""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from tenex import __version__
from tenex.core import records as r
from tenex.core.conversation import Conversation, fold
from tenex.core.errors import TenexError, UsageError
from tenex.core.ids import ConversationId, Millis, Slug
from tenex.core.ports import Clock
from tenex.core.projection import is_settled, undelivered
from tenex.core.totals.costs import DAY, worker_of
from tenex.nostr.keys import npub
from tenex.nostr.pool import RelayPool
from tenex.nostr.relay import RelayStatus
from tenex.runtime.daily_limits import DayUse
from tenex.runtime.lifecycle import Runtime
from tenex.settings import ProjectPaths
from tenex.store.conversations import Conversations, Worker
from tenex.store.index import Index
from tenex.store.index_row import Row
from tenex.store.repository import NEWEST
from tenex.store.view_json import iso

from .conversation_status import conversation_status, status_with_usage
from .stored_conversations import LastRead, StoredConversations, settled_views

LISTED: Final = 100
"""Conversations listed of those that are open: more would not be read, and the counts cover all."""
WAITING: Final = 10
"""Conversations listed of those that wait for a user: the newest; `tenex conversations list` shows all."""
NEAR: Final = 0.8
"""Used share of a limit of the day from which users are listed as near it."""
DISK_LOW: Final = 0.05
"""Free share of a disk below which it is low."""
DISK_LOW_BYTES: Final = 1 << 30


def service_status(runtime: Runtime, pool: RelayPool) -> str:
    """A daemon's state in one line, for the service manager."""
    if runtime.inbox.is_closed:
        return "stopping in stages"
    actors = list(runtime.coordinator)
    active = sum(actor.conversation is not None and not is_settled(actor.conversation) for actor in actors)
    suspended = sum(actor.is_suspended for actor in actors)
    relays = pool.status()
    up = sum(relay.serves for relay in relays)
    parts = [f"conversations active: {active}", f"relays connected: {up} of {len(relays)}"]
    return ", ".join([*parts, *([f"suspended: {suspended}"] if suspended else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """The result of the last reload of the configuration."""

    at: Millis
    faults: tuple[str, ...] = ()
    """Why it was refused; then the configuration before it is still in force."""
    needs_restart: tuple[str, ...] = ()


@dataclass(kw_only=True, eq=False)
class Reporter:
    """Reports the state of a daemon; observes its records for failures, which no state holds."""

    places: ProjectPaths
    runtime: Runtime
    pool: RelayPool
    folder: Conversations
    index: Index
    clock: Clock
    address: str
    models: Callable[[], Sequence[Mapping[str, Any]]]
    """The providers."""
    reloaded: Callable[[], Reloaded | None]
    disabled: Callable[[], Mapping[Slug, tuple[str, ...]]]
    """The workflows that are disabled, with their faults."""
    disabled_agents: Callable[[], Mapping[Slug, tuple[str, ...]]]
    own_tools: Callable[[], Sequence[Mapping[str, Any]]]
    """The files and packages that bring tools, and what was left out of them."""
    offers: Callable[[], Mapping[str, Any]] = dict
    """Whom a new message may go to by name, and the models to choose from."""
    tools_left_out: Callable[[], Sequence[str]] = tuple
    """A sentence for each tool and skill that was left out."""
    today: Callable[[], Sequence[DayUse]]
    background: Callable[[], Sequence[Mapping[str, Any]]] = tuple
    """The programs of agents that go on after their calls."""
    mcp: Callable[[], Sequence[Mapping[str, Any]]] = tuple
    """The MCP servers, each with its state."""
    parts: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    """What features report, by its name."""
    web: Callable[[], Mapping[str, Any] | None] = lambda: None
    """The process of the pages; None where the daemon starts none."""

    def __post_init__(self) -> None:
        self._started_at = self.clock.now()
        self._failure: dict[str, Any] = {}
        """The last model call that failed, as it is reported."""
        self._refused: dict[str, dict[str, Any]] = {}
        """By the relay how many events it refused, or did not take in time, since the start, and the last of them."""
        self._stored = StoredConversations(self.folder)
        self._disk = LastRead()

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> None:
        """Remember the last model call that failed, and events refused or given up (`core.ports.Observer`)."""
        for record in records:
            if isinstance(record, r.Delivered) and not record.accepted and record.again is None:
                refusal = next((one for one in conversation.delivery.refusals if one.event == record.refused), None)
                who = f"{refusal.name}: " if refusal is not None and refusal.name else ""
                self._note_refusal(conversation, record, record.relay, f"{who}{record.detail}")
            if isinstance(record, r.OutboxExpired):
                reached = f"{record.accepted} of {record.accepted + len(record.relays)} relays"
                for relay in record.relays:
                    self._note_refusal(conversation, record, relay, f"no answer, given up; the message is on {reached}")
            if isinstance(record, r.RetryScheduled) and not record.limit:
                self._failure = {
                    "at": iso(record.at),
                    "conversation": conversation.id,
                    "who": worker_of(record.run),
                    "why": record.message,
                }

    def _note_refusal(self, conversation: Conversation, record: r.Record, relay: str, reason: str) -> None:
        self._refused[relay] = {
            "relay": relay,
            "count": 1 + self._refused.get(relay, {}).get("count", 0),
            "at": iso(record.at),
            "conversation": conversation.id,
            "reason": reason,
        }

    async def status(self, _request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Everything that the module's docstring shows; answers `{"do": "status"}`."""
        now = self.clock.now()
        conversations, undelivered_to = await self._conversations(now)
        pages = self.web()
        return {
            "state": "stopping" if self.runtime.inbox.is_closed else "running",
            "at": iso(now),
            "process": {
                "pid": os.getpid(),
                "version": __version__,
                "startedAt": iso(self._started_at),
                "seconds": max(0, now - self._started_at) // 1000,
                "address": self.address,
            },
            "configuration": self._configuration(),
            "disk": await self._disk_status(),
            "clock": {} if (ahead := self.pool.clock_ahead) is None else {"aheadSeconds": round(ahead)},
            "relays": [_relay(status, undelivered_to) for status in self.pool.status()],
            "refusals": list(self._refused.values()),
            "models": {
                "providers": [dict(provider) for provider in self.models()],
                "held": conversations["counts"].get("held", 0),
                **({"lastFailure": self._failure} if self._failure else {}),
            },
            "today": spending(self.today(), now),
            "background": [dict(command) for command in self.background()],
            "mcp": [dict(server) for server in self.mcp()],
            **{name: read() for name, read in self.parts.items()},
            **({"web": dict(pages)} if pages is not None else {}),
            **_workers(await self._disk.read("workers", self.folder.workers, ())),
            "conversations": conversations,
        }

    async def conversation(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """One conversation's status with its usage; answers `{"do": "conversation", "id": ...}`.

        Raises:
            UsageError: there is no such conversation.
            StoreError: it cannot be read.
        """
        name = ConversationId(str(asked.get("id")))
        state = self.runtime.coordinator.conversation(name)
        if state is None:
            if name not in await self.folder.lengths():
                raise UsageError(f"There is no conversation {name[:70]}.")
            state = fold(name, await self.folder.read(name, NEWEST))
        return status_with_usage(state, self.clock.now())

    def left_out(self) -> list[str]:
        """A sentence for each tool, skill or MCP server of the configuration that cannot be used."""
        servers = [
            server["why"] if server["state"] == "refused" else f"mcp.servers.{server['name']}: {server['why']}"
            for server in self.mcp()
            if server["state"] in ("refused", "waiting")
        ]
        return list(dict.fromkeys([*self.tools_left_out(), *servers]))

    async def _disk_status(self) -> dict[str, Any]:
        read = partial(asyncio.to_thread, disk, self.places.conversations)
        status: dict[str, Any] = await self._disk.read("disk", read, {})
        fault = self._disk.fault
        return {"fault": fault} if fault else status  # an old value would look as if all were well

    def _configuration(self) -> dict[str, Any]:
        shown = folders(self.places)
        last = self.reloaded()
        if last is not None:
            shown |= {"readAgainAt": iso(last.at), "refused": list(last.faults), "needsRestart": [*last.needs_restart]}
        if faults := self.disabled():
            shown["disabledWorkflows"] = {slug: list(sentences) for slug, sentences in faults.items()}
        if faults := self.disabled_agents():
            shown["disabledAgents"] = {slug: list(sentences) for slug, sentences in faults.items()}
        if offers := self.offers():
            shown["offers"] = dict(offers)
        if tools := self.own_tools():
            shown["ownTools"] = [dict(source) for source in tools]
        return shown

    async def _conversations(self, now: Millis) -> tuple[dict[str, Any], Counter[str]]:
        """Those in memory as they are, the others from the index; and how many events are undelivered to each relay."""
        known: list[Row] = await self._disk.read("index", partial(self.index.rows), [])
        marks: Mapping[ConversationId, str] = await self._disk.read("marks", self.folder.quarantined, {})
        rows = {row.id: row for row in known}
        found = _ByKind(marks)
        for actor in self.runtime.coordinator:
            if actor.is_suspended:  # it has no state until its journal is read again
                found.add_suspended({"id": actor.id, "since": iso(actor.suspended_since), "why": actor.suspended_why})
                rows.pop(actor.id, None)
            elif actor.conversation is not None:
                found.add(actor.conversation, now)
                rows.pop(actor.id, None)
        unsettled = [row.id for row in rows.values() if not row.settled and row.id not in marks]
        lengths = {name: rows[name].bytes for name in unsettled[:LISTED]}
        unfinished: list[Conversation] = await self._disk.read("stored", lambda: self._stored.read(lengths), [])
        for conversation in unfinished:
            if conversation.id not in rows:  # it was opened while it was being read
                continue
            found.add(conversation, now)
            rows.pop(conversation.id, None)
        for row in rows.values():
            if row.id not in marks:
                mark = {"imported": True} if row.imported else {}
                found.add_settled(
                    {"id": row.id, "status": row.status, "title": row.title, **mark, "updatedAt": iso(row.updated)}
                )
        return found.shown(), found.undelivered_to


class _ByKind:
    """The conversations of a report, by kind."""

    def __init__(self, quarantined: Mapping[ConversationId, str]) -> None:
        self.quarantined = dict(quarantined)
        self.counts: Counter[str] = Counter()
        self.open: list[dict[str, Any]] = []
        self.waiting: list[dict[str, Any]] = []
        self.suspended: list[dict[str, Any]] = []
        self.undelivered_to: Counter[str] = Counter()

    def add_suspended(self, shown: dict[str, Any]) -> None:
        self.counts["suspended"] += 1
        self.suspended.append(shown)

    def add(self, conversation: Conversation, now: Millis) -> None:
        shown = conversation_status(conversation, now)
        self.counts[shown["kind"]] += 1
        self.undelivered_to.update(undelivered(conversation))
        if not is_settled(conversation):
            self.open.append(shown)
        elif shown["status"] == "waiting":
            self.waiting.append(shown)

    def add_settled(self, shown: dict[str, Any]) -> None:
        self.counts[shown["status"]] += 1
        if shown["status"] == "waiting":
            self.waiting.append(shown)

    def shown(self) -> dict[str, Any]:
        """The report, the newest first."""
        counts = self.counts + Counter(quarantined=len(self.quarantined))
        return {
            "counts": dict(sorted(counts.items())),
            "open": sorted(self.open, key=_updated, reverse=True)[:LISTED],
            "waiting": sorted(self.waiting, key=_updated, reverse=True)[:WAITING],
            "suspended": self.suspended,
            "quarantined": [{"id": name, "why": why} for name, why in self.quarantined.items()],
        }


async def report_from_files(places: ProjectPaths, folder: Conversations, now: Millis) -> dict[str, Any]:
    """The report where no daemon runs.

    Where the view is newer than the journal and shows nothing open, the journal is not read: that takes ten times as
    long.
    """
    found = _ByKind(await folder.quarantined())
    behind = set(await folder.behind())
    settled = await asyncio.to_thread(settled_views, [folder.path(name) for name in await folder.lengths()])
    for name in await folder.lengths():
        shown = settled.get(name) if name not in behind else None
        if name in found.quarantined:
            continue
        if shown is not None:
            found.add_settled(shown)
            continue
        try:
            found.add(fold(name, await folder.read(name, NEWEST)), now)
        except (TenexError, ValueError, LookupError) as fault:
            found.quarantined[name] = str(fault)
    return {
        "state": "stopped",
        "at": iso(now),
        "configuration": folders(places),
        "disk": await asyncio.to_thread(disk, places.conversations),
        "undelivered": dict(found.undelivered_to),
        **_workers(await folder.workers()),
        "conversations": found.shown(),
    }


def _workers(workers: Sequence[Worker]) -> dict[str, Any]:
    """The daemons of a shared store; nothing for a store of one."""
    return {"workers": [worker_json(worker) for worker in workers]} if workers else {}


def worker_json(worker: Worker) -> dict[str, Any]:
    """A daemon of a shared store."""
    return {
        "name": worker.name,
        "state": "silent" if worker.is_silent else "draining" if worker.drains else "running",
        "version": worker.version,
        "seconds": worker.seconds,
        "unseen": worker.unseen,
        "conversations": worker.conversations,
        "isOwn": worker.is_own,
        "hasWorkspace": worker.has_workspace,
    }


def spending(uses: Sequence[DayUse], now: Millis) -> dict[str, Any]:
    """The costs of the day, and the users who are near or at a limit of it."""
    shown = [_use(use) for use in uses]
    return {
        "endsAt": iso(Millis((now // DAY + 1) * DAY)),
        **(shown[0] if shown else {}),
        "people": [use for use in shown[1:] if use["state"] != "below"],
    }


def _use(use: DayUse) -> dict[str, Any]:
    state = "reached" if use.share >= 1 else "near" if use.share >= NEAR else "below"
    return {
        "who": use.who,
        **({"npub": npub(use.person)} if use.person is not None else {}),
        "state": state,
        "tokens": use.used.tokens,
        "costUsd": use.used.cost_usd,
        "limits": {bound.name: bound.most for bound in use.bounds},
    }


def folders(places: ProjectPaths) -> dict[str, Any]:
    """The paths of settings and data."""
    return {"data": str(places.data), "file": str(places.config) if places.config else None}


def disk(folder: Path) -> dict[str, Any]:
    """The free space of the conversations' disk; blocks."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError as fault:
        return {"fault": f"{folder}: {fault.strerror}"}
    is_low = usage.free < min(DISK_LOW * usage.total, DISK_LOW_BYTES)
    return {"freeBytes": usage.free, "totalBytes": usage.total, "isLow": is_low}


def _at(seconds: float | None) -> str | None:
    return None if seconds is None else iso(Millis(int(seconds * 1000)))


def _relay(status: RelayStatus, undelivered_to: Mapping[str, int]) -> dict[str, Any]:
    return {
        "url": status.url,
        "state": "connected" if status.serves else "unresponsive" if status.connected else "away",
        "connected": status.connected,
        "unresponsiveSince": _at(status.unresponsive_since),
        "lastReceived": _at(status.last_received),
        "fault": status.fault,
        "refused": list(status.refused),
        "strikes": status.strikes,
        "undelivered": undelivered_to.get(status.url, 0),
        "counters": dict(status.counters),
    }


def _updated(shown: Mapping[str, Any]) -> str:
    return str(shown["updatedAt"])
