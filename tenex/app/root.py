"""The composition root: the one place that knows every part, in the order in which they are assembled.

settings -> folders -> store -> configuration -> relays -> runtime -> control
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from tenex.configuration.agents import former_keys
from tenex.configuration.build import StaticContext, check_people, configure, reconfigure, shadow_of
from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.costs import DAY
from tenex.core.errors import ConfigurationError, StoreDamaged
from tenex.core.ids import ConversationId, Millis, PublicKey
from tenex.core.ports import Journal, Model, Observer
from tenex.core.records import ConversationImported, Record
from tenex.core.state.conversation import SPENDING_DAYS
from tenex.llm.scripted import Pace
from tenex.nostr.compose import NostrSealer
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import PROFILE_KINDS
from tenex.nostr.publisher import Publisher
from tenex.nostr.subscriptions import KINDS, Listener
from tenex.operations.recovery import comes_from_elsewhere, legacy_file
from tenex.operations.rollback import ForkResult, RollbackService
from tenex.operations.status import Reporter
from tenex.runtime.clock import SystemClock
from tenex.runtime.coordinator import ConversationCoordinator
from tenex.runtime.daily_limits import DailyLimits
from tenex.runtime.dependencies import ActorDependencies
from tenex.runtime.executors import Executors
from tenex.runtime.inbox import Inbox
from tenex.runtime.lifecycle import Runtime, TaskFactory
from tenex.runtime.outbox import Outbox
from tenex.service.control import control_socket
from tenex.settings import ProjectPaths, Settings, check_paths, resolve_paths
from tenex.store.daemon_journal import DaemonJournal
from tenex.store.disk import Disk
from tenex.store.index import Index, Shown
from tenex.store.index_row import News, summarise
from tenex.store.lock import FolderLock
from tenex.store.repository import ConversationFolder
from tenex.store.search import Filter
from tenex.store.view import Views
from tenex.tools.sandbox import probe_bubblewrap
from tenex.tools.workspace import Workspace
from tenex.workflows.functions import FunctionCalls

from .activity import Activity
from .agent_calls import Asker
from .control import Awaited, orders
from .index_updater import IndexUpdater, keep_cursors, last_heard, oldest_new
from .live_configuration import LiveConfiguration
from .profile_publisher import ProfileAnnouncer
from .reload import Reloading
from .telemetry import make_meter, open_port, open_spans
from .thought_stream import Thoughts
from .typing_indicators import TypingIndicators, project_status


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A daemon that is put together and holds its folder, ready to serve."""

    places: ProjectPaths
    current: LiveConfiguration
    runtime: Runtime
    pool: RelayPool
    names: Mapping[PublicKey, str]
    """The names of users, as far as relays know them."""
    reload: Callable[[], Awaitable[list[str]]]
    """Reads settings and agents again; returns what of the change needs a restart.

    A `ConfigurationError` holds every fault, and then the old configuration stays as it is.
    """
    _unfinished: Sequence[ConversationId]
    _services: Mapping[str, Callable[[], Any]]

    @property
    def rules(self) -> Policy:
        """Who works here, and under which rules."""
        return self.current.now.rules

    @property
    def project(self) -> SecretKey:
        """The key users write to."""
        return self.current.now.project

    async def serve(self, ready: Callable[[], Awaitable[None]] | None = None) -> bool:
        """Serve until `runtime.stop`; returns whether everything ended within the deadline."""
        return await self.runtime.serve(self._services, self._unfinished, ready)


