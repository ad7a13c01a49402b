"""Asks an agent or a workflow of the daemon by its name, for a node of a mission.

The talk is a conversation of its own in memory: nothing of it is published or kept but its answer, which is the result
of the node's step, and what its models cost, which counts for the mission.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.errors import ModelUnavailable, WorkflowError
from tenex.core.ids import ConversationId, Slug
from tenex.core.memory.window import CONTEXT_TOKENS
from tenex.core.ports import Clock, Model, Prompter, Tools
from tenex.core.records import ModelResponded
from tenex.workflows.agents.standalone import OWNER, dialogue
from tenex.workflows.kit.local_run import MemoryJournals
from tenex.workflows.missions.nodes import Answer
from tenex.workflows.missions.runner import PeerRequest
from tenex.workflows.speakers.config import rules_of, with_workflows
from tenex.workflows.speakers.runner import LocalSpeakers
from tenex.workflows.speakers.state import session_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """What the daemon's conversations work with; call it with a question."""

    model: Model
    tools: Tools
    prompter: Prompter
    policy: Callable[[], Policy]
    clock: Clock
    budget: Callable[[], int] = lambda: CONTEXT_TOKENS

    async def __call__(self, question: PeerRequest) -> Answer:
        """Ask, and wait for the answer.

        Raises:
            WorkflowError: there is no answer; the message gives the reason.
            ModelUnavailable: a model cannot be reached.
        """
        policy = self.policy()
        slug = Slug(question.name.strip().removeprefix("@"))
        if slug in policy.disabled:
            raise WorkflowError(f"The workflow {slug} is disabled: {policy.disabled[slug][0]}")
        if slug in policy.disabled_agents:
            raise WorkflowError(f"The agent {slug} is disabled: {policy.disabled_agents[slug][0]}")
        agent = None if slug in rules_of(policy).workflows else policy.find(slug)
        if agent is not None:
            slug = agent.slug
            policy = with_workflows(policy, {slug: dialogue(slug, slug)})
        elif slug not in rules_of(policy).workflows:
            there = ", ".join(sorted([*policy.routable, *rules_of(policy).workflows]))
            raise WorkflowError(f"There is no agent and no workflow of speakers {slug}. There are: {there}.")
        author = question.author
        role = question.role
        journals = MemoryJournals()
        local = LocalSpeakers(
            ConversationId(hashlib.sha256(question.key.encode()).hexdigest()),
            slug,
            policy,
            journals,
            self.clock,
            model=self.model,
            tools=self.tools,
            prompter=self.prompter,
            budget=self.budget,
            person=(author, role) if author is not None and role is not None else OWNER,
        )
        try:
            state = await local.talk(question.message)
        except ModelUnavailable as error:
            records = journals.records.get(local.id, [])
            error.nothing_done = not any(isinstance(record, ModelResponded) for record in records)
            raise
        return _answer(slug, state, local.last_notice, is_agent=agent is not None)


def _answer(slug: Slug, state: Conversation, notice: str, *, is_agent: bool) -> Answer:
    session = session_of(state)
    turn = state.memory.last_turn
    assert session is not None
    if state.work.runs:
        raise WorkflowError(f"{slug} asks a user, for whom a node cannot answer: {notice}")
    if not session.is_closed and not is_agent:
        raise WorkflowError(f"The workflow {slug} waits for a person: {notice}")
    done = turn.completions[-1] if turn is not None and turn.completions else None
    if done is None or (is_agent and done.outcome != "finished"):
        raise WorkflowError(f"{slug} gave no answer: {done.error if done is not None else notice}.")
    return Answer(text=done.text, reason=session.close_reason, context=dict(session.speakers.context_vars))
