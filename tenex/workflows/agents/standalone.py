"""Runs an agent in the process that asks, without a daemon: a conversation between it and its caller.

It is a workflow of two speakers on the daemon's own core, so all that is journaled, gated and resumed there is here.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tenex.core import records as r
from tenex.core.agent_phases.program import AgentPhaseState, Program
from tenex.core.config import Agent, Limits, PeerGroup, Policy, Role, default_policy
from tenex.core.conversation import Conversation
from tenex.core.effects import Timer
from tenex.core.errors import InternalError, ModelRefused, ModelUnavailable, WorkflowError, kind_of
from tenex.core.ids import ConversationId, EventId, PublicKey, Slug
from tenex.core.memory.transcript import entries_for
from tenex.core.memory.window import CONTEXT_TOKENS, MESSAGE_CHARACTERS
from tenex.core.messages import AgentText, ModelRequest, ModelStep, Shown, StartEntry, ToolSpec, UserText, cut
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.ports import (
    Clock,
    ExecutionContext,
    Journals,
    Model,
    OnText,
    Prompt,
    Prompter,
    ToolResult,
    Tools,
    ignore_text,
)
from tenex.core.signals import AgentStateProvided, InboundMessage, MessageReceived, Signal
from tenex.core.subagents.links import agent_state_of, message_to
from tenex.core.work.records import Outcome
from tenex.core.work.run import Run
from tenex.core.work.turn import OrchestratorTurn
from tenex.log import get_logger
from tenex.workflows.kit.local_run import CALLER, LocalRun
from tenex.workflows.kit.steps import spent
from tenex.workflows.speakers.config import PERSON, Workflow, with_workflows
from tenex.workflows.speakers.rules import SpeakerRules, compiler

from .blueprint import Blueprint
from .definition import PhasedAgent, ask_now, blueprint, program
from .instance_state import InstanceState
from .invoke import call_method
from .templates import MESSAGE, render

log = get_logger(__name__)

OWNER: Final = (PublicKey(CALLER), Role.OWNER)
"""Who asks in a process of its own."""
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
    """One conversation of an agent, run until it has answered."""

    def __init__(
        self,
        conversation: ConversationId,
        slug: Slug,
        policy: Policy,
        journals: Journals,
        clock: Clock,
        *,
        model: Model,
        tools: Tools,
        prompter: Prompter,
        budget: Callable[[], int] = lambda: CONTEXT_TOKENS,
        person: tuple[PublicKey, Role] = OWNER,
    ) -> None:
        """`person` is the user who asks, and what they may do."""
        owners, members = ({person[0]} if person[1] is role else () for role in (Role.OWNER, Role.MEMBER))
        super().__init__(
            conversation,
            journals,
            policy,
            clock,
            model=_MeteredModel(model),
            tools=tools,
            prompter=prompter,
            budget=budget,
            people=PeerGroup(owners=frozenset(owners), members=frozenset(members)),
        )
        self._slug = slug
        self._person = person
        self._text: str | None = None
        self._given: Mapping[Slug, InstanceState] = {}
        self._before: OrchestratorTurn | None = None
        self._notices: list[str] = []

    @property
    def agent_state(self) -> AgentPhaseState | None:
        """Phase and state of the agent, as journaled."""
        return self.agent_states.get(self._slug)

    async def ask(self, text: str | None, instance: InstanceState) -> AgentResult:
        """Put a request to the agent, or go on with what is open, and wait for the answer.

        Raises:
            ModelUnavailable: the model cannot be reached; what was done is kept, and asking again goes on.
            WorkflowError: nothing was asked and nothing is open, or a limit is reached.
        """
        self._text, self._given = text, {self._slug: instance}
        state = await self.run_to_rest()
        if pending(state):
            retry = next(run.retry for run in state.work.runs.values() if run.retry is not None)
            sentence = f"{retry.message} What was done is kept: call `run` again to go on."
            raise ModelUnavailable(sentence, needs_operator=retry.needs_operator)
        turn = state.memory.last_turn
        if turn is None or (self._before is not None and turn.seq == self._before.seq):
            raise WorkflowError(" ".join(self._notices) or "Nothing was asked, and nothing is open to go on with.")
        done = next((one for one in turn.completions if one.agent == self._slug), None)
        if done is None:
            raise InternalError(f"the turn {turn.turn_id} closed without its agent")
        phase = self.agent_state.phase if self.agent_state is not None else ""
        return AgentResult(outcome=done.outcome, text=done.text, error=done.error, phase=phase)

    def _begin(self, state: Conversation) -> Iterator[Signal]:
        self._before = state.memory.last_turn if state.work.turn is None else None
        for slug, instance in self._given.items():
            given = instance.applied_to(state.memory.agent_states.get(slug))
            if given is not None:
                yield AgentStateProvided(agent=slug, agent_state=given)
        if any(run.is_held for run in state.work.runs.values()):
            yield self._message(state, "/continue")
        asked = next((m.text for m in reversed(state.cycle.messages) if m.role is not None), None)
        undecided = [one.signal.message.text for one in state.work.undecided if isinstance(one.signal, MessageReceived)]
        is_open = self._text in undecided or (state.work.turn is not None and asked == self._text)
        if self._text is not None and not is_open:
            yield self._message(state, self._text, is_plain=True)

    def _message(self, state: Conversation, text: str, *, is_plain: bool = False) -> MessageReceived:
        author, role = self._person
        message = InboundMessage(
            event_id=EventId(hashlib.sha256(f"{state.id}\n{state.next_seq}\n{is_plain}".encode()).hexdigest()),
            author=author,
            text=text,
            created_at=self._clock.now() // 1000,
            conversation=state.id,
            starts=True,
        )
        begins = (self._slug,) if state.cycle.status == "new" else ()
        return MessageReceived(message=message, role=role, name=CALLER, addressed=begins, is_plain=is_plain)

    def _is_active(self, state: Conversation) -> bool:
        wanted = pending(state).values()
        is_held = any(run.is_held for run in state.work.runs.values())
        return any(not isinstance(effect, Timer) for effect in wanted) or (bool(wanted) and not is_held)

    def _decide(self, state: Conversation, batch: Sequence[Signal]) -> tuple[Conversation, list[list[r.Record]]]:
        after, decisions = super()._decide(state, batch)
        sent = [record for decision in decisions for record in decision if isinstance(record, r.MessageSent)]
        self._notices += [record.text for record in sent if record.purpose != "completion"]
        return after, decisions


class _MeteredModel:
    """A model whose cost is reported to the node that runs the agent, if there is one."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Ask the model; whatever user code raises is a refusal."""
        try:
            step = await self._asked(request, on_text)
            spent(step.usage, step.model)
        except (ModelUnavailable, ModelRefused) as error:
            spent(error.usage, error.model)
            raise
        except Exception as error:  # the caller's own model: any fault is a refused call
            log.exception("model.raised", conversation=request.conversation)
            raise ModelRefused(f"{type(error).__name__}: {error}") from error
        return step

    async def _asked(self, request: ModelRequest, on_text: OnText) -> ModelStep:
        """The model's answer; user code may not check types."""
        try:
            inspect.signature(self._model.step).bind(request, on_text)
        except TypeError as fault:
            raise ModelRefused(
                "the model's `step` does not take two arguments; write `async def step(self, request, on_text)`"
            ) from fault
        asked: Any = self._model.step(request, on_text)
        if not inspect.isawaitable(asked):
            raise ModelRefused("the model's `step` is not async; write `async def step(request, on_text)`")
        step: object = await asked
        if not isinstance(step, ModelStep):
            raise ModelRefused(f"the model's `step` returned {kind_of(step)}; it must return a ModelStep")
        return step


