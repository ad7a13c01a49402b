"""Runs a conversation through the seven phases in the process that asks, without a daemon and without relays.

    result = await run_phases("Create hello.py that prints hello", data="project", model=model)

The agents, their tools, the router, the gates and the checks are the daemon's, built from a data folder as a daemon
builds them. Nothing is published, so a tool that would ask a person whether it may run is refused.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from tenex.configuration.agents import PROJECT
from tenex.configuration.build import Configuration, StaticContext, configure
from tenex.core.config import PeerGroup, Role
from tenex.core.conversation import Conversation
from tenex.core.delivery.records import UNDER_WAY
from tenex.core.errors import ModelUnavailable, UsageError
from tenex.core.ids import ConversationId, EventId, PublicKey, Slug
from tenex.core.ports import Model
from tenex.core.projection.activity import is_idle
from tenex.core.records import MessageRecorded, MessageSent, PhaseTransition, Record
from tenex.core.signals import InboundMessage, MessageReceived, Signal
from tenex.nostr.keys import KeyRing
from tenex.runtime.clock import SystemClock
from tenex.settings import load, resolve_paths
from tenex.settings.paths import path_of
from tenex.store.daemon_journal import DaemonJournal
from tenex.store.disk import Disk
from tenex.store.lock import FolderLock
from tenex.store.repository import ConversationFolder
from tenex.store.view import Views
from tenex.tools.sandbox import probe_bubblewrap
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace
from tenex.workflows.kit.local_run import CALLER, LocalRun, check_given, check_message
from tenex.workflows.speakers.config import PERSON
from tenex.workflows.speakers.runner import Spoken

from .mission_folder import FolderJournals

OWNER = "owner"
"""The name of the key in whose name the caller writes; `tenex chat` makes it under the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasesResult:
    """Where a conversation is once its work rests."""

    status: str
    """`ended`, or `waiting` for the caller's next message."""
    phase: str
    messages: tuple[Spoken, ...]
    """What was said in this run, oldest first; changes of phase are in `transitions`."""
    transitions: tuple[PhaseTransition, ...]
    """All changes of phase, oldest first, each with its reason; of a long conversation the newest."""
    conversation: Conversation
    """The whole state."""
    thread: str
    """The name by which a later run goes on with this conversation."""

    @property
    def final_output(self) -> str:
        """The last words of an agent or of the project; "" where none has spoken."""
        return next((message.text for message in reversed(self.messages) if message.speaker != PERSON), "")


async def run_phases(
    message: str | None,
    *,
    data: Path | str,
    model: Model | None = None,
    workspace: Path | str | None = None,
    thread: str | None = None,
) -> PhasesResult:
    """Give a request to the project's agents and wait until the work has ended or waits for an answer.

    Args:
        message: what begins the conversation, or the answer to what it waits for; None only goes on with open work.
        data: the data folder: `tenex.toml`, `agents`, keys and `conversations`. It is made if missing, and locked.
        model: answers for the router and all agents, in place of the models of the settings.
        workspace: the folder in which the agents work, in place of that of the settings.
        thread: the name of the conversation in this folder; without one each run is a conversation of its own.

    Raises:
        UsageError: an argument is wrong, or nothing was asked and nothing is open.
        ConfigurationError: with all faults of settings, agents and models.
        StoreLocked: a daemon, or another run, holds the folder.
        ModelUnavailable: a model cannot be reached; run it again with the same thread to go on.
    """
    check_given(model=model, thread=thread)
    check_message(message)
    name = thread or uuid4().hex
    async with _opened(path_of(data, "`data` of run_phases"), workspace, model) as (journals, built, static):
        said = _Said({agent.pubkey: slug for slug, agent in built.policy.roster.items()})
        caller = static.ring.get_or_create(OWNER).public
        run = _PhasesRun(
            ConversationId(hashlib.sha256(f"phases\n{name}".encode()).hexdigest()),
            journals,
            built.policy,
            SystemClock(),
            model=built.model,
            tools=built.tools,
            prompter=built.prompter,
            budget=lambda: built.settings.models.context_tokens,
            people=PeerGroup(owners=frozenset({caller})),
            checks=built.checks,
            observers=[said, static.background, *([static.views] if static.views is not None else [])],
        )
        state = await run.talk(message, caller)
    return PhasesResult(
        status=state.cycle.status,
        phase=state.cycle.phase,
        messages=tuple(said.messages),
        transitions=state.history.transitions if state.history is not None else (),
        conversation=state,
        thread=name,
    )


