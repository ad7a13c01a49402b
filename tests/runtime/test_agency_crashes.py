"""Crashes in the work of agents with phases, state and sub-agents: the moments of `test_crashes`, of other work."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Policy, Replay, ToolRule
from tenex.core.conversation import fold
from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, ModelStep, ToolSpec
from tenex.core.pending import pending
from tenex.core.phases import Access
from tenex.core.work.runs import UNKNOWN
from tenex.output_states import AgentOutput, Python, Thinking, ToolCallState
from tenex.output_states.history import step_of
from tenex.output_states.model import read
from tests.fakes.agent_phases import program
from tests.fakes.scenario import ID, policy, reply
from tests.fakes.subagents import calls_to, link
from tests.fakes.virtual import virtual_time

from .dying import (
    MOMENTS,
    ONCE,
    REPEATED,
    DyingWorld,
    Finds,
    Moment,
    Subject,
    begins,
    permitted,
    returned,
    steps,
    work,
)

EDGES = (("asking", "building", lambda me: me.n), ("building", "built", lambda me: me.n > 1))
OWN: dict[str, Any] = {"defaults": {"n": 0}, "schema": {"n": {"type": "integer"}}, "scopes": {}}
BUILT = "built by states"


def counts_itself() -> ModelStep:
    """An answer by output states: a private thought, and a program to run."""
    tools = [ToolSpec(name=name, description="", parameters={"type": "object"}) for name in ("read_file", "python")]
    held = AgentOutput([Thinking], [ToolCallState, Python], 0, 3).format_for(tools)
    assert held is not None
    thought = "I have asked all who know, and now I count it myself."
    segments, wrong = read(held, f"```thinking\n{thought}\n```\n```python\nprint(6 * 7)\n```\n", "none")
    assert not wrong, wrong
    return step_of(reply(""), held, segments)


def household() -> Policy:
    """The executor may call the helper, who may call the planner; all three have phases, and it may run programs."""
    known = policy()
    links = {"executor": {"to_helper": link("helper")}, "helper": {"to_planner": link("planner", is_shared=True)}}
    roster = dict(known.roster)
    for slug in ("executor", "helper", "planner"):
        own = program(EDGES, links=links.get(slug, {}), **OWN)
        tools = frozenset({*roster[Slug(slug)].tools, "python"})
        roster[Slug(slug)] = replace(roster[Slug(slug)], program=own, tools=tools)
    python = ToolRule(name="python", access=Access.RUN, replay=Replay.ONCE)
    return replace(known, roster=roster, tools={**known.tools, "python": python})


def sets(n: int) -> tuple[str, dict[str, object]]:
    return "set_state", {"field": "n", "value": n}


def models(request: ModelRequest) -> ModelStep:
    """In execute each sets its state and calls whom it may call; the executor then runs a program by states."""
    steps = sum(isinstance(entry, ModelStep) for entry in request.entries)
    if request.phase != "execute" or request.agent == "security":
        return work(request)
    if request.agent == "executor" and steps == 2:
        return counts_itself()
    if request.agent == "executor" and steps == 3:
        return reply(BUILT)
    called = {"executor": "helper", "helper": "planner"}.get(request.agent)
    if steps == 0:
        return reply("", sets(1), *(calls_to(called) if called else ()), ("write_file", {"path": request.agent}))
    return reply("", sets(2)) if steps == 1 else reply(f"{request.agent} is done")


class Household(DyingWorld):
    """A world that dies in what these agents do; the executor alone works in execute."""

    def __init__(self, folder: Path, subject: Subject, moment: Moment) -> None:
        super().__init__(folder, subject, moment)
        self.policy, self.worker = household(), models
        whole = self.router
        self.router = lambda q: {**whole(q), "agents": ["executor"]} if q["phase"] == "plan" else whole(q)


def moves(agent: str, to_: str, under: str = "") -> Finds:
    return lambda rec, _: (
        isinstance(rec, r.AgentPhaseChanged) and (rec.agent, rec.target) == (agent, to_) and under in rec.run
    )


SUBJECTS = (
    Subject(
        name="state",
        intent=begins("helper", "/"),
        effect="helper in execute, step 0",
        result=returned("set_state", ".helper"),
    ),
    Subject(
        name="move",
        intent=moves("executor", "building"),
        effect="helper in execute, step 0",
        result=moves("helper", "building"),
    ),
    Subject(name="link", intent=steps("executor", 1), effect="helper in execute, step 0", result=steps("helper", 1)),
    Subject(
        name="nested link",
        intent=begins("planner", "/"),
        effect="planner in execute, step 0",
        result=steps("planner", 1),
    ),
    Subject(
        name="nested tool",
        intent=permitted("write_file", ".planner"),
        effect="write_file by planner in execute",
        result=returned("write_file", ".planner"),
    ),
    Subject(
        name="nested end",
        intent=moves("planner", "built"),
        effect="planner in execute, step 2",
        result=returned("to_planner"),
    ),
    Subject(
        name="end", intent=moves("helper", "built"), effect="helper in execute, step 2", result=returned("to_helper")
    ),
    Subject(
        name="program", intent=permitted("python"), effect="python by executor in execute", result=returned("python")
    ),
    Subject(
        name="states",
        intent=moves("executor", "built"),
        effect="executor in execute, step 2",
        result=steps("executor", 3),
    ),
)

ANSWERED: dict[Moment, int] = {**REPEATED, "before result": 1}
"""Of work whose end functions decide on: it is on disk before they are called, so a kill before their verdict is on
disk repeats their call and not the work."""


def seen(subject: Subject, moment: Moment) -> int:
    if subject.name == "program":
        return ONCE[moment]
    return (REPEATED if subject.name == "states" else ANSWERED)[moment]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
@virtual_time
async def test_after_a_crash_agents_are_in_the_right_phase_and_each_step_is_taken_once(
    subject: Subject, moment: Moment, tmp_path: Path
) -> None:
    world = Household(tmp_path, subject, moment)
    survived = await world.die()
    assert not await world.live()
    records = world.records()
    assert records[: len(survived)] == survived
    state = fold(ID, records)
    assert (state.cycle.status, pending(state)) == ("ended", {})
    moved = [(rec.agent, rec.source, rec.target) for rec in records if isinstance(rec, r.AgentPhaseChanged)]
    way = {("asking", "building"), ("building", "built")}
    assert Counter(moved) == Counter((agent, *pair) for agent in ("executor", "helper", "planner") for pair in way)
    assert {name: one.phase for name, one in state.memory.agent_states.items()} == dict.fromkeys(
        state.memory.agent_states, "built"
    )
    assert {*map(str, state.memory.agent_states)} >= {"executor", "planner"}
    assert not any("/" in name for name in state.memory.agent_states), "an ended sub-agent has no state"
    called = [rec.agent for rec in records if isinstance(rec, r.RunStarted) and rec.parent is not None]
    assert called == ["helper", "planner"]
    results = Counter(rec.tool for rec in records if isinstance(rec, r.ToolCallCompleted))
    assert (results["set_state"], results["to_helper"], results["to_planner"], results["python"]) == (6, 1, 1, 1)
    python = next(rec for rec in records if isinstance(rec, r.ToolCallCompleted) and rec.tool == "python")
    cut_off = {("program", moment) for moment in ("after intent", "after effect", "before result")}
    unknown = (subject.name, moment) in {*cut_off, ("states", "after result")}  # where it was already permitted
    assert (python.content == UNKNOWN) == unknown
    assert world.effects.count(subject.effect) == seen(subject, moment)
    assert [rec.text for rec in records if isinstance(rec, r.MessageSent)].count(BUILT) == 1
