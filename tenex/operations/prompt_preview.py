"""The request that a model would be sent now, built by the code of the daemon.

    settings -> configure -> prompter, tools -> runtime executors -> a model that only keeps the request

Reads the files only, so it works beside a running daemon; no key is created, nothing is written, no model is called.
"""

import asyncio
import hashlib
from dataclasses import dataclass, replace

from tenex.configuration.agents import load_agents
from tenex.configuration.build import Configuration, StaticContext, configure
from tenex.configuration.models import is_offline
from tenex.configuration.output_states import outputs_of
from tenex.configuration.own_tools import find_own_tools
from tenex.core import records as r
from tenex.core.agent_phases.decide import ask_what_is_offered
from tenex.core.config import AgentKind, Policy, Role
from tenex.core.conversation import Conversation, fold, new_conversation
from tenex.core.effects import ModelCall, Route
from tenex.core.errors import ConfigurationError, InternalError, UsageError
from tenex.core.functions.verdicts import Unanswered, Verdict
from tenex.core.ids import ConversationId, EventId, PublicKey, Slug
from tenex.core.memory.window import request_tokens
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.pending import pending
from tenex.core.people.decider import BY_RULE
from tenex.core.phases import Phase, way
from tenex.core.ports import OnText, PublishOutcome, UnsignedEvent, ignore_text
from tenex.core.transaction import Transaction
from tenex.core.work.tool_names import server_of
from tenex.core.work.turns import open_turn
from tenex.llm.config import split_name
from tenex.nostr.keys import Key, KeyRing, SecretKey
from tenex.output_states import in_states
from tenex.prompting import PromptLibrary
from tenex.runtime.clock import SystemClock
from tenex.runtime.daily_limits import DailyLimits
from tenex.runtime.executors import Executors
from tenex.runtime.functions import FunctionCalls
from tenex.runtime.outbox import Outbox
from tenex.settings import ProjectPaths, Settings, resolve_paths
from tenex.store.disk import Disk
from tenex.store.journal_reader import NEWEST
from tenex.store.opening import open_conversations
from tenex.tools.sandbox import probe_bubblewrap
from tenex.tools.workspace import Workspace
from tenex.workflows.phases.decide import want_router

from .lessons import read_lessons
from .listed_tools import NOTHING_LISTED, ListedTools, listed_tools
from .short_ids import conversation_of

SAMPLE = "Write hello.py that prints hello"
"""What a user writes where no conversation is named."""
REASON = "what is wanted of the agent, in the words of the orchestrator"
"""In place of a decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A request and the models it would go to."""

    request: ModelRequest
    models: tuple[str, ...]
    """In the order of fallback."""
    unlisted: tuple[str, ...] = ()
    """What its file names of MCP servers whose tools are not known now."""

    @property
    def tokens(self) -> int:
        """Estimated tokens of the request."""
        return request_tokens(self.request.system, self.request.entries, self.request.tools)


async def preview(
    settings: Settings, slug: str, phase: Phase | None = None, *, conversation: str | None = None, message: str = SAMPLE
) -> Preview:
    """The first request of an agent's run if it began now; for the orchestrator, the routing request.

    Args:
        settings: What the operator set.
        slug: A member of the library.
        phase: Where the run begins; by default the conversation's, or where the agent usually works.
        conversation: The beginning of a conversation's id; None for a new one.
        message: The user's message in the new one.

    Raises:
        ConfigurationError: with all faults of settings, prompts, agents and keys.
        UsageError: there is no such agent or conversation.
        StoreDamaged: a journal that is needed cannot be read.
    """
    where = resolve_paths(settings)
    library = load_agents(where, own=find_own_tools(settings, where))
    definition = library.definitions.get(Slug(slug))
    if definition is None and (faults := library.faults.get(Slug(slug))):
        raise ConfigurationError(faults)
    if definition is None:
        raise UsageError(f"there is no agent {slug!r}; there are: {', '.join(library.definitions)}")
    named = [name for name in definition.tools if server_of(name)]
    listed = await listed_tools(where) if named else NOTHING_LISTED
    configuration = await load_readonly(settings, where, library, listed)
    known = _sample(configuration.policy, message) if conversation is None else await _read(settings, conversation)
    usual = definition.phases[:1] if conversation is None else ()
    there = _in_phase(known, phase or next(iter(usual), known.cycle.phase), configuration.policy)
    if definition.kind is AgentKind.ORCHESTRATOR:
        return Preview(request=await _question(there, configuration), models=configuration.settings.models.for_router())
    chain = configuration.settings.models.for_agent(slug, there.cycle.phase, definition.model or None)
    request = await _first_step(there, Slug(slug), configuration)
    return Preview(
        request=await _by_states(request, chain[0], settings, where, library),
        models=chain,
        unlisted=tuple(name for name in named if server_of(name) not in listed.prefixes),
    )


async def _by_states(
    request: ModelRequest, model: str, settings: Settings, where: ProjectPaths, library: PromptLibrary
) -> ModelRequest:
    """The request with output states, as the first model of the chain would get it."""
    output = outputs_of(library, where).get(request.agent)
    provider = split_name(model)
    form = output.format_for(request.tools) if output is not None and provider is not None else None
    if form is None or provider is None:
        return request
    given = settings.models.providers.get(provider[0])
    return in_states(request, form, enforced=given.grammar if given is not None else "none")