class MemberPorts:
    """Prompts and tools of agents that are objects of this process; `core.ports.Prompter` and `Tools`."""

    def __init__(self, members: Mapping[Slug, PhasedAgent], roster: Mapping[Slug, Agent]) -> None:
        self._members = members
        self._roster = roster

    def work(self, conversation: Conversation, run: Run) -> Prompt:
        """The prompt at the start of a run, and again when phase or state has changed."""
        shape = blueprint(type(self._members[run.agent]))
        agent_state = agent_state_of(conversation, run, self._program(run.agent))
        system = render(shape.system, f"{shape.name}.__system_message__", agent_state, None)
        return Prompt(system=system, entries=tuple(self._entries(conversation, run, shape, agent_state)))

    def route(self, conversation: Conversation) -> ModelRequest:
        """No router is asked."""
        raise InternalError(f"{conversation.id} has no router")

    def specs(self, _phase: Phase | None, agent: Slug) -> tuple[ToolSpec, ...]:
        """The methods of an agent."""
        return tuple(method.spec for method in blueprint(type(self._members[agent])).methods.values())

    async def call(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        """Call a method on a copy of the agent in its journaled state."""
        return await call_method(
            self._members[context.agent],
            name,
            arguments,
            agent_state=self._program(context.agent).fitted(context.agent_state, ask_now),
            conversation=None,
            key=context.idempotency_key,
        )

    def _program(self, slug: Slug) -> Program:
        found = self._roster[slug].program
        assert found is not None
        return found

    def _entries(
        self, conversation: Conversation, run: Run, shape: Blueprint, agent_state: AgentPhaseState
    ) -> list[StartEntry]:
        """Return the entries at the start of a run; the request is rendered by the input template."""
        entries: list[StartEntry]
        if run.parent is not None:
            entries = [*entries_for(conversation, run)]
            if shape.input:
                text = put(shape, agent_state, message_to(conversation, run))
                entries = [replace(one, text=text) if isinstance(one, AgentText) else one for one in entries]
            return entries
        messages = conversation.memory.recent[-SHOWN:]
        entries = [Shown(seq=m.seq, limit=MESSAGE_CHARACTERS) for m in messages]
        if shape.input and messages and messages[-1].role is not None:
            last = messages[-1]
            text = put(shape, agent_state, cut(last.text, MESSAGE_CHARACTERS))
            entries[-1] = UserText(author=last.name, text=text, role=str(last.role), key=last.author)
        return entries


def put(shape: Blueprint, agent_state: AgentPhaseState, request: str) -> str:
    """A request as the agent's input template puts it."""
    return render(shape.input, f"{shape.name}.__input_template__", agent_state, None, **{MESSAGE: request})


def rules_of(slug: Slug, members: Mapping[Slug, PhasedAgent], limits: Limits) -> Policy:
    """The policy of a conversation between an agent and its caller."""
    slugs = {type(one): name for name, one in members.items()}
    roster = {name: member(name, one, slugs, is_itself=name == slug) for name, one in members.items()}
    return local_policy(dialogue(slug, roster[slug].name), roster, limits)


def dialogue(slug: Slug, name: str) -> Workflow:
    """A workflow in which an agent and its caller take turns."""
    return Workflow(
        slug=slug,
        name=name,
        pubkey=PublicKey(""),
        participants=(PERSON, slug),
        graph_data=SpeakerRules.round_robin((PERSON, slug)).to_dict(),
        expectations={},
        has_calls=False,
    )


def local_policy(workflow: Workflow, roster: Mapping[Slug, Agent], limits: Limits) -> Policy:
    """The policy of one workflow without a daemon."""
    project = Agent(slug=Slug(CALLER), name=CALLER, pubkey=PublicKey(f"project of {workflow.slug}"))
    bare = default_policy(roster=roster, tools={}, project=project)
    return with_workflows(replace(bare, limits=limits), {workflow.slug: workflow}, compiler())


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
