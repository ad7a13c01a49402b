"""Runs an agent in the process that asks, without a daemon: a conversation between it and its caller.

It is a workflow of two speakers on the daemon's own core, so all that is journaled, gated and resumed there is here.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog

from tenex.core import records as r
from tenex.core.config import Agent, Limits, Policy, Role
from tenex.core.context.prompt_lookup import prompted
from tenex.core.context.transcript import entries_for
from tenex.core.context.window import CONTEXT_TOKENS, MESSAGE_CHARACTERS, fitted
from tenex.core.conversation import Conversation
from tenex.core.decide.agent_phases import offered
from tenex.core.effects import Effect, ModelCall, Timer, ToolCall
from tenex.core.errors import InternalError, ModelRefused, ModelUnavailable, WorkflowError
from tenex.core.ids import ConversationId, EventId, PublicKey, Slug
from tenex.core.messages import AgentText, Entry, ModelRequest, Shown, UserText, cut, writable
from tenex.core.pending import pending
from tenex.core.ports import Clock, Journals, Model, Prompt
from tenex.core.records.run import Outcome
from tenex.core.signals import (
    AgentStateProvided,
    InboundMessage,
    MessageReceived,
    ModelAnswered,
    ModelFailed,
    Opened,
    Signal,
    ToolReturned,
)
from tenex.core.state.agent import AgentPhaseState, Program
from tenex.core.state.run import OrchestratorTurn, Run
from tenex.core.state.subagents import agent_state_of, message_to
from tenex.core.workflow_config import PERSON, Workflow
from tenex.workflows.local_run import CALLER, LocalRun, Work
from tenex.workflows.missions.steps import spent
from tenex.workflows.speakers.rules import RuleGraph, compiler

from .blueprint import Blueprint
from .definition import PhasedAgent, blueprint, program
from .instance_state import StateChanges
from .invoke import call_method
from .templates import MESSAGE, render

log = structlog.get_logger(__name__)

SHOWN: Final = 40
"""Messages an agent is shown when it is asked again: twenty questions and their answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """What became of one request."""

    outcome: Outcome
    text: str
    error: str
    phase: str
    """The current phase; empty for an agent without phases."""

    @property
    def final_output(self) -> str:
        """What the agent answered.

        Raises:
            WorkflowError: it gave no answer; the message has the reason.
        """
        if self.outcome != "finished":
            raise WorkflowError(f"The agent gave no answer, its run {self.outcome.replace('_', ' ')}: {self.error}.")
        return self.text


