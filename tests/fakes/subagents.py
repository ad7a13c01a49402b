"""Agents that may call each other, for scenarios and worlds that look at what comes of that."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tenex.core.agent_phases.program import Link, Program, Scope
from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.effects import ModelCall
from tenex.core.graph import TransitionGraph
from tenex.core.ids import Slug

from .scenario import AgentModel, reply


def link(agent: str, *, scope: Scope | None = None, is_shared: bool = False) -> Link:
    """A link to an agent of the roster."""
    return Link(agent=Slug(agent), description=f"{agent} looks into it", scope=scope or Scope(), is_shared=is_shared)


def program(links: Mapping[str, Link], graph: TransitionGraph | None = None) -> Program:
    """A program that has links and perhaps phases; its conditions receive its state."""
    return Program(graph=graph, defaults={}, schema={}, look=lambda agent_state, _: agent_state, links=links)


def with_subagents(config: Policy, graph: TransitionGraph | None = None, **links: Sequence[str | Link]) -> Policy:
    """The rules with links from an agent, by its slug, to others; the tool is called `to_<slug>`."""
    roster = dict(config.roster)
    for slug, targets in links.items():
        found = [target if isinstance(target, Link) else link(target) for target in targets]
        tools = {f"to_{one.agent.replace('-', '_')}": one for one in found}
        roster[Slug(slug)] = dataclasses.replace(roster[Slug(slug)], program=program(tools, graph))
    return dataclasses.replace(config, roster=roster)


def calls_to(*agents: str, message: str = "look into it") -> tuple[tuple[str, dict[str, Any]], ...]:
    return tuple((f"to_{agent.replace('-', '_')}", {"message": message}) for agent in agents)


def model_by_agent(**steps: Sequence[Any]) -> AgentModel:
    """A model for every agent: each run answers with its agent's steps in turn, then that it is done."""

    def answer(conversation: Conversation, call: ModelCall) -> Any:
        run = conversation.work.runs[call.run]
        script = steps.get(run.agent, ())
        step = script[run.steps] if run.steps < len(script) else f"{run.agent} is done"
        return reply(step) if isinstance(step, str) else step

    return answer