@asynccontextmanager
async def open_application(
    settings: Settings,
    *,
    model: Model | None = None,
    observers: Sequence[Observer] = (),
    pace: Pace | None = None,
    lines_dropped: Callable[[], int] = int,
    shown: Shown = iter,
) -> AsyncIterator[Application]:
    """Put a daemon together; on leaving, every file is closed and the folder's lock is released.

    Args:
        settings: what the operator set.
        model: a model to use in place of the configured ones; it is not trusted like the offline model.
        observers: receive what becomes durable.
        pace: slows the offline model down, for a demonstration.
        lines_dropped: how many lines of the log were dropped.
        shown: shows how far the reading of journals is, where the index has to be rebuilt.

    Raises:
        ConfigurationError: with all faults of settings, prompts, agents, models and keys.
        StoreLocked: another daemon holds the folder.
    """
    clock, spawn = SystemClock(), TaskFactory()
    async with AsyncExitStack() as stack:
        # folders; none is made for a daemon that cannot start in it
        check_paths(settings)
        where = resolve_paths(settings)
        ring = KeyRing(where.keys)
        check_people(settings, ring)
        _make_folders(where)

        # store
        stack.enter_context(FolderLock(where.conversations))
        meter = make_meter(settings, lambda: pool, lambda: coordinator, lines_dropped, lambda: daily.today()[0].used)
        disk = Disk(timed=meter.timed if meter else None)
        stack.callback(disk.close)
        folder = ConversationFolder(where.conversations, disk, clock)
        stack.push_async_callback(folder.close)
        index = Index(where.conversations / "index.sqlite")
        stack.push_async_callback(index.close)
        daemon_journal = await DaemonJournal.begin(where.conversations, disk, clock)
        stack.push_async_callback(daemon_journal.close)

        # what a reload replaces: users, agents, tools, prompts, models
        thoughts = Thoughts()
        static = StaticContext(
            places=where,
            ring=ring,
            book=daemon_journal,
            workspace=Workspace(where.workspace),
            model=model,
            pace=pace,
            on_progress=thoughts.hear,
            has_sandbox=await asyncio.to_thread(probe_bubblewrap),
            ask=lambda question: asker(question),  # noqa: PLW0108 it is made below
        )
        first = configure(settings, static)
        current = LiveConfiguration(first)
        stack.push_async_callback(current.close)

        # relays
        urls = settings.relays.urls
        pool = RelayPool(
            urls,
            on_event=lambda event, relay: None if profiles_sync.on_event(event) else listener.on_event(event, relay),
            is_seen=index.has_event,
            identity=first.project,
            is_wanted=lambda author: author not in voices and inbox.knows(author),
        )
        voices = former_keys(ring, first.keys, first.everybody)
        voices |= {key.public: key for key in first.keys.values()}
        publisher, sealer = Publisher(pool, voices, KINDS), NostrSealer(urls)
        profiles = Publisher(pool, voices, PROFILE_KINDS)
        profiles_sync = ProfileAnnouncer(pool, profiles, daemon_journal, clock, urls, first.identities, first.everybody)
        indicators = TypingIndicators(
            pool,
            voices,
            sealer,
            clock,
            speaker=first.project.public,
            status=lambda: project_status(current.now),
            mode=settings.relays.typing_indicators,
            relays=urls,
        )

        # runtime
        daily = DailyLimits(clock, lambda: current.now.rules.limits, lambda: current.now.people, current.quote)
        asker = Asker(
            model=current,
            tools=current,
            prompter=current,
            rules=current.rules,
            clock=clock,
            budget=lambda: current.now.settings.models.context_tokens,
        )
        stages = Executors(
            clock=clock,
            model=current,
            tools=current,
            prompter=current,
            missions=current,
            outbox=Outbox(publisher),
            rules=current.rules,
            on_text=indicators.on_text,
            budget=lambda: current.now.settings.models.context_tokens,
            daily=daily,
            functions=FunctionCalls(),
        )
        listening: list[Observer] = [daily, indicators, Activity(thoughts, clock), *observers]
        listening += [*([meter] if meter else []), *open_spans(stack, settings)]
        around = ActorDependencies(
            journals=_Journals(folder, Views(folder, disk), index, voices),
            executors=stages,
            sealer=sealer,
            notices=daemon_journal,
            prompter=current,
            clock=clock,
            rules=current.rules,
            spawn=spawn,
            observers=listening,
        )
        coordinator = ConversationCoordinator(around)
        inbox = Inbox(
            coordinator,
            _Directory(folder, index),
            first.people,
            clock,
            names=profiles_sync.names,
            slugs=first.named,
            workflows=first.workflows,
            oldest=lambda message: oldest_new(index, clock, message),
        )
        listener = Listener(pool, list(voices), first.slugs, None, inbox.receive, people=first.everybody)
        index_updater = IndexUpdater(folder, index, daemon_journal, listener, first.rules.project.slug, spawn)
        listening.append(index_updater)
        unfinished = dict.fromkeys([*await index.catch_up(folder, shown), *await folder.behind()])
        known = await index.rows(limit=500)
        for row in await index.rows(Filter(since=Millis(clock.now() - SPENDING_DAYS * DAY))):
            daily.load(row.id, row.spending)
        profiles_sync.start()
        listener.start(await last_heard(index, folder, urls, clock), [row.id for row in reversed(known)])

        # control
        async def reload_configuration() -> list[str]:
            changed, needs_restart = await asyncio.to_thread(reconfigure, current.now, static)
            current.change(changed)
            voices.update({key.public: key for key in changed.keys.values()})
            inbox.change(changed.people, changed.named, changed.workflows)
            listener.change(list(voices), changed.slugs, changed.everybody)
            profiles_sync.change(changed.identities, changed.everybody)
            indicators.changed()
            coordinator.retry_held()
            return needs_restart

        runtime = Runtime(spawn, coordinator, inbox, shutdown_deadline=settings.shutdown.deadline)
        reload = Reloading(reload_configuration, clock)
        reporter = Reporter(
            places=where,
            runtime=runtime,
            pool=pool,
            folder=folder,
            index=index,
            clock=clock,
            address=first.project.npub,
            models=current.providers,
            reloaded=lambda: reload.last,
            disabled=lambda: current.now.rules.disabled,
            today=daily.today,
        )
        listening.append(reporter)
        if meter:
            await open_port(stack, settings, meter, lambda: disk.probe(where.conversations), pool, inbox)
        back = Awaited(coordinator)
        listening.append(back)
        rollbacks = RollbackService(
            folder,
            disk,
            clock,
            sealer,
            first.rules.project,
            static.workspace,
            lambda: shadow_of(current.now.settings, where, static.workspace),
        )

        def on_fork(branch: ForkResult) -> None:
            index_updater.on_records(branch.state, branch.records)
            coordinator.resume([branch.state.id])

        asked = orders(reporter, reload, runtime, rollbacks, back, on_fork, thoughts, daemon_journal)
        await stack.enter_async_context(control_socket(where.socket, asked))

        yield Application(
            places=where,
            current=current,
            pool=pool,
            reload=reload,
            runtime=runtime,
            names=profiles_sync.names,
            _unfinished=list(unfinished),
            _services={
                "typing indicators": indicators.run,
                "relays": pool.run,
                "cursors": lambda: keep_cursors(pool, index, clock, unjournaled_since=coordinator.unjournaled_since),
                "profiles": profiles_sync.run,
            },
        )