class LocalAgent(LocalRun):
    """One conversation of an agent, driven until it has answered."""

    def __init__(
        self,
        slug: Slug,
        members: Mapping[Slug, PhasedAgent],
        model: Model,
        journals: Journals,
        limits: Limits,
        clock: Clock,
        rules: Policy | None = None,
    ) -> None:
        super().__init__(journals, rules or _rules(slug, members, limits), clock)
        self._slug = slug
        self._members = members
        self._model = model
        self._text: str | None = None
        self._changes: StateChanges | None = None
        self._before: OrchestratorTurn | None = None
        self._notices: list[str] = []
        self.person = PublicKey(CALLER), Role.OWNER
        """Who asks, and what they may do."""

    @property
    def agent_state(self) -> AgentPhaseState | None:
        """Phase and state of the agent, as journaled."""
        return self.agent_states.get(self._slug)

    async def ask(self, conversation: ConversationId, text: str | None, changes: StateChanges) -> AgentResult:
        """Put a request to the agent, or go on with what is open, and wait for the answer.

        Raises:
            ModelUnavailable: the model cannot be reached; what was done is kept, and asking again goes on.
            WorkflowError: nothing was asked and nothing is open, or a limit is reached.
        """
        self._text, self._changes = text, changes
        state = await self.run(conversation)
        if pending(state):
            retry = next(run.retry for run in state.runs.values() if run.retry is not None)
            raise ModelUnavailable(f"{retry.message} What was done is kept: call `run` again to go on.")
        turn = state.last_turn
        if turn is None or (self._before is not None and turn.seq == self._before.seq):
            raise WorkflowError(" ".join(self._notices) or "Nothing was asked, and nothing is open to go on with.")
        done = next((one for one in turn.completions if one.agent == self._slug), None)
        if done is None:
            raise InternalError(f"the turn {turn.turn_id} closed without its agent")
        phase = self.agent_state.phase if self.agent_state is not None else ""
        return AgentResult(outcome=done.outcome, text=done.text, error=done.error, phase=phase)

    def _start(self, state: Conversation) -> None:
        self._before = state.last_turn if state.turn is None else None
        if pending(state):
            self.post(Opened())
        known = state.agent_states.get(self._slug)
        given = self._changes.applied_to(known) if self._changes is not None else None
        if given is not None:
            self.post(AgentStateProvided(agent=self._slug, standing=given))
        if any(run.is_held for run in state.runs.values()):
            self.post(self._words(state, "/continue"))
        asked = next((m.text for m in reversed(state.messages) if m.role is not None), None)
        if self._text is not None and not (state.turn is not None and asked == self._text):
            self.post(self._words(state, self._text, is_plain=True))

    def _words(self, state: Conversation, text: str, *, is_plain: bool = False) -> MessageReceived:
        now = self._clock.now()
        name = hashlib.sha256(f"{state.id}\n{state.next_seq}\n{len(self._inbox)}".encode()).hexdigest()
        message = InboundMessage(
            event_id=EventId(name),
            author=self.person[0],
            text=text,
            created_at=now // 1000,
            conversation=state.id,
            starts=True,
        )
        begins = (self._slug,) if state.status == "new" else ()
        return MessageReceived(message=message, role=self.person[1], name=CALLER, addressed=begins, is_plain=is_plain)

    def _is_active(self, state: Conversation) -> bool:
        wanted = pending(state).values()
        is_held = any(run.is_held for run in state.runs.values())
        return any(not isinstance(effect, Timer) for effect in wanted) or (bool(wanted) and not is_held)

    def _fill_in(self, record: r.Record, state: Conversation) -> r.Record:
        match record:
            case r.MessageSent() if record.speaker == self._rules.project.pubkey:
                self._notices.append(record.text)
            case r.RunStarted() | r.AgentPhaseChanged() | r.PromptRerendered():
                return prompted(state, record, self._prompt)
        return record

    # ---- prompts ----

    def _prompt(self, conversation: Conversation, run: Run) -> Prompt:
        """Return the prompt at the start of a run, and again when phase or state has changed."""
        shape = blueprint(type(self._members[run.agent]))
        agent_state = agent_state_of(conversation, run, self._program(run.agent))
        system = render(shape.system, f"{shape.name}.__system_message__", agent_state, None)
        return Prompt(system=system, entries=tuple(self._entries(conversation, run, shape, agent_state)))

    def _entries(
        self, conversation: Conversation, run: Run, shape: Blueprint, agent_state: AgentPhaseState
    ) -> list[Entry | Shown]:
        """Return the entries at the start of a run; the request is rendered by the input template."""
        entries: list[Entry | Shown]
        if run.parent is not None:
            entries = [*entries_for(conversation, run)]
            if shape.input:
                text = put(shape, agent_state, message_to(conversation, run))
                entries = [replace(one, text=text) if isinstance(one, AgentText) else one for one in entries]
            return entries
        messages = conversation.recent[-SHOWN:]
        entries = [Shown(seq=m.seq, limit=MESSAGE_CHARACTERS) for m in messages]
        if shape.input and messages and messages[-1].role is not None:
            last = messages[-1]
            text = put(shape, agent_state, cut(last.text, MESSAGE_CHARACTERS))
            entries[-1] = UserText(author=last.name, text=text, role=str(last.role), key=last.author)
        return entries

    def _program(self, slug: Slug) -> Program:
        found = self._rules.roster[slug].program
        assert found is not None
        return found

    # ---- work ----

    def _prepare(self, effect: Effect, state: Conversation) -> Work:
        match effect:
            case ModelCall():
                return partial(self._think, effect, self._request(state, effect))
            case ToolCall():
                return partial(self._call, effect, state)
            case Timer():
                return partial(self._sleep, effect)
        raise InternalError(f"an agent without a daemon cannot run {effect.key.work}")

    def _request(self, state: Conversation, effect: ModelCall) -> ModelRequest:
        run = state.runs[effect.run]
        methods = blueprint(type(self._members[run.agent])).methods.values()
        tools = offered(state, run, self._rules, [method.spec for method in methods])
        return ModelRequest(
            purpose="work",
            agent=run.agent,
            phase=run.phase,
            system=effect.system,
            tools=tools,
            entries=fitted(effect.system, effect.entries, tools, CONTEXT_TOKENS),
            conversation=state.id,
            idempotency_key=f"{state.id}:{effect.key.seq}",
        )

    async def _think(self, effect: ModelCall, request: ModelRequest) -> Signal:
        try:
            step = writable(await self._model.step(request))
            spent(step.usage, step.model)
            return ModelAnswered(key=effect.key, step=step)
        except (ModelUnavailable, ModelRefused) as error:
            spent(error.usage, error.model)
            return ModelFailed.of(effect.key, error)
        except Exception as error:  # a model that somebody wrote for this call may fail in any way
            log.exception("model.raised", key_seq=effect.key.seq)
            return ModelFailed(key=effect.key, message=f"{type(error).__name__}: {error}", retryable=False)

    async def _call(self, effect: ToolCall, state: Conversation) -> Signal:
        agent = self._members[effect.context.agent]
        agent_state = agent_state_of(state, state.runs[effect.run], self._program(effect.context.agent))
        result = await call_method(
            agent,
            effect.request.tool,
            effect.request.arguments,
            agent_state=agent_state,
            conversation=None,
            key=effect.context.idempotency_key,
        )
        return ToolReturned(key=effect.key, result=result)


def put(shape: Blueprint, agent_state: AgentPhaseState, request: str) -> str:
    """A request as the agent's input template puts it."""
    return render(shape.input, f"{shape.name}.__input_template__", agent_state, None, **{MESSAGE: request})


def _rules(slug: Slug, members: Mapping[Slug, PhasedAgent], limits: Limits) -> Policy:
    slugs = {type(one): name for name, one in members.items()}
    roster = {name: member(name, one, slugs, is_itself=name == slug) for name, one in members.items()}
    graph = RuleGraph.round_robin((PERSON, slug))
    talk = Workflow(
        slug=slug,
        name=roster[slug].name,
        pubkey=PublicKey(""),
        participants=(PERSON, slug),
        graph_data=graph.to_dict(),
        expectations={},
        has_calls=False,
    )
    project = Agent(slug=Slug(CALLER), name=CALLER, pubkey=PublicKey(f"project of {slug}"))
    return Policy(
        roster=roster,
        tools={},
        project=project,
        limits=limits,
        workflows={slug: talk},
        compile_graph=compiler(),
    )


def member(slug: Slug, agent: PhasedAgent, slugs: Mapping[type, Slug], *, is_itself: bool) -> Agent:
    """An agent as the core knows it."""
    shape = blueprint(type(agent))
    return Agent(
        slug=slug,
        name=shape.name,
        pubkey=PublicKey(slug),
        role=shape.description,
        program=program(agent, slugs, is_itself=is_itself),
        methods={name: method.rule for name, method in shape.methods.items()},
    )
