"""The composition root: the one place that knows every part, in the order in which they are put together.

    settings -> folders and keys -> store -> words -> tools -> mind -> relays -> flow

Never: logic; whatever needs a decision or a test of its own belongs to the part it is about.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import structlog

from tenex.core.conversation import Conversation
from tenex.core.errors import ConfigurationError
from tenex.core.ids import ConversationId, PublicKey, Slug
from tenex.core.ports import Journal, Model, Observer
from tenex.core.records import Record
from tenex.core.roster import Agent, Kind, Rules
from tenex.flow.actor import Surroundings
from tenex.flow.clock import SystemClock
from tenex.flow.coordinator import ConversationCoordinator
from tenex.flow.inbox import Inbox
from tenex.flow.outbox import Outbox
from tenex.flow.runtime import Runtime, Spawner
from tenex.flow.stages import Stages
from tenex.llm.offline import OfflineModel, Pace
from tenex.nostr.keys import KeyRing, SecretKey, parse_public_key
from tenex.nostr.listener import Listener
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import Identity
from tenex.nostr.publisher import Publisher
from tenex.nostr.sealing import FormSealer
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.prompting.prompter import ConversationPrompter
from tenex.settings import Places, Settings, check_paths, circle, gate_rules, limits, places
from tenex.store.daemon import DaemonBook
from tenex.store.disk import Disk
from tenex.store.folder import ConversationFolder
from tenex.store.index import Index
from tenex.store.lock import FolderLock
from tenex.store.view import Views
from tenex.tools.check import CheckPolicy
from tenex.tools.notes import read_notes
from tenex.tools.registry import ToolRegistry
from tenex.tools.sandbox import probe_bubblewrap
from tenex.tools.standard import TOOL_NAMES, standard_tools
from tenex.tools.workspace import Workspace

from .bookkeeper import Bookkeeper, keep_cursors, last_heard
from .introductions import Introductions

log = structlog.get_logger(__name__)

PROJECT = "project"
"""The name of the key the orchestrator speaks with: the address people write to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A daemon that is put together and holds its folder, ready to serve."""

    settings: Settings
    places: Places
    rules: Rules
    project: SecretKey
    runtime: Runtime
    pool: RelayPool
    _unfinished: Sequence[ConversationId]
    _services: Mapping[str, Callable[[], Any]]

    async def serve(self, ready: Callable[[], Awaitable[None]] | None = None) -> bool:
        """Serve until `runtime.stop`; returns whether everything came to rest within the deadline."""
        return await self.runtime.serve(self._services, self._unfinished, ready)


@asynccontextmanager
async def open_application(
    settings: Settings, *, model: Model | None = None, observers: Sequence[Observer] = (), pace: Pace | None = None
) -> AsyncIterator[Application]:
    """Put a daemon together; on leaving, every file is closed and the folder's lock is let go of.

    Args:
        settings: what the operator set.
        model: a mind to use in place of the configured ones; it is not trusted like the offline model.
        observers: hear what becomes durable.
        pace: slows the offline model down, for a demonstration.

    Raises:
        ConfigurationError: with all faults of settings, prompts, agents and keys.
        StoreLocked: another daemon holds the folder.
    """
    clock, spawn = SystemClock(), Spawner()
    async with AsyncExitStack() as stack:
        # folders and keys
        check_paths(settings)
        where = places(settings)
        _make_folders(where)
        people = circle(settings, parse_public_key)
        library = PromptLibrary.load(builtin_prompts(), where.agents, tools=TOOL_NAMES)
        keys = _keys(KeyRing(where.keys), library)
        roster = _roster(library, keys)
        project = keys[PROJECT]

        # store
        stack.enter_context(FolderLock(where.conversations))
        disk = Disk()
        stack.callback(disk.close)
        folder = ConversationFolder(where.conversations, disk, clock)
        stack.push_async_callback(folder.close)
        index = Index(where.conversations / "index.sqlite")
        stack.push_async_callback(index.close)
        book = await DaemonBook.open(where.conversations, disk, clock)
        stack.push_async_callback(book.close)

        # tools
        mind = model or _model(settings, library, pace)
        check = await _check_policy(settings, is_offline=model is None)
        tools = ToolRegistry(standard_tools(Workspace(where.workspace), book, check=check), roster.get)
        rules = Rules(
            roster={slug: agent for slug, agent in roster.items() if agent.kind is not Kind.ORCHESTRATOR},
            tools=tools.rules(), project=_project(settings, library, project), limits=limits(settings),
            gates=gate_rules(settings),
        )  # fmt: skip

        # words
        prompter = ConversationPrompter(
            library, rules=lambda: rules, tools=tools.specs, project_name=settings.project.name,
            lessons=lambda slug: [f"{known.title}: {known.lesson}" for known in book.lessons(slug)],
            workspace_notes=lambda: read_notes(where.workspace),
        )  # fmt: skip

        # relays
        urls = settings.relays.urls
        ours = {key.public: name for name, key in keys.items()}
        slugs: dict[str, PublicKey] = {slug: agent.pubkey for slug, agent in rules.roster.items()}
        pool = RelayPool(
            urls, on_event=lambda event, relay: None if introductions.heard(event) else listener.heard(event, relay),
            is_seen=index.has_event, identity=project,
        )  # fmt: skip
        publisher = Publisher(pool, {key.public: key for key in keys.values()})
        introductions = Introductions(
            pool, publisher, book, clock, urls, _identities(settings, rules), people.owners | people.members
        )

        # flow
        stages = Stages(clock=clock, model=mind, tools=tools, prompter=prompter, outbox=Outbox(publisher))
        listening: list[Observer] = [*observers]
        around = Surroundings(
            journals=_Journals(folder, Views(folder, disk)), stages=stages, sealer=FormSealer(urls), prompter=prompter,
            clock=clock, rules=lambda: rules, spawn=spawn,
            observers=listening,
        )  # fmt: skip
        coordinator = ConversationCoordinator(around)
        named = {agent.pubkey: slug for slug, agent in rules.roster.items()}
        inbox = Inbox(coordinator, _Directory(folder, index), people, clock, names=introductions.names, slugs=named)
        listener = Listener(pool, list(ours), slugs, None, inbox.receive)
        listening.append(Bookkeeper(folder, index, book, listener, rules.project.slug, spawn))
        unfinished = dict.fromkeys([*await index.catch_up(folder), *await folder.behind()])
        known = await index.rows(limit=500)
        introductions.start()
        listener.start(await last_heard(index, folder, urls, clock), [row.id for row in reversed(known)])

        yield Application(
            settings=settings, places=where, rules=rules, project=project, pool=pool,
            runtime=Runtime(spawn, coordinator, inbox, shutdown_deadline=settings.shutdown.deadline),
            _unfinished=list(unfinished),
            _services={
                "relays": pool.run,
                "cursors": lambda: keep_cursors(pool, index, clock),
                "introductions": introductions.run,
            },
        )  # fmt: skip


def _make_folders(where: Places) -> None:
    faults: list[str] = []
    for path in (where.conversations, where.workspace, where.keys):
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            faults.append(f"{path}: cannot be made ({error.strerror}); choose a data folder you own with --data")
    if faults:
        raise ConfigurationError(faults)


def _keys(ring: KeyRing, library: PromptLibrary) -> dict[str, SecretKey]:
    """The project's key and every agent's; an agent that is new gets one."""
    names = [PROJECT, *(definition.slug for definition in library.roster)]
    faults: list[str] = []
    keys: dict[str, SecretKey] = {}
    known = ring.names()
    for name in names:
        try:
            if name != PROJECT and name not in known:
                log.warning("key.made", name=name)  # a new agent; or one whose key was lost, and who is now another
            # the project's address is made by `tenex init` and never in passing: people would write to a stranger
            keys[name] = ring.get(name) if name == PROJECT else ring.get_or_create(name)
        except ConfigurationError as error:
            faults.extend(error.faults)
    if faults:
        raise ConfigurationError(faults)
    return keys


def _roster(library: PromptLibrary, keys: Mapping[str, SecretKey]) -> dict[Slug, Agent]:
    return {definition.slug: definition.agent(keys[definition.slug].public) for definition in library.roster}


def _project(settings: Settings, library: PromptLibrary, key: SecretKey) -> Agent:
    """The orchestrator, under the project's name."""
    return replace(library.orchestrator.agent(key.public), name=settings.project.name)


