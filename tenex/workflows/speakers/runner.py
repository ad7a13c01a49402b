"""Runs a workflow of speakers in the process that asks, without a daemon: its rules, and agents as Python classes.

graph = TransitionGraph.round_robin(["writer", "editor"], max_turns=4)
result = await graph.run("Write a limerick", agents={"writer": Writer(), "editor": "You edit."}, model=model)
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tenex.core.agent_phases.program import AgentPhaseState
from tenex.core.config import Agent, Limits, Policy
from tenex.core.conversation import Conversation
from tenex.core.errors import ConfigurationError, ModelUnavailable, UsageError, WorkflowError, kind_of
from tenex.core.ids import ConversationId, PublicKey, Slug
from tenex.core.memory.transcript import PART, entries_for
from tenex.core.messages import ModelRequest, ModelStep, Note, StartEntry
from tenex.core.ports import Clock, Journals, Model, OnText, ignore_text
from tenex.core.work.run import Run
from tenex.runtime.clock import SystemClock
from tenex.workflows.agents.base import BaseAgent
from tenex.workflows.agents.blueprint import Blueprint
from tenex.workflows.agents.definition import PhasedAgent, blueprint, with_subagents
from tenex.workflows.agents.instance_state import InstanceState
from tenex.workflows.agents.standalone import LocalAgent, MemberPorts, local_policy, member, put
from tenex.workflows.kit.local_run import MemoryJournals, check_given, check_message
from tenex.workflows.speakers.config import PERSON
from tenex.workflows.speakers.state import session_of

from .rules import SpeakerRules
from .workflow import Workflow


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message of a workflow."""

    speaker: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowResult:
    """What became of a workflow, so far."""

    reason: str
    """Why it ended; "" where it waits for the person."""
    error: str = ""
    """What failed, as sentences, where the reason is `rule_failed` or `unknown_speaker`."""
    messages: tuple[Spoken, ...]
    """The messages, oldest first; of a long conversation the newest."""
    context: Mapping[str, Any] = field(default_factory=dict)
    """Its variables."""
    turns: int = 0
    thread: str = ""
    """The name by which a later run goes on with this one, where both have the same journal."""

    @property
    def final_output(self) -> str:
        """The last words of an agent; "" where none has spoken."""
        return next((message.text for message in reversed(self.messages) if message.speaker != PERSON), "")


class LocalSpeakers(LocalAgent):
    """One conversation of a workflow, run until it has ended or waits for a person."""

    async def talk(self, text: str | None, given: Mapping[Slug, InstanceState] | None = None) -> Conversation:
        """Begin, or go on where the journal ends; `given` are the states that agents begin with.

        Raises:
            ModelUnavailable: a model cannot be reached; what was done is kept in the journal.
            WorkflowError: it could not begin.
        """
        self._text = text
        self._given = given or {}
        state = await self.run_to_rest()
        held = next((run.retry for run in state.work.runs.values() if run.retry is not None), None)
        if held is not None:
            raise ModelUnavailable(held.message, needs_operator=held.needs_operator)
        if session_of(state) is None:
            raise WorkflowError(self.last_notice or "Nothing was asked, and nothing is open to go on with.")
        return state

    @property
    def last_notice(self) -> str:
        """The last notice to the user that is no agent's answer; "" for none."""
        return self._notices[-1] if self._notices else ""

    def _is_active(self, state: Conversation) -> bool:
        runs = state.work.runs.values()
        session = session_of(state)
        is_over = session is None or session.is_closed
        return not is_over and any(not (run.is_parked or run.is_held) for run in runs)


class _SpeakerPorts(MemberPorts):
    """Prompts and tools of agents that take turns; the input template renders the part of a turn."""

    def _entries(
        self, conversation: Conversation, run: Run, shape: Blueprint, agent_state: AgentPhaseState
    ) -> list[StartEntry]:
        if run.parent is not None:
            return super()._entries(conversation, run, shape, agent_state)
        return [
            Note(title=PART, text=put(shape, agent_state, entry.text))
            if shape.input and isinstance(entry, Note) and entry.title == PART
            else entry
            for entry in entries_for(conversation, run)
        ]


