"""Asks an agent or a workflow of the daemon by its name, for a node of a mission.

The talk is a conversation of its own in memory: nothing of it is published or kept but its answer, which is the result
of the node's step, and what its models cost, which counts for the mission.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from tenex.core.config import Policy
from tenex.core.context.window import CONTEXT_TOKENS, fitted
from tenex.core.conversation import Conversation
from tenex.core.decide.agent_phases import offered
from tenex.core.effects import ModelCall, ToolCall
from tenex.core.errors import WorkflowError
from tenex.core.ids import ConversationId, PublicKey, Slug
from tenex.core.messages import ModelRequest
from tenex.core.ports import Clock, Model, Prompt, Prompter, Tools
from tenex.core.signals import Signal, ToolReturned
from tenex.core.state.run import Run
from tenex.core.workflow_config import PERSON, Workflow
from tenex.runtime.daily_limits import PRIORITY
from tenex.workflows.local_run import MemoryJournals
from tenex.workflows.missions.runner import PeerRequest
from tenex.workflows.missions.steps import Answer
from tenex.workflows.speakers.graph import TransitionGraph
from tenex.workflows.speakers.runner import LocalSpeakers


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """What the daemon's conversations work with; call it with a question."""

    model: Model
    tools: Tools
    prompter: Prompter
    rules: Callable[[], Policy]
    clock: Clock
    budget: Callable[[], int] = lambda: CONTEXT_TOKENS

    async def __call__(self, question: PeerRequest) -> Answer:
        """Ask, and wait for the answer.

        Raises:
            WorkflowError: there is none; the message says why.
            ModelUnavailable: a model cannot be reached.
        """
        rules, slug = self.rules(), Slug(question.name.strip().removeprefix("@"))
        if slug in rules.disabled:
            raise WorkflowError(f"The workflow {slug} is disabled: {rules.disabled[slug][0]}")
        agent = None if slug in rules.workflows else rules.find(slug)
        if agent is not None:
            slug = agent.slug
            rules = replace(rules, workflows={slug: _talk(slug)})
        elif slug not in rules.workflows:
            there = ", ".join(sorted([*rules.routable, *rules.workflows]))
            raise WorkflowError(f"There is no agent and no workflow of speakers {slug}. There are: {there}.")
        local = _DaemonTalk(self, slug, rules)
        if question.author is not None and question.role is not None:
            local.person = question.author, question.role
        identity = hashlib.sha256(question.key.encode()).hexdigest()
        state = await local.talk(ConversationId(identity), question.message)
        return _answer(slug, state, local.last_notice, is_agent=agent is not None)


class _DaemonTalk(LocalSpeakers):
    """A talk with the daemon's own agents, models and tools."""

    def __init__(self, asker: Asker, slug: Slug, rules: Policy) -> None:
        super().__init__(slug, rules, {}, asker.model, MemoryJournals(), asker.clock)
        self._asker = asker

    def _prompt(self, conversation: Conversation, run: Run) -> Prompt:
        return self._asker.prompter.work(conversation, run)

    def _request(self, state: Conversation, effect: ModelCall) -> ModelRequest:
        run = state.runs[effect.run]
        tools = offered(state, run, self._rules, self._asker.tools.specs(run.phase, run.agent))
        return ModelRequest(
            purpose="work",
            agent=run.agent,
            phase=run.phase,
            system=effect.system,
            tools=tools,
            entries=fitted(effect.system, effect.entries, tools, self._asker.budget()),
            conversation=state.id,
            idempotency_key=f"{state.id}:{effect.key.seq}",
            methods=frozenset(self._rules.roster[run.agent].methods),
            person=self.person[0],
            priority=PRIORITY.get(self.person[1], 2),
        )

    async def _call(self, effect: ToolCall, state: Conversation) -> Signal:
        del state
        result = await self._asker.tools.call(effect.request.tool, effect.request.arguments, effect.context)
        return ToolReturned(key=effect.key, result=result)


def _talk(slug: Slug) -> Workflow:
    """A conversation between an agent and the node that asks."""
    return Workflow(
        slug=slug,
        name=slug,
        pubkey=PublicKey(""),
        participants=(PERSON, slug),
        graph_data=TransitionGraph.round_robin((PERSON, slug)).to_dict(),
        expectations={},
        has_calls=False,
    )


def _answer(slug: Slug, state: Conversation, notice: str, *, is_agent: bool) -> Answer:
    session, turn = state.workflow, state.last_turn
    assert session is not None
    if state.runs:
        raise WorkflowError(f"{slug} asks a person, whom a node cannot stand in for: {notice}")
    if not session.is_closed and not is_agent:
        raise WorkflowError(f"The workflow {slug} waits for a person: {notice}")
    done = turn.completions[-1] if turn is not None and turn.completions else None
    if done is None or (is_agent and done.outcome != "finished"):
        raise WorkflowError(f"{slug} gave no answer: {done.error if done is not None else notice}.")
    return Answer(text=done.text, reason=session.close_reason, context=dict(session.speakers.context_vars))