def _identities(settings: Settings, rules: Rules) -> list[Identity]:
    agents = [
        Identity(
            pubkey=agent.pubkey, name=agent.name, about=f"{agent.role} An agent of {settings.project.name}.".strip()
        )
        for agent in rules.roster.values()
    ]
    return [Identity(pubkey=rules.project.pubkey, name=settings.project.name, about=settings.project.about), *agents]


def _model(settings: Settings, library: PromptLibrary, pace: Pace | None) -> Model:
    """The mind. Every name must be known: an unknown one is never replaced in silence."""
    named = {"models.default": settings.models.default, "models.router": settings.models.router}
    for phase, model in settings.models.phases:
        named[f"models.phases.{phase}"] = model
    for slug, agent in settings.models.agents.items():
        named[f"models.agents.{slug}.model"] = agent.model
        for phase, model in agent.phases:
            named[f"models.agents.{slug}.phases.{phase}"] = model
    for definition in library.definitions.values():
        named[f"{definition.source}: model"] = definition.model or None
    faults = [
        f"{where}: {model!r} is not known to this version of tenex, which has only 'offline'."
        for where, model in named.items()
        if model not in (None, "offline")
    ]
    if faults:
        raise ConfigurationError(faults)
    return OfflineModel(pace)


async def _check_policy(settings: Settings, *, is_offline: bool) -> CheckPolicy:
    """Whether `check` may run a program: in a sandbox where there is one; without, only what rules have written."""
    if settings.tools.check == "off":
        return CheckPolicy.OFF
    if await asyncio.to_thread(probe_bubblewrap):
        return CheckPolicy.SANDBOXED
    return CheckPolicy.UNSANDBOXED if is_offline or settings.tools.check == "on" else CheckPolicy.OFF


class _Journals:
    """The folder's journals, and the views beside them."""

    def __init__(self, folder: ConversationFolder, views: Views) -> None:
        self._folder = folder
        self._views = views

    async def open(self, conversation: ConversationId) -> tuple[Journal, Sequence[Record]]:
        return await self._folder.open(conversation)

    async def show(self, conversation: Conversation) -> None:
        await self._views.show(conversation)


class _Directory:
    """Which conversations there are."""

    def __init__(self, folder: ConversationFolder, index: Index) -> None:
        self._folder = folder
        self._index = index

    def conversation_of(self, event_id: str) -> ConversationId | None:
        return self._index.conversation_of(event_id)

    def exists(self, conversation: ConversationId) -> bool:
        return self._index.conversation_of(conversation) == conversation or self._folder.path(conversation).exists()