async def run_workflow(
    graph: SpeakerRules,
    message: str | None,
    agents: Mapping[str, BaseAgent | str],
    participants: Sequence[str],
    context: Mapping[str, Any] | None,
    *,
    model: Model | None = None,
    journal: Journals | None = None,
    thread: str | None = None,
    limits: Limits | None = None,
    clock: Clock | None = None,
) -> WorkflowResult:
    """Run a workflow to its end, or until it waits for the person; see `TransitionGraph.run`."""
    check_given(journal=journal, clock=clock, model=model, limits=limits, thread=thread)
    check_message(message)
    given: object = agents  # user code may not check types
    if not isinstance(given, Mapping):
        raise UsageError(f"`agents` is {kind_of(given)}; give a dict of names with agents, or their instructions.")
    workflow = Workflow(graph=graph, participants=participants, context=context or {})
    if faults := [*workflow.faults()]:
        raise ConfigurationError(faults)
    speakers = {Slug(name): _agent(name, given) for name, given in agents.items()}
    missing = [name for name in workflow.everybody if name != PERSON and name not in speakers]
    if missing:
        there = ", ".join(speakers) or "none"
        raise UsageError(f"{', '.join(missing)} takes part, and is not among `agents`: {there}.")
    slug = Slug("workflow")
    members, policy = _rules(slug, workflow, speakers, limits or Limits())
    name = thread or uuid4().hex
    ports = _SpeakerPorts(members, policy.roster)
    local = LocalSpeakers(
        ConversationId(hashlib.sha256(f"workflow {graph.dumps()}\n{name}".encode()).hexdigest()),
        slug,
        policy,
        journal or MemoryJournals(),
        clock or SystemClock(),
        model=_Models(speakers, model),
        tools=ports,
        prompter=ports,
    )
    try:
        state = await local.talk(message, {name: agent._instance for name, agent in speakers.items()})
    finally:
        for known, agent in speakers.items():
            if known in local.agent_states:
                agent._instance = InstanceState(blueprint(type(agent)).fields, local.agent_states[known], None)
    return _result(state, name, policy)


def _agent(name: object, given: object) -> BaseAgent:
    if not isinstance(name, str) or not name:
        raise UsageError(f"`agents` has the name {name!r}; a name is a text that is not empty.")
    if isinstance(given, BaseAgent):
        if getattr(type(given), "output", None):
            raise UsageError(f"agents[{name!r}] has `output`, which only a daemon reads; leave it out.")
        return given
    if isinstance(given, str) and given.strip():
        made: type[BaseAgent] = type("Speaker", (BaseAgent,), {"__system_message__": given, "__module__": __name__})
        return made()
    what = "an empty text" if isinstance(given, str) else kind_of(given)
    raise UsageError(f"agents[{name!r}] is {what}; give an agent (BaseAgent), or its instructions.")


def _rules(
    slug: Slug, workflow: Workflow, speakers: Mapping[Slug, BaseAgent], limits: Limits
) -> tuple[dict[Slug, PhasedAgent], Policy]:
    members: dict[Slug, PhasedAgent] = {}
    roster: dict[Slug, Agent] = {}
    for name, speaker in speakers.items():
        own = with_subagents(speaker, name)
        slugs = {type(one): known for known, one in own.items()}
        for known, one in own.items():
            if known in members and type(members[known]) is not type(one):
                raise UsageError(f"{known} is the name of two agents; give one of them another.")
            members[known] = one
            roster[known] = member(known, one, slugs, is_itself=known == name)
    talk = workflow.configured(slug, PublicKey(""))
    return members, local_policy(talk, roster, limits)


class _Models:
    """The model of each agent: its own, else the one that was given for all."""

    def __init__(self, speakers: Mapping[Slug, BaseAgent], model: Model | None) -> None:
        self._own = {name: agent._model for name, agent in speakers.items() if agent._model is not None}
        self._model = model
        if lacking := [name for name in speakers if name not in self._own] if model is None else []:
            raise UsageError(f"{', '.join(lacking)} has no model; give one as model=tenex.get_model(...).")

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Ask the model of the agent that speaks."""
        model = self._own.get(request.agent) or self._model or next(iter(self._own.values()))
        return await model.step(request, on_text)


def _result(state: Conversation, thread: str, policy: Policy) -> WorkflowResult:
    session = session_of(state)
    assert session is not None
    slugs = {agent.pubkey: slug for slug, agent in policy.roster.items()}
    messages = (
        Spoken(str(PERSON if message.role is not None else slugs.get(message.author, Slug(message.name))), message.text)
        for message in state.memory.recent
    )
    return WorkflowResult(
        reason=session.close_reason,
        error=session.error,
        messages=tuple(messages),
        context=dict(session.speakers.context_vars),
        turns=session.speakers.turn_count,
        thread=thread,
    )
