"""An agent with phases of its own for tests: the research agent of the documents, its conditions plain functions."""

import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tenex.core import records as r
from tenex.core.agent_phases.program import AgentPhaseState, Program, Scope
from tenex.core.config import Policy
from tenex.core.conversation import new_conversation
from tenex.core.graph import Edge, Predicate, TransitionGraph
from tenex.core.ids import ConversationId, Slug
from tenex.core.phases import Phase
from tenex.core.records import Record

from .scenario import policy

LIST, TEXT = {"type": "array"}, {"type": "string"}


def look(agent_state: AgentPhaseState, conversation: Phase | None) -> Any:
    return SimpleNamespace(**agent_state.values, phase=agent_state.phase, conversation=conversation)


def is_in_a_decision() -> bool:
    """Whether the code of the core that decides is on the stack."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").endswith((".decide", "core.dispatch")):
            return True
        frame = frame.f_back
    return False


def outside_decisions(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function, which fails the test where a decision calls it."""

    def called(facts: Any) -> Any:
        assert not is_in_a_decision()
        return function(facts)

    return called


def program(
    edges: tuple[tuple[str, str, Callable[[Any], Any] | None], ...] = (
        ("planning", "research", lambda me: me.plan),
        ("research", "analysis", lambda me: len(me.data) >= 3),
    ),
    *,
    defaults: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
    scopes: Mapping[str, Scope] | None = None,
    **more: Any,
) -> Program:
    """A program; by default the research agent: `check` in planning, `send` in research, `write_file` in analysis."""
    nodes = tuple(dict.fromkeys(name for source, target, _ in edges for name in (source, target)))
    drawn = tuple(
        Edge(source, target, None if ask is None else Predicate(outside_decisions(ask)))
        for source, target, ask in edges
    )
    tools = {"check": "planning", "send": "research", "write_file": "analysis"}
    return Program(
        graph=TransitionGraph(nodes=nodes, initial=nodes[0], edges=drawn) if nodes else None,
        defaults={"plan": "", "data": []} if defaults is None else defaults,
        schema={"plan": TEXT, "data": LIST} if schema is None else schema,
        look=look,
        is_settable=more.pop("is_settable", True),
        scopes={tool: Scope(phases=frozenset({phase})) for tool, phase in tools.items()} if scopes is None else scopes,
        **more,
    )


def with_program(of: Program, config: Policy | None = None) -> Policy:
    """Rules in which the executor has phases of its own."""
    known = config or policy()
    executor = known.roster[Slug("executor")]
    return replace(known, roster={**known.roster, executor.slug: replace(executor, program=of)})


def check_moves(name: ConversationId, records: Sequence[Record], edges: Container[tuple[str, str, str]]) -> None:
    """Agents go along edges (agent, source, target) only, from where they are, once for each reason to look."""
    then = new_conversation(name)
    reasons: set[str] = set()
    for rec in records:
        if isinstance(rec, r.ModelResponded | r.ToolCallCompleted | r.QuestionAnswered | r.ApprovalAnswered):
            reasons.add(rec.run)
        elif isinstance(rec, r.AgentPhaseChanged):
            assert (rec.agent, rec.source, rec.target) in edges, f"there is no such edge: {rec}"
            assert then.memory.agent_states[then.work.runs[rec.run].state_key].phase == rec.source, (
                f"it is elsewhere: {rec}"
            )
            assert rec.run in reasons, f"a second step in one evaluation: {rec}"
            reasons.discard(rec.run)
        then.apply(rec)
    left = {name for name in then.memory.agent_states if "/" in name} - {*then.work.runs}
    assert not left, f"they were called and are gone, but still have a state: {left}"
