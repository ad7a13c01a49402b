"""What a model would be sent now: the daemon's own way to a request, walked without a daemon.

    settings -> configure -> prompter, tools -> the flow's stages -> a model that only keeps what it was asked

Reads the files only, so it works beside a running daemon; no key is made, nothing is written, no model is called.
"""

import asyncio
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from tenex.configuration.agents import load_agents
from tenex.configuration.build import Configuration, StaticContext, configure
from tenex.configuration.models import is_offline
from tenex.configuration.output_states import outputs_of
from tenex.core import records as r
from tenex.core.config import Kind, Policy, Role
from tenex.core.context.window import request_tokens
from tenex.core.conversation import Conversation, fold
from tenex.core.decide.agent_phases import ask_what_is_offered
from tenex.core.decide.transaction import Transaction
from tenex.core.decide.turns import open_turn
from tenex.core.effects import ModelCall, Route
from tenex.core.errors import InternalError, UsageError
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, Slug
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.pending import pending
from tenex.core.phases import Phase, way
from tenex.core.ports import OnText, PublishOutcome, UnsignedEvent, ignore_text
from tenex.core.verdicts import Unanswered, Verdict, call_now
from tenex.llm.config import split_name
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.output_states import in_states
from tenex.prompting import PromptLibrary
from tenex.runtime.clock import SystemClock
from tenex.runtime.daily_limits import DailyLimits
from tenex.runtime.executors import Executors
from tenex.runtime.outbox import Outbox
from tenex.settings import ProjectPaths, Settings, resolve_paths
from tenex.store.disk import Disk
from tenex.store.journal_reader import NEWEST
from tenex.store.repository import ConversationFolder
from tenex.tools.sandbox import probe_bubblewrap
from tenex.tools.workspace import Workspace
from tenex.workflows.phases.decide import ask_router

from .lessons import StoredLessons
from .short_ids import conversation_of

SAMPLE = "Write hello.py that prints hello"
"""What a user writes where no conversation is named."""
REASON = "what is wanted of the agent, in the words of the orchestrator"
"""Stands where a decision would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A request as it would go out, and where to."""

    request: ModelRequest
    models: tuple[str, ...]
    """The first is asked first."""

    @property
    def tokens(self) -> int:
        """The estimated tokens of it."""
        return request_tokens(self.request.system, self.request.entries, self.request.tools)


async def preview(
    settings: Settings, slug: str, phase: Phase | None = None, *, conversation: str | None = None, message: str = SAMPLE
) -> Preview:
    """What the agent's model would be sent if its run began now; of the orchestrator, the question it would be asked.

    Args:
        settings: What the operator set.
        slug: A member of the library.
        phase: Where the run begins; by default the conversation's, or where the agent usually works.
        conversation: The beginning of a conversation's id; None for a new one.
        message: What a person has written in the new one.

    Raises:
        ConfigurationError: with all faults of settings, prompts, agents and keys.
        UsageError: there is no such agent or conversation.
        StoreDamaged: a journal that is needed cannot be read.
    """
    where = resolve_paths(settings)
    library = load_agents(where)
    definition = library.definitions.get(Slug(slug))
    if definition is None:
        raise UsageError(f"there is no agent {slug!r}; there are: {', '.join(library.definitions)}")
    configuration = await load_readonly(settings, where, library)
    known = _sample(configuration.rules, message) if conversation is None else await _read(where, conversation)
    usual = definition.phases[:1] if conversation is None else ()
    there = _standing(known, phase or next(iter(usual), known.phase), configuration.rules)
    if definition.kind is Kind.ORCHESTRATOR:
        return Preview(request=await _question(there, configuration), models=settings.models.for_router())
    chain = settings.models.for_agent(slug, there.phase, definition.model or None)
    request = await _first_step(there, Slug(slug), configuration)
    return Preview(request=await _by_states(request, chain[0], settings, where, library), models=chain)


async def _by_states(
    request: ModelRequest, model: str, settings: Settings, where: ProjectPaths, library: PromptLibrary
) -> ModelRequest:
    """The request as the first model of the chain is sent it, where the agent speaks by states."""
    output, provider = outputs_of(library, where).get(request.agent), split_name(model)
    form = output.format_for(request.tools) if output is not None and provider is not None else None
    if form is None or provider is None:
        return request
    given = settings.models.providers.get(provider[0])
    return in_states(request, form, enforced=given.grammar if given is not None else "none")


async def load_readonly(settings: Settings, where: ProjectPaths, library: PromptLibrary) -> Configuration:
    """The configuration as it is now, for a look: no key is made, no model reached, nothing kept.

    Raises:
        ConfigurationError: with all faults.
    """
    # who may talk here changes no prompt, and no user needs to be named for a preview
    opened = settings.model_copy(update={"people": settings.people.model_copy(update={"open": True})})
    ground = StaticContext(
        places=where,
        ring=_Glance(where.keys, library),
        book=StoredLessons(where.conversations),
        workspace=Workspace(where.workspace),
        has_sandbox=await asyncio.to_thread(probe_bubblewrap),
        # models are built where the choice of tools depends on them, and need no key then
        model=None if is_offline(settings, library) else _Keeper(),
    )
    return configure(opened, ground)