def _make_folders(where: ProjectPaths) -> None:
    faults: list[str] = []
    for path in (where.conversations, where.workspace, where.keys):
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            faults.append(f"{path}: cannot be made ({error.strerror}); choose a data folder you own with --data")
    if faults:
        raise ConfigurationError(faults)


class _Journals:
    """The folder's journals, and the views beside them."""

    def __init__(self, folder: ConversationFolder, views: Views, index: Index, voices: Container[PublicKey]) -> None:
        self._voices = voices
        self._folder = folder
        self._views = views
        self._index = index

    async def open(self, conversation: ConversationId) -> tuple[Journal, Sequence[Record]]:
        if file := legacy_file(self._folder.path(conversation)):  # two histories of one thread could not be joined
            raise StoreDamaged(
                f"{file} is of an older program. Run `tenex conversations import {file}`, then write again."
            )
        journal, records = await self._folder.open(conversation)
        if comes_from_elsewhere(records, self._voices):
            closing = ConversationImported(seq=journal.next_seq, at=records[-1].at)
            await journal.append([[closing]])
            return journal, [*records, closing]
        return journal, records

    async def show(self, conversation: Conversation) -> None:
        page, row = self._views.page(conversation), summarise(conversation, 0)  # all look before the first await
        if await self._folder.rotate(conversation):  # longer without a record: else a start would read it again
            self._index.update(replace(row, bytes=self._folder.length(conversation.id)), News())
        await self._views.write(page)


class _Directory:
    """Which conversations there are."""

    def __init__(self, folder: ConversationFolder, index: Index) -> None:
        self._folder = folder
        self._index = index

    def conversation_of(self, event_id: str) -> ConversationId | None:
        return self._index.conversation_of(event_id)

    def exists(self, conversation: ConversationId) -> bool:
        path = self._folder.path(conversation)
        return path.exists() or legacy_file(path) is not None