@asynccontextmanager
async def _opened(
    data: Path, workspace: Path | str | None, model: Model | None
) -> AsyncIterator[tuple[FolderJournals, Configuration, StaticContext]]:
    """A data folder, opened for one run as a daemon opens it."""
    overrides: dict[str, Any] = {}
    if workspace is not None:
        overrides["paths"] = {"workspace": str(path_of(workspace, "`workspace` of run_phases").absolute())}
    places = resolve_paths(load(None, data, overrides=overrides))
    for path in (places.conversations, places.workspace, places.keys):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    ring = KeyRing(*places.key_folders)
    ring.get_or_create(PROJECT)
    settings = load(None, data, overrides={**overrides, "people": {"owners": [ring.get_or_create(OWNER).npub]}})
    disk = Disk()
    clock = SystemClock()
    with FolderLock(places.conversations):
        folder = ConversationFolder(places.conversations, disk, clock)
        book = await DaemonJournal.begin(folder.daemon_records(), clock)
        work = Workspace(places.workspace)
        views = TurnViews(places.views, work)
        await asyncio.to_thread(views.clear)
        static = StaticContext(
            places=places,
            ring=ring,
            book=book,
            workspace=work,
            has_sandbox=await asyncio.to_thread(probe_bubblewrap),
            model=model,
            views=views,
        )
        try:
            yield FolderJournals(folder, Views(folder, disk)), configure(settings, static), static
        finally:
            await static.background.close()
            await views.close()
            await book.close()
            await folder.close()
            disk.close()


class _Said:
    """Collects what is said; `core.ports.Observer`."""

    def __init__(self, slugs: Mapping[PublicKey, Slug]) -> None:
        self.messages: list[Spoken] = []
        self._slugs = slugs

    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:
        """Take the messages of one append."""
        del conversation
        for record in records:
            if isinstance(record, MessageRecorded):
                self.messages.append(Spoken(PERSON, record.text))
            elif isinstance(record, MessageSent) and record.is_published and record.purpose not in UNDER_WAY:
                self.messages.append(Spoken(str(self._slugs.get(record.speaker, record.name)), record.text))


class _PhasesRun(LocalRun):
    """One conversation in phases, run until its work rests."""

    async def talk(self, text: str | None, caller: PublicKey) -> Conversation:
        """Say something, or go on where the journal ends, and wait until the work rests."""
        self._text = text
        self._caller = caller
        state = await self.run_to_rest()
        held = next((run.retry for run in state.work.runs.values() if run.is_held and run.retry is not None), None)
        question = state.router.question
        if held is None and question is not None and question.retry is not None:
            held = question.retry
        if held is not None:
            raise ModelUnavailable(held.message, needs_operator=held.needs_operator)
        if not state.cycle.number:
            raise UsageError("Nothing was asked, and nothing is open to go on with.")
        return state

    def _begin(self, state: Conversation) -> Iterator[Signal]:
        if self._text is None:
            return
        message = InboundMessage(
            event_id=EventId(hashlib.sha256(f"{state.id}\n{state.next_seq}".encode()).hexdigest()),
            author=self._caller,
            text=self._text,
            created_at=self._clock.now() // 1000,
            conversation=state.id,
            starts=True,
        )
        yield MessageReceived(message=message, role=Role.OWNER, name=CALLER)

    def _is_active(self, state: Conversation) -> bool:
        question = state.router.question
        is_router_held = question is not None and question.retry is not None and question.retry.on_hold
        return bool(state.cycle.number) and not is_idle(state) and not is_router_held