# ---- the conversation ---------------------------------------------------------------------------------------------


def _sample(rules: Policy, message: str) -> Conversation:
    draft = Transaction(Conversation(id=ConversationId("0" * 64)), rules, SystemClock().now())
    draft.add(r.ConversationStarted, id=draft.state.id, title="sample", starter=PublicKey("0" * 64), address={})
    draft.add(r.CycleStarted, cycle=1, reason="a person wrote")
    draft.add(
        r.MessageRecorded,
        event_id=EventId("0" * 64),
        author=PublicKey("0" * 64),
        name="you",
        role=Role.OWNER,
        text=message,
        created_at=draft.now // 1000,
    )
    return draft.state


async def _read(where: ProjectPaths, start: str) -> Conversation:
    disk = Disk()
    try:
        folder = ConversationFolder(where.conversations, disk, SystemClock())
        name = ConversationId(conversation_of(start, await folder.lengths()))
        return fold(name, await folder.read(name, NEWEST))
    finally:
        disk.close()


def _standing(known: Conversation, phase: Phase, rules: Policy) -> Conversation:
    """The conversation between two turns, in that phase: by the table where there is a way, else at once."""
    draft = Transaction(known, rules, SystemClock().now())
    state = draft.state
    state.turn, state.runs, state.question = None, {}, None
    for target in way(state.phase, phase):
        draft.add(
            r.PhaseTransition,
            from_=state.phase,
            to=target,
            message=REASON,
            agent_pubkey=rules.project.pubkey,
            agent_name=rules.project.name,
            reason=REASON,
            announce_at=Millis(draft.now),
            summary=state.last_turn.summary if state.last_turn is not None and state.turns else "",
        )
    return state


# ---- the request --------------------------------------------------------------------------------------------------


async def _first_step(there: Conversation, agent: Slug, configuration: Configuration) -> ModelRequest:
    draft = _with_turn(there, agent, configuration.rules)
    started = next(record for record in draft.records if isinstance(record, r.RunStarted))
    state = draft.state
    prompt = configuration.prompter.work(state, state.runs[started.run])
    digest = hashlib.sha256(prompt.system.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    state.apply(
        replace(started, seq=state.next_seq, digest=digest, system=prompt.system, entries=prompt.entries)
    )  # the actor fixes the prompt in the record itself; here the run begins once more, with it
    return await _asked(state, ModelCall, configuration)


def _with_turn(there: Conversation, agent: Slug, rules: Policy) -> Transaction:
    """The agent's turn, as soon as the functions have answered on which its state and its tools depend."""
    verdicts: dict[str, Verdict] = {}
    while True:
        draft = Transaction(there, rules, SystemClock().now())
        draft.state.verdicts = verdicts
        try:
            open_turn(draft, [agent], REASON)
            ask_what_is_offered(draft)
        except Unanswered as missing:
            verdict = call_now(missing.question)
            verdicts = {**verdicts, verdict.key: verdict}
        else:
            return draft


async def _question(there: Conversation, configuration: Configuration) -> ModelRequest:
    draft = Transaction(there, configuration.rules, SystemClock().now())
    ask_router(draft, 1)
    if draft.state.question is None:  # a limit is reached: what would be asked after `/continue`
        draft.add(r.RouteRequested, attempt=1)
    return await _asked(draft.state, Route, configuration)


async def _asked(
    state: Conversation, kind: type[ModelCall] | type[Route], configuration: Configuration
) -> ModelRequest:
    keeper = _Keeper()
    stages = Executors(
        clock=SystemClock(),
        model=keeper,
        tools=configuration.tools,
        prompter=configuration.prompter,
        rules=lambda: configuration.rules,
        outbox=Outbox(_Nobody()),
        daily=DailyLimits(SystemClock(), lambda: configuration.rules.limits, lambda: configuration.people),
        budget=lambda: configuration.settings.models.context_tokens,
    )
    effect = next(effect for effect in pending(state).values() if isinstance(effect, kind))
    await stages.prepare(state, effect)()
    if keeper.request is None:
        raise InternalError("the request could not be built; the log says why")
    return keeper.request


class _Keeper:
    """A model that keeps what it was asked."""

    def __init__(self) -> None:
        self.request: ModelRequest | None = None

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        del on_text
        self.request = request
        return ModelStep()


class _Nobody:
    """Takes the place of the outbox; nothing is published here."""

    async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
        raise InternalError(f"{event.id} was to be published to {relay} from a preview")


class _Glance(KeyRing):
    """The keys there are; an agent without one gets one that is forgotten."""

    def __init__(self, folder: Path, library: PromptLibrary) -> None:
        super().__init__(folder)
        self._slugs = tuple(str(slug) for slug in library.definitions)

    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().names(), *self._slugs)))

    def get(self, name: str) -> SecretKey:
        return super().get(name) if name in super().names() else SecretKey.generate()

    def get_or_create(self, name: str) -> SecretKey:
        return self.get(name)
