"""The composition root: the one place that knows every part, in the order in which they are assembled."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tenex import __version__
from tenex.configuration.agents import former_keys
from tenex.configuration.build import (
    StaticContext,
    check_people,
    configure,
    reconfigure,
    room_rules,
    sent_files,
    shadow_of,
)
from tenex.configuration.mcp import read_mcp
from tenex.configuration.mcp_launch import Launcher
from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.effects import Undo
from tenex.core.errors import ConfigurationError, FolderMoved, StoreDamaged
from tenex.core.ids import ConversationId, Millis, PublicKey
from tenex.core.kind import all_kinds
from tenex.core.people.trust import chat_of, room_of
from tenex.core.port_values import UndoOutcome
from tenex.core.ports import Journal, Model, Observer, Tools, UnsignedEvent
from tenex.core.records import Record
from tenex.core.signals import MessageReceived
from tenex.core.text.amounts import count
from tenex.core.text.names import placeholder
from tenex.core.totals.costs import DAY
from tenex.core.totals.state import SPENDING_DAYS
from tenex.llm.scripted import Pace
from tenex.log import get_logger
from tenex.mcp.servers import McpServers
from tenex.nostr.attestations import holds_for
from tenex.nostr.client_requests import AGENT_CHANGE
from tenex.nostr.compose import NostrSealer, Publisher
from tenex.nostr.deletions import DELETION, ROOM_DELETION, deleted_events
from tenex.nostr.direct import WRAPS
from tenex.nostr.events import Event, sign_here, unsigned_event
from tenex.nostr.filters import DIRECT_KINDS
from tenex.nostr.interactions import PROMPT_KINDS
from tenex.nostr.keys import Key, KeyRing, RemoteKey, SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import PROFILE_KINDS
from tenex.nostr.rooms import ROOM_KINDS, Rooms
from tenex.nostr.subscriptions import Listener
from tenex.nostr.threading import KINDS
from tenex.nostr.threading.base import group_of
from tenex.nostr.threading.direct import ENCRYPTED
from tenex.nostr.turn_costs import TURN_COST
from tenex.nostr.unread_kinds import UNREAD_KINDS
from tenex.operations.copying import adopt_lessons
from tenex.operations.doctor.files import access
from tenex.operations.doctor.findings import Level
from tenex.operations.imports import closing_of, comes_from_elsewhere
from tenex.operations.listed_tools import ORDER as MCP_TOOLS
from tenex.operations.recovery import legacy_file, lost_end
from tenex.operations.rollback import ForkResult, RollbackService
from tenex.operations.status import Reporter
from tenex.runtime.actor import ActorDependencies
from tenex.runtime.clock import SystemClock
from tenex.runtime.coordinator import ConversationCoordinator
from tenex.runtime.daily_limits import DailyLimits
from tenex.runtime.executors import Executors
from tenex.runtime.inbox import Inbox
from tenex.runtime.lifecycle import Runtime, TaskFactory
from tenex.runtime.outbox import Outbox
from tenex.service.client import is_listening
from tenex.service.control import control_socket
from tenex.settings import Settings, check_paths, resolve_paths
from tenex.store.conversation_files import FOR_PEOPLE, ConversationFiles, FilesFull, safe_name
from tenex.store.conversations import Conversations
from tenex.store.daemon_journal import DaemonJournal
from tenex.store.disk import Disk
from tenex.store.index import Index, Shown
from tenex.store.index_row import News, Row, summarise
from tenex.store.journal_reader import VIEW
from tenex.store.lock import FolderLock
from tenex.store.opening import open_shared
from tenex.store.past_messages import PastMessages
from tenex.store.repository import ConversationFolder
from tenex.store.search import Filter
from tenex.store.view import Views
from tenex.telemetry.record_log import RecordLog
from tenex.tools.inbox import Inboxes
from tenex.tools.named_files import named_files
from tenex.tools.sandbox import probe_bubblewrap
from tenex.tools.sent_files import SentFiles
from tenex.tools.turn_views import TurnViews
from tenex.tools.umask import make_folders, process_umask
from tenex.tools.workspace import Workspace

from .agent_calls import Asker
from .control import Awaited, orders
from .direct_messages import DirectMessages, take_all
from .extension import Extension
from .index_updater import IndexUpdater, keep_cursors, oldest_cursor, oldest_new
from .live_configuration import LiveChecks, LiveConfiguration, Reloading
from .mcp_tools import McpTools
from .mcp_views import McpViews
from .member_names import MemberNames
from .page_process import PageProcess, command_of
from .profile_publisher import ProfileAnnouncer
from .room_note import describe
from .room_typing import RoomTyping
from .shown_files import LateFileSender, ShownFiles
from .typing_indicators import TypingIndicators, project_status
from .unread_kinds import UnreadKinds
from .watch_stream import WatchStream
from .workers import WorkerWatch, WorkspaceShare

if TYPE_CHECKING:
    from tenex.store.postgres.conversations import PostgresConversations

log = get_logger(__name__)

SIGNED_KINDS: Final = (*KINDS, *PROMPT_KINDS, ENCRYPTED, TURN_COST)
"""What is signed of what conversations send."""
MOST_FAREWELL: Final = 2.0
"""Seconds that features have at a stop."""

MCP_SERVERS_START: Final = 5.0
"""Seconds a start and a reload wait for MCP servers, so that work finds their tools; most need less than one."""


@asynccontextmanager
async def open_application(
    settings: Settings,
    *,
    model: Model | None = None,
    observers: Sequence[Observer] = (),
    pace: Pace | None = None,
    lines_dropped: Callable[[], int] = int,
    shown: Shown = iter,
    wrap_model: Callable[[Model], Model] = lambda model: model,
    umask: int | None = None,
    extensions: Sequence[Callable[["Application"], Extension]] = (),
) -> AsyncIterator["Application"]:
    """Put a daemon together; on leaving, every file is closed and the folder's lock is released.

    Args:
        settings: what the operator set.
        model: a model to use in place of the configured ones; it is not trusted like the offline model.
        observers: receive what becomes durable.
        pace: slows the offline model down, for a demonstration.
        lines_dropped: how many lines of the log were dropped.
        shown: shows how far the reading of journals is, where the index has to be rebuilt.
        wrap_model: wraps the model that is asked, to record or replace what it answers.
        umask: of what is made in the workspace; this process's unless given.
        extensions: make what features do in the daemon.

    Raises:
        ConfigurationError: with all faults of settings, prompts, agents, models and keys.
        StoreLocked: another daemon holds the folder.
    """
    async with AsyncExitStack() as stack:
        umask = process_umask() if umask is None else umask
        app = Application(settings, stack, model, wrap_model, umask, lines_dropped)
        app._make_folders()
        await app._open_store()
        await app._configure(pace)
        app._extend(extensions)
        app._build_relays()
        app._build_runtime(observers)
        await app._catch_up(shown)
        await app._open_control()
        await app.mcp.settle(MCP_SERVERS_START)
        yield app


class Application:
    """A daemon. The steps make its parts in the order below; only callbacks use later parts."""

    def __init__(
        self,
        settings: Settings,
        stack: AsyncExitStack,
        model: Model | None,
        wrap_model: Callable[[Model], Model],
        umask: int,
        lines_dropped: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.stack = stack
        self.model = model
        self.wrap_model = wrap_model
        self.umask = umask
        self.lines_dropped = lines_dropped
        """How many lines of the log were dropped."""
        self.clock = SystemClock()
        self.spawn = TaskFactory()
        self.places = resolve_paths(settings)
        self.ring = KeyRing(*self.places.key_folders)
        self.pages = PageProcess(command_of(self.places), self.places.data) if settings.web.enabled else None

    @property
    def policy(self) -> Policy:
        """The agents, and the rules they work under."""
        return self.current.now.policy

    @property
    def project(self) -> Key:
        """The key users write to."""
        return self.current.now.project

    @property
    def names(self) -> Mapping[PublicKey, str]:
        """The names of users, as far as relays know them."""
        return self.profiles.names

    async def serve(self, ready: Callable[[], Awaitable[None]] | None = None) -> bool:
        """Serve until `runtime.stop`; returns whether everything ended within the deadline."""

        async def serve_control() -> None:
            await self.control.start_serving()  # before, no task of a conversation can be started
            if ready is not None:
                await ready()

        since = self.coordinator.unjournaled_since
        services = {
            "typing indicators": self.indicators.run,
            "typing in rooms": self.room_typing.run,
            "relays": self.pool.run,
            "rooms": self.rooms.run,
            "cursors": lambda: keep_cursors(self.pool, self.index, self.clock, unjournaled_since=since),
            "profiles": self.profiles.run,
            "direct messages": self.direct_messages.run,
            "unread kinds": self.unread_kinds.run,
        }
        for extension in self.extensions:
            services |= extension.services
        if self.pages is not None:
            services["pages"] = self.pages.run
        if self.shared is not None:
            services |= {"leases": self.shared.leases.keep, "workers": self._watch_workers(self.shared).run}
        return await self.runtime.serve(services, self._unfinished, serve_control, self._stopping)

    async def _stopping(self) -> None:
        """Have features do what they do at a stop; none may hold it up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(MOST_FAREWELL):
                stopped = (extension.stopping() for extension in self.extensions)
                for fault in await asyncio.gather(*stopped, return_exceptions=True):
                    if isinstance(fault, Exception):
                        log.error("feature.stop_failed", exc_info=fault)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve from when it is ready to the end of the block, and stop."""
        is_ready = asyncio.Event()

        async def ready() -> None:
            is_ready.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(self.serve(ready), name="daemon")
            await is_ready.wait()
            try:
                yield
            finally:
                self.runtime.stop()

    # ---- the steps ----

    def _make_folders(self) -> None:
        """Make the folders, and none for a daemon that cannot start in it."""
        check_paths(self.settings)
        check_people(self.settings, self.ring)
        faults: list[str] = []
        if self.places.data.is_dir():
            findings = [finding for finding in access(self.places) if finding.level is Level.FAULT]
            faults += [f"{finding.location}: {finding.message}; {finding.fix}" for finding in findings]
        if faults:
            raise ConfigurationError(faults)

        for path in (self.places.conversations, self.places.workspace, self.places.keys):
            try:
                if path == self.places.workspace and not path.is_relative_to(self.places.data):
                    make_folders(path, self.umask)  # a person's project, not ours
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                faults.append(f"{path}: cannot be made ({error.strerror}); choose a data folder you own with --data")
        if faults:
            raise ConfigurationError(faults)

    async def _open_store(self) -> None:
        root = self.places.conversations
        stack = self.stack
        lock = stack.enter_context(FolderLock(root))
        self.disk = Disk()
        self.disk.check = lock.check
        stack.callback(self.disk.close)

        files = ConversationFolder(root, self.disk, self.clock)
        self.shared: PostgresConversations | None = None
        if self.settings.store:
            opened = open_shared(self.settings.store, root, self.disk, self.clock, daemon=__version__)
            self.shared = await stack.enter_async_context(opened)
            await _refuse_uncopied(files, self.shared)
        self.folder: Conversations = self.shared or files
        stack.push_async_callback(self.folder.close)

        self.index = Index(root / "index.sqlite", lambda records: comes_from_elsewhere(records, self.keys), lock.check)
        stack.push_async_callback(self.index.close)
        self._files = files
        self.daemon_journal = await DaemonJournal.begin(self.folder.daemon_records(), self.clock)
        stack.push_async_callback(self.daemon_journal.close)

    async def _configure(self, pace: Pace | None) -> None:
        """Build what a reload replaces: users, agents, tools, prompts, models."""
        self.watch_stream = WatchStream(self.clock)

        has_sandbox = await asyncio.to_thread(probe_bubblewrap)
        workspace = Workspace(self.places.workspace, umask=self.umask)
        launcher = Launcher(workspace.root, self.places.data.resolve(), has_sandbox, self.umask)
        self.mcp = McpServers(launcher)
        self.stack.push_async_callback(self.mcp.close)
        self.mcp.apply(await asyncio.to_thread(read_mcp, self.settings))

        self.views = TurnViews(self.places.views, workspace)
        self._file_sender = LateFileSender()
        views = McpViews(self.mcp, self.views, launcher.in_view)
        self.mcp_tools = McpTools(self.mcp, views, self._keep_file, workspace.root, self._sent_files)
        await asyncio.to_thread(self.views.clear)
        self.stack.push_async_callback(self.views.close)

        self.static = StaticContext(
            places=self.places,
            ring=self.ring,
            book=self.daemon_journal,
            workspace=workspace,
            past_messages=PastMessages(self.index, self.folder),
            model=self.model,
            pace=pace,
            on_progress=self.watch_stream.on_output,
            has_sandbox=has_sandbox,
            mcp_tools=self.mcp_tools,
            views=self.views,
            ask=lambda question: self.asker(question),  # noqa: PLW0108 it is made in a later step
            file_sender=self._file_sender,
            keep_file=self._keep_for_page,
            about_room=lambda address: describe(self.rooms, address, self._name_in_room),
        )
        self.stack.push_async_callback(self.static.background.close)

        self.first = configure(self.settings, self.static)
        if self.shared is not None:
            await self.shared.claim(self.first.project.public)
            await adopt_lessons(self._files.daemon_records(), self.daemon_journal)
            await self.shared.leases.report()

        self.current = LiveConfiguration(self.first)
        self.workspace_share = (
            WorkspaceShare(self.shared, self.current.policy, time.monotonic) if self.shared is not None else None
        )
        self.stack.push_async_callback(self.current.close)

    def _extend(self, extensions: Sequence[Callable[["Application"], Extension]]) -> None:
        """Make what features do here.

        Raises:
            ConfigurationError: a remote signer holds a key, and no feature asks it.
        """
        first = self.first
        keys = former_keys(self.ring, first.keys, first.everybody)
        self.keys = keys | {key.public: key for key in first.keys.values()}
        self.extensions = [extend(self) for extend in extensions]

        senders = (extension.file_sender for extension in self.extensions)
        self._file_sender.make = next((sender for sender in senders if sender is not None), None)

        signings = (extension.signing for extension in self.extensions)
        self.signing = next((signing for signing in signings if signing is not None), None)
        self.sign = self.signing.sign if self.signing is not None else sign_here

        remote = [name for name, key in first.keys.items() if isinstance(key, RemoteKey)]
        if remote and self.signing is None:
            why = (
                "a remote signer holds this key, and this program is without the feature `signers`; put the secret key "
                "there, or use a program with the feature"
            )
            raise ConfigurationError([f"{self.ring.file(name)}: {why}" for name in remote])

    def _build_relays(self) -> None:
        first = self.first
        urls = self.settings.relays.urls
        sign = self.sign
        self.pool = RelayPool(
            urls,
            on_event=self._on_event,
            on_new=self._on_new_event,
            is_seen=self.index.has_event,
            identity=first.project,
            more_identities=lambda: [key for key in self.keys.values() if isinstance(key, SecretKey)],
            sign=self._sign_in_to_relay,
            others_must_be_public=True,
            is_wanted=lambda author: author not in self.keys and self.inbox.knows(author),
            of_anyone=(*WRAPS, *ROOM_KINDS),
            key_of=self.keys.get,
            is_wanted_in_room=self._is_wanted_in_room,
            informed=lambda relay: self.rooms.on_relay(relay),  # noqa: PLW0108 - it is made below
        )
        self.rooms = Rooms(
            self.pool,
            lambda: [key.public for key in self.current.now.keys.values()],
            lambda: room_rules(self.current.now.settings),
            lambda: self.clock.now() / 1000,
            first.project.public,
            lambda author: self.inbox.knows(author),  # noqa: PLW0108 - it is made later
            lambda *asked: self.member_names.learn(*asked),  # noqa: PLW0108 - likewise
        )
        self.sealer = NostrSealer(urls, project=first.project_event, keys=self.keys, limits=self.pool.limits)
        publisher = Publisher(self.pool, self.keys, PROFILE_KINDS, sign)
        self.profiles = ProfileAnnouncer(
            self.pool, publisher, self.daemon_journal, self.clock, urls, first.identities, first.everybody
        )
        self.member_names = MemberNames(
            self.pool,
            self.profiles.names,
            self.clock,
            is_named=lambda key: key in self.current.now.everybody or key in self.keys,
            taken=self._taken_names,
        )
        self.direct_messages = DirectMessages(
            self.pool,
            Publisher(self.pool, self.keys, (ENCRYPTED,)),
            self.keys,
            self.daemon_journal,
            self.clock,
            role=lambda author: self.current.now.people.role(author),  # noqa: PLW0108 - a reload replaces them
            slugs=lambda: self.current.now.slugs,
            relays=urls,
            receive=lambda message, is_new: self.inbox.receive(message, is_new=is_new),
            delete=lambda deleted, author: self.inbox.delete(deleted, author),  # noqa: PLW0108 - it is made later
            take=take_all if self.shared is None else self.shared.take_direct_message,
        )
        self.unread_kinds = UnreadKinds(
            self.pool,
            self.keys,
            self.daemon_journal,
            self.clock,
            role=lambda author: self.current.now.people.role(author),  # noqa: PLW0108 - a reload replaces them
            npub=lambda: self.project.npub,
            relays=urls,
            take=take_all if self.shared is None else self.shared.take_direct_message,
            sign=sign,
        )
        self.indicators = TypingIndicators(
            self.pool,
            self.keys,
            self.sealer,
            self.clock,
            speaker=first.project.public,
            status=lambda at: project_status(self.current.now, at),
            mode=self.settings.relays.typing_indicators,
            relays=urls,
            project=lambda: self.current.now.project_event,
        )

        self.room_typing = RoomTyping(
            self.pool,
            self.keys,
            self.clock,
            first.project.public,
            is_on=self.settings.relays.typing_indicators != "off",
        )

    async def _sign_in_to_relay(self, event: UnsignedEvent, key: Key) -> Event:
        """Sign an AUTH (NIP-42), with the owner's attestation: relays let in agents of their members by it."""
        tag = self.current.now.attestations.get(event.pubkey)
        if tag is not None and holds_for(tag, event.kind, event.created_at):
            tags = (*event.tags, tag)
            event = unsigned_event(event.pubkey, event.created_at, event.kind, tags, event.content)
        return await self.sign(event, key)

    def name_of(self, pubkey: PublicKey) -> str:
        """The name of one of our keys; the start of it where it is no longer configured."""
        keys = self.current.now.keys
        return next((name for name, key in keys.items() if key.public == pubkey), str(pubkey[:8]))

    def _name_in_room(self, pubkey: PublicKey) -> str:
        """How a member of a room is named to agents, as before a message of theirs."""
        if pubkey in self.keys:
            return self.name_of(pubkey)
        return self.names.get(pubkey) or placeholder(pubkey, self.current.now.people.owners)

    def _taken_names(self) -> list[str]:
        """The names of agents, and of whom the settings name."""
        now = self.current.now
        people = [self.names.get(key) or placeholder(key, now.people.owners) for key in now.everybody]
        agents = (*now.policy.roster.values(), now.policy.project)
        return [*people, *(agent.slug for agent in agents), *(agent.name for agent in agents)]

    def _is_wanted_in_room(self, raw: Mapping[str, Any], relay: str) -> bool:
        return raw["pubkey"] not in self.keys and self.rooms.may_be_wanted(raw, relay)

    def _on_event(self, event: Event, relay: str) -> None:
        if not self._is_handled(event, relay, is_new=False):
            self.listener.on_event(event, relay)

    def _on_new_event(self, event: Event, relay: str) -> None:
        if not self._is_handled(event, relay, is_new=True):
            self.listener.on_new_event(event, relay)

    def _is_handled(self, event: Event, relay: str, *, is_new: bool) -> bool:
        """Handle a profile, a deletion, a direct message or an event of a kind that is not read; whether it was one."""
        if deleted_events(event):
            self.rooms.when_known(event, relay, partial(self._delete, event, relay))
        if self.rooms.on_event(event, relay):
            return True
        if event.kind in DIRECT_KINDS:
            self.direct_messages.on_event(event, relay, is_new=is_new)
        if event.kind in UNREAD_KINDS:
            self.unread_kinds.on_event(event, relay)
        for extension in self.extensions:
            if event.kind in extension.events:
                extension.events[event.kind](event)
        taken = {kind for extension in self.extensions for kind in extension.events}
        is_taken = event.kind in (DELETION, ROOM_DELETION, AGENT_CHANGE, *DIRECT_KINDS, *UNREAD_KINDS, *taken)
        return is_taken or self.profiles.on_event(event)

    def _delete(self, event: Event, relay: str) -> None:
        """Take back what an event deletes: by the author of each, or by the moderation of a room whatever is in it."""
        is_member = self.rooms.is_member(event.pubkey, relay)
        place = {"group": group_of(event), "relays": [relay]}
        chat = chat_of(place) if event.kind == ROOM_DELETION and self.rooms.moderates(event, relay) else None
        for deleted in deleted_events(event):
            self.inbox.delete(deleted, event.pubkey, is_member=is_member, moderated=chat)

    def _build_runtime(self, observers: Sequence[Observer]) -> None:
        first = self.first
        current = self.current
        clock = self.clock
        model: Model = current
        tools: Tools = current
        for extension in self.extensions:
            model = extension.model(model) if extension.model is not None else model
            tools = extension.tools(tools) if extension.tools is not None else tools
        model = self.wrap_model(model)
        self.daily = DailyLimits(clock, lambda: current.now.policy.limits, lambda: current.now.people, current.quote)
        self.asker = Asker(
            model=model,
            tools=current,
            prompter=current,
            policy=current.policy,
            clock=clock,
            budget=lambda: current.now.settings.models.context_tokens,
        )
        executors = Executors(
            clock=clock,
            model=model,
            tools=tools,
            prompter=current,
            kind_runner=current,
            outbox=Outbox(
                Publisher(self.pool, self.keys, SIGNED_KINDS, self.sign, self.rooms.fallback),
                self.signing.is_remote if self.signing is not None else lambda _: False,
            ),
            policy=current.policy,
            on_text=self.indicators.on_text,
            budget=lambda: current.now.settings.models.context_tokens,
            daily=self.daily,
            undo=self._undo,
            show=ShownFiles(self.static.workspace, Inboxes(self.places.conversations), self._sent_files).show,
            named_files=self._named_files,
            checks=LiveChecks(current),
        )
        self.observers: list[Observer] = [RecordLog(), self.daily, self.indicators, self.watch_stream, *observers]
        self.observers += [self.room_typing, self.static.background, self.views, self.mcp_tools, self.static.notices]
        self.observers += [observer for extension in self.extensions for observer in extension.observers]
        self.readable = Views(self.folder, self.disk)
        finders = (extension.quotations for extension in self.extensions)
        loaders = (extension.files for extension in self.extensions)
        self.coordinator = ConversationCoordinator(
            ActorDependencies(
                journals=_Journals(self.folder, self.readable, self.index, self.disk, self.keys, current, clock),
                executors=executors,
                sealer=self.sealer,
                notices=self.daemon_journal,
                prompter=current,
                clock=clock,
                policy=current.policy,
                spawn=self.spawn,
                observers=self.observers,
                take_message=self._take_message if self.shared is not None else None,
                is_for_another=self.workspace_share.is_for_another if self.workspace_share is not None else None,
                left=self._leave,
                released=self._release,
                quotations=next((finder() for finder in finders if finder is not None), None),
                files=next((loader() for loader in loaders if loader is not None), None),
            )
        )
        self.inbox = Inbox(
            self.coordinator,
            _Directory(self.folder, self.index, is_shared=self.shared is not None),
            first.people,
            clock,
            names=self.profiles.names,
            slugs=first.named,
            workflows=first.workflows,
            oldest=lambda message: oldest_new(self.index, clock, message),
            is_room_guest=self.rooms.is_guest,
        )
        deadline = self.settings.shutdown.deadline
        self.runtime = Runtime(self.spawn, self.coordinator, self.inbox, shutdown_deadline=deadline)
        self.listener = Listener(
            self.pool,
            list(self.keys),
            first.slugs,
            first.project_event,
            self.inbox.receive,
            people=first.everybody,
            receive_new=partial(self.inbox.receive, is_new=True),
            rooms=self.rooms,
        )
        self.index_updater = IndexUpdater(
            self.folder, self.index, self.daemon_journal, self.listener, first.policy.project.slug, self.spawn
        )
        self.observers.append(self.index_updater)

    async def _named_files(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        return await asyncio.to_thread(named_files, self.static.workspace.root, tool, arguments)

    def _sent_files(self) -> SentFiles:
        return sent_files(self.current.now.settings, self.static)

    async def _undo(self, effect: Undo) -> UndoOutcome:
        return await self.rollbacks.undo(effect)

    async def _take_message(self, signal: MessageReceived, conversation: ConversationId) -> bool:
        """Take a message for a conversation, unless another worker has taken it for another one."""
        assert self.shared is not None
        owner = await self.shared.take_event(signal.message.event_id, conversation)
        if owner != conversation:
            self.inbox.hand_on(signal, conversation, owner)
        return owner == conversation

    def _leave(self, conversation: ConversationId) -> None:
        """End what goes on here by itself for a conversation with which another worker goes on."""
        self.static.background.end(conversation)
        self.views.end(conversation)
        self.indicators.forget(conversation)
        self.room_typing.forget(conversation)

    def _release(self, conversation: ConversationId) -> None:
        """Drop what is kept of a conversation that has left memory."""
        self.readable.forget(conversation)
        for kind in all_kinds():
            kind.forget(conversation)

    def _watch_workers(self, shared: "PostgresConversations") -> WorkerWatch:
        def on_row(row: Row) -> None:
            self._leave(row.id)
            self.daily.load(row.id, row.spending)
            self.index_updater.on_row(row)
            self.inbox.look_again(row.id)

        shared.leases.lost = self.coordinator.lose
        shared.leases.renewed = self.coordinator.reconsider
        shared.leases.workspace_lost = self.coordinator.lose_for_another
        assert self.workspace_share is not None
        return WorkerWatch(
            shared,
            self.index,
            self.coordinator,
            on_row,
            self.current.share,
            self.daemon_journal.follow,
            self.workspace_share,
        )

    async def _catch_up(self, shown: Shown) -> None:
        """Bring the index up to date, and subscribe from where the relays were left."""
        index = self.index
        clock = self.clock
        unfinished = [*await index.catch_up(self.folder, shown), *await self.folder.behind()]
        self._unfinished = list(dict.fromkeys(unfinished))
        newest = await index.rows(limit=500)
        for row in await index.rows(Filter(since=Millis(clock.now() - SPENDING_DAYS * DAY))):
            self.daily.load(row.id, row.spending)
        self.profiles.start()
        since = await oldest_cursor(index, self.folder, self.settings.relays.urls, clock)
        roots = [row.id for row in reversed(newest) if not index.room_of(row.id)]  # no relay has those of a room
        self.listener.start(since, roots)

    async def _open_control(self) -> None:
        """Open the control socket and, where it is wanted, the port for health and metrics."""
        current = self.current
        places = self.places
        disk = self.disk
        self.reload = Reloading(self._reload_configuration, self.clock)
        reporter = Reporter(
            places=places,
            runtime=self.runtime,
            pool=self.pool,
            folder=self.folder,
            index=self.index,
            clock=self.clock,
            address=self.first.project.npub,
            models=current.providers,
            reloaded=lambda: self.reload.last,
            disabled=lambda: current.now.policy.disabled,
            disabled_agents=lambda: current.now.policy.disabled_agents,
            own_tools=lambda: current.now.own_tools.report(),  # noqa: PLW0108 - a reload replaces it
            offers=lambda: current.now.offers,
            tools_left_out=lambda: current.now.own_tools.left_out(),  # noqa: PLW0108 - likewise
            today=self.daily.today,
            background=self.static.background.running,
            mcp=self.mcp.status,
            parts={name: read for extension in self.extensions for name, read in extension.status.items()},
            web=self.pages.status if self.pages is not None else lambda: None,
        )
        rollback_done = Awaited(self.coordinator)
        self.observers += [reporter, rollback_done]
        workspace = self.static.workspace
        rollbacks = self.rollbacks = RollbackService(
            self.folder,
            disk,
            self.clock,
            self.sealer,
            self.first.policy.project,
            workspace,
            lambda: shadow_of(current.now.settings, places, workspace),
            lambda name, records: closing_of(name, records, self.keys, current.now.policy.only_agent, self.clock.now()),
            self.static.background.ended,
        )
        handlers = orders(
            reporter,
            self.reload,
            self.runtime,
            rollbacks,
            rollback_done,
            self._on_fork,
            self.watch_stream,
        )
        for extension in self.extensions:
            handlers |= extension.orders
            await extension.opened()
        handlers[MCP_TOOLS] = self.mcp_tools.listed
        self.control = await self.stack.enter_async_context(
            control_socket(places.socket, handlers, start_serving=False)
        )

    async def _reload_configuration(self) -> list[str]:
        changed, needs_restart = await asyncio.to_thread(reconfigure, self.current.now, self.static)
        servers = await asyncio.to_thread(read_mcp, changed.settings)
        self.current.change(changed)
        self.mcp.apply(servers)
        self.keys.update({key.public: key for key in changed.keys.values()})
        self.inbox.change(changed.people, changed.named, changed.workflows)
        self.listener.change(list(self.keys), changed.slugs, changed.everybody, changed.project_event)
        self.sealer.change(changed.project_event)
        self.rooms.changed()
        self.profiles.change(changed.identities, changed.everybody)
        self.indicators.changed()
        for extension in self.extensions:
            extension.changed()
        self.coordinator.retry_held()
        await self.mcp.settle(MCP_SERVERS_START)
        return needs_restart

    async def _keep_file(self, conversation: ConversationId, name: str, data: bytes) -> str:
        """Keep a file for people in the folder of its conversation; returns the name that it has.

        Raises:
            FilesFull: it has too many files, or too large ones.
            OSError: it cannot be written.
        """
        files = ConversationFiles(self.folder.path(conversation) / FOR_PEOPLE)
        return await self.disk.change(files.add, name, data)

    async def _keep_for_page(self, conversation: ConversationId, name: str, data: bytes) -> bool:
        """Keep a file that no server took, where pages are served from which people can load it."""
        if not await is_listening(self.places.web_socket):
            return False
        try:
            await self._keep_file(conversation, safe_name(name), data)
        except (FilesFull, FolderMoved, OSError) as fault:
            log.warning("file.not_kept", conversation=conversation, reason=str(fault))
            return False
        return True

    def _on_fork(self, branch: ForkResult) -> None:
        identity = branch.state.identity
        room = room_of(identity.address)
        if room:
            self.inbox.add_room(room, identity.id, identity.title)
        self.index_updater.on_records(branch.state, branch.records)
        self.coordinator.resume([branch.state.id])


async def _refuse_uncopied(files: ConversationFolder, shared: "PostgresConversations") -> None:
    """Refuse a database without the conversations that the folder has: people would be answered as if they were new.

    Raises:
        ConfigurationError: there are some.
    """
    stored = await shared.lengths()
    longer = [name for name, length in (await files.lengths()).items() if length > stored.get(name, 0)]
    left = [name for name in longer if not await _is_copied(files, name, stored.get(name, 0))]
    if left:
        fault = f"store: {count(len(left), 'conversation')} in {files.root} are not in the database, or not whole"
        fix = "run `tenex conversations copy --to URL` with its address, or move the folder away"
        raise ConfigurationError([f"{fault}; {fix}"])


async def _is_copied(files: ConversationFolder, conversation: ConversationId, length: int) -> bool:
    """Whether a journal has no more than so many bytes without the traces of a write that was cut short."""
    try:
        return sum(map(len, await files.contents(conversation))) <= length
    except (StoreDamaged, OSError):
        return False


class _Journals:
    """The folder's journals, and the views beside them."""

    def __init__(
        self,
        folder: Conversations,
        views: Views,
        index: Index,
        disk: Disk,
        keys: Container[PublicKey],
        current: LiveConfiguration,
        clock: SystemClock,
    ) -> None:
        self._disk = disk
        self._current = current
        self._clock = clock
        self._keys = keys
        self._folder = folder
        self._views = views
        self._index = index

    async def open(self, conversation: ConversationId) -> tuple[Journal, Sequence[Record]]:
        file = legacy_file(self._folder.path(conversation))
        if file:  # two histories of one thread could not be joined
            raise StoreDamaged(
                f"{file} is of an older program. Run `tenex conversations import {file}`, then write again."
            )

        journal, records = await self._folder.open(conversation)
        agent = self._current.now.policy.only_agent
        now = self._clock.now()
        closing = closing_of(conversation, records, self._keys, agent, now)
        if closing is not None:
            added: list[Record] = [closing]
        else:
            view = self._folder.path(conversation) / VIEW
            added = await self._disk.run(lost_end, conversation, records, view, now, agent)

        if added:
            await journal.append([added])
        if added and closing is None:
            log.warning("journal.end_recovered", conversation=conversation, after=added[0].seq - 1, records=len(added))
        return journal, [*records, *added]

    async def show(self, conversation: Conversation) -> None:
        # both are read before the first await
        page = self._views.page(conversation)
        row = summarise(conversation, 0)
        if await self._folder.rotate(conversation):  # longer without a record: else a start would read it again
            self._index.update(replace(row, bytes=self._folder.length(conversation.id)), News())
        await self._views.write(page)


class _Directory:
    """The known conversations."""

    def __init__(self, folder: Conversations, index: Index, *, is_shared: bool) -> None:
        self._folder = folder
        self._index = index
        self._is_shared = is_shared

    def conversation_of(self, event_id: str) -> ConversationId | None:
        return self._index.conversation_of(event_id)

    def imported(self, id_: str) -> ConversationId | None:
        return self._index.imported(id_)

    def room_of(self, conversation: ConversationId) -> str:
        return self._index.room_of(conversation)

    def chat_of(self, conversation: ConversationId) -> str:
        return self._index.chat_of(conversation)

    def newest_in(self, room: str) -> tuple[ConversationId, str] | None:
        return self._index.newest_in(room)

    def exists(self, conversation: ConversationId) -> bool:
        path = self._folder.path(conversation)
        is_indexed = self._is_shared and self._index.holds(conversation)  # else its folder shows whether it is there
        return is_indexed or path.exists() or legacy_file(path) is not None