async def load_readonly(
    settings: Settings, where: ProjectPaths, library: PromptLibrary, listed: ListedTools = NOTHING_LISTED
) -> Configuration:
    """The current configuration without side effects: no key is created, no model reached, nothing stored.

    `listed` are the tools of MCP servers, as far as they are known.

    Raises:
        ConfigurationError: with all faults.
    """
    # the list of users changes no prompt, and a preview needs none
    opened = settings.model_copy(update={"people": settings.people.model_copy(update={"open": True})})
    ground = StaticContext(
        places=where,
        ring=_ReadOnlyKeyRing(where, library),
        book=await read_lessons(settings.store, where.conversations),
        workspace=Workspace(where.workspace),
        has_sandbox=await asyncio.to_thread(probe_bubblewrap),
        # models are built where the choice of tools depends on them, and need no key then
        model=None if is_offline(settings, library) else _RequestRecorder(),
        mcp_tools=listed,
    )
    return configure(opened, ground)


# ---- the conversation ---------------------------------------------------------------------------------------------


def _sample(policy: Policy, message: str) -> Conversation:
    transaction = Transaction(new_conversation(ConversationId("0" * 64)), policy, SystemClock().now())
    transaction.add(
        r.ConversationStarted, id=transaction.state.id, title="sample", starter=PublicKey("0" * 64), address={}
    )
    transaction.add(r.CycleStarted, cycle=1, reason="a user wrote")
    transaction.add(
        r.MessageRecorded,
        event_id=EventId("0" * 64),
        author=PublicKey("0" * 64),
        name="you",
        role=Role.OWNER,
        text=message,
        created_at=transaction.now // 1000,
    )
    return transaction.state


async def _read(settings: Settings, start: str) -> Conversation:
    root = resolve_paths(settings).conversations
    disk = Disk()
    try:
        async with open_conversations(settings.store, root, disk, SystemClock()) as folder:
            name = ConversationId(conversation_of(start, await folder.lengths()))
            return fold(name, await folder.read(name, NEWEST))
    finally:
        disk.close()


def _in_phase(known: Conversation, phase: Phase, policy: Policy) -> Conversation:
    """The conversation between two turns, in that phase: by permitted transitions where there are some."""
    transaction = Transaction(known, policy, SystemClock().now())
    state = transaction.state
    state.work = replace(state.work, turn=None, runs={})
    state.router = replace(state.router, question=None)
    for target in way(state.cycle.phase, phase):
        transaction.add(
            r.PhaseTransition,
            from_=state.cycle.phase,
            to=target,
            message=REASON,
            agent_pubkey=policy.project.pubkey,
            agent_name=policy.project.name,
            reason=REASON,
            summary=state.memory.last_turn.summary if state.memory.last_turn is not None and state.cycle.turns else "",
        )
    return state


# ---- the request --------------------------------------------------------------------------------------------------


async def _first_step(there: Conversation, agent: Slug, configuration: Configuration) -> ModelRequest:
    transaction = _with_turn(there, agent, configuration.policy)
    started = next(record for record in transaction.records if isinstance(record, r.RunStarted))
    state = transaction.state
    prompt = configuration.prompter.work(state, state.work.runs[started.run])
    digest = hashlib.sha256(prompt.system.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    state.apply(
        replace(started, seq=state.next_seq, digest=digest, system=prompt.system, entries=prompt.entries)
    )  # the actor records the prompt; here the run is started again with it
    return await _asked(state, ModelCall, configuration)


def _with_turn(there: Conversation, agent: Slug, policy: Policy) -> Transaction:
    """The agent's turn, as soon as the functions have answered on which its state and its tools depend."""
    verdicts: dict[str, Verdict] = {}
    functions = FunctionCalls()
    while True:
        transaction = Transaction(there, policy, SystemClock().now())
        transaction.state.work = replace(transaction.state.work, verdicts=verdicts)
        try:
            open_turn(transaction, [agent], REASON, BY_RULE)
            ask_what_is_offered(transaction)
        except Unanswered as missing:
            verdict = functions.verdict(missing.question)
            verdicts = {**verdicts, verdict.key: verdict}
        else:
            return transaction


async def _question(there: Conversation, configuration: Configuration) -> ModelRequest:
    transaction = Transaction(there, configuration.policy, SystemClock().now())
    want_router(transaction, 1)
    if transaction.state.router.question is None:  # a limit is reached: the request after `/continue`
        transaction.add(r.RouteRequested, attempt=1)
    return await _asked(transaction.state, Route, configuration)


async def _asked(
    state: Conversation, kind: type[ModelCall] | type[Route], configuration: Configuration
) -> ModelRequest:
    recorder = _RequestRecorder()
    stages = Executors(
        clock=SystemClock(),
        model=recorder,
        tools=configuration.tools,
        prompter=configuration.prompter,
        policy=lambda: configuration.policy,
        outbox=Outbox(_NoPublisher()),
        daily=DailyLimits(SystemClock(), lambda: configuration.policy.limits, lambda: configuration.people),
        budget=lambda: configuration.settings.models.context_tokens,
    )
    effect = next(effect for effect in pending(state).values() if isinstance(effect, kind))
    await stages.prepare(state, effect)()
    if recorder.request is None:
        raise InternalError("the request could not be built; see the log")
    return recorder.request


class _RequestRecorder:
    """A model that keeps its request."""

    def __init__(self) -> None:
        self.request: ModelRequest | None = None

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        del on_text
        self.request = request
        return ModelStep()


class _NoPublisher:
    async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
        raise InternalError(f"a preview published {event.id} to {relay}")


class _ReadOnlyKeyRing(KeyRing):
    """The existing keys; an agent without one gets a key that is not stored."""

    def __init__(self, where: ProjectPaths, library: PromptLibrary) -> None:
        super().__init__(*where.key_folders)
        self._slugs = tuple(str(slug) for slug in library.definitions)

    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().names(), *self._slugs)))

    def read(self, name: str) -> Key:
        return super().read(name) if name in super().names() else SecretKey.generate()

    def read_or_create(self, name: str) -> Key:
        return self.read(name)
