"""Agents with phases and sub-agents of their own, drawn from the dice; and what their models try with them."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from tenex.core.agent_phases.program import Program, Scope
from tenex.core.config import Policy
from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, ToolSpec
from tests.fakes import agent_phases
from tests.fakes.subagents import link

PLACES = ("first", "second", "third")
WHO = ("executor", "helper", "planner", "project-manager")
DEFAULTS = {"n": 0, "log": [], "is_on": False}
SCHEMA = {"n": {"type": "integer"}, "log": {"type": "array"}, "is_on": {"type": "boolean"}}
CONDITIONS = (
    None,
    lambda me: me.n >= 2,
    lambda me: me.n >= 2,
    lambda me: len(me.log) >= 1,
    lambda me: me.is_on,
    lambda me: me.nothing_of_that_name,
    lambda me: me.conversation == "execute",
)


def with_agency(dice: Random, known: Policy) -> Policy:
    """The rules with a program for most of those who work, as one start of a daemon finds them."""
    roster = dict(known.roster)
    for slug in WHO:
        if dice.random() < 0.8:
            roster[Slug(slug)] = replace(roster[Slug(slug)], program=_program(dice, slug))
    return replace(known, roster=roster)


def _program(dice: Random, slug: str) -> Program:
    pairs = [(source, target) for source in PLACES for target in PLACES if source != target]
    drawn = dice.sample(pairs, dice.randint(2, 4)) if dice.random() < 0.8 else []
    others = [name for name in (*WHO, "security") if name != slug]
    links = {
        f"to_{name.replace('-', '_')}": link(name, scope=_scope(dice, drawn), is_shared=dice.random() < 0.3)
        for name in dice.sample(others, dice.randint(0, 3))
    }
    return agent_phases.program(
        tuple((source, target, dice.choice(CONDITIONS)) for source, target in drawn),
        defaults=DEFAULTS,
        schema=SCHEMA,
        links=links,
        is_settable=dice.random() < 0.8,
        scopes={"write_file": _scope(dice, drawn), "read_file": _scope(dice, drawn)},
        has_triggers=dice.random() < 0.5,
    )


def _scope(dice: Random, drawn: list[tuple[str, str]]) -> Scope:
    if not drawn or dice.random() < 0.6:
        return Scope()
    return Scope(phases=frozenset(dice.sample(PLACES, dice.randint(1, 2))))


def tries(dice: Random, request: ModelRequest) -> list[tuple[str, dict[str, Any]]]:
    """Calls an agent makes about itself and of sub-agents: mostly of what it is offered, now and then of others."""
    offered = [*request.tools, ToolSpec(name="to_planner", description="", parameters={})] if request.tools else []
    return [_call(dice, dice.choice(offered).name) for _ in range(dice.randint(0, 2)) if offered]


def _call(dice: Random, tool: str) -> tuple[str, dict[str, Any]]:
    if tool == "set_state":
        field, value = dice.choice([("n", dice.randint(0, 3)), ("is_on", True), ("is_on", False), ("n", "two")])
        return tool, {"field": field, "value": value}
    if tool == "append_state":
        return tool, {"field": "log", "value": "a finding"}
    return tool, {"message": "look into it"} if tool.startswith("to_") and dice.random() < 0.95 else {}


def changed(dice: Random, agent_state: Any) -> Mapping[str, Any]:
    """What a tool that works on the agent gives back besides its result: new values, or a move it has made."""
    if agent_state is None or dice.random() < 0.7:
        return {}
    if dice.random() < 0.7:
        return {"values": {"n": dice.randint(0, 3)}}
    return {"moves": ((agent_state.phase, dice.choice(PLACES)),)}
