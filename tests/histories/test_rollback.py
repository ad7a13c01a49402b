"""Rollback, fork and export where agents are in phases and call each other."""

from dataclasses import replace

import pytest

from tenex.core.agent_phases.program import Scope
from tenex.core.config import Policy
from tenex.core.conversation import Conversation, fold
from tenex.core.effects import Publish
from tenex.core.ids import ConversationId, Millis, Slug
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.record import Record
from tenex.core.rollback.decide import state_at
from tenex.core.rollback.whole import ConversationForked, of_fork
from tenex.core.signals import RollBack
from tenex.core.snapshot import StateSnapshot
from tenex.store.archive import packed, unpacked
from tenex.store.format import CONVERSATION
from tests.fakes.agent_phases import program, with_program
from tests.fakes.scenario import WAITS, Router, Scenario, check_invariants, plain_model, policy, route
from tests.fakes.subagents import link, with_subagents

from .record import ROOT, whole

NAMES = ("own-phases", "colleagues", "output-states")
NOW = Millis(3_000_000)
"""Later than anything in them."""


@pytest.fixture(scope="module", params=NAMES)
def reported(request: pytest.FixtureRequest) -> tuple[ConversationId, list[Record]]:
    """A history that was recorded once."""
    return whole(ROOT / request.param)


def household() -> Policy:
    """The rules of the sub-agents in them."""
    own = program(
        (("asking", "building", lambda me: me.n), ("building", "asking", lambda me: me.n > 1)),
        defaults={"n": 0},
        schema={"n": {"type": "integer"}},
        scopes={},
    )
    later = Scope(phases=frozenset({"building"}))
    links = {
        "to_helper": link("helper"),
        "to_security": link("security", is_shared=True),
        "to_planner": link("planner", scope=later, is_shared=True),
    }
    known = with_subagents(policy(), helper=["planner", "executor"])
    planner = replace(known.roster[Slug("planner")], program=own)
    known = replace(known, roster={**known.roster, planner.slug: planner})
    return with_program(replace(own, links=links), known)


def back_at(name: ConversationId, records: list[Record], at: int) -> tuple[Scenario, Conversation]:
    """The conversation when it has gone back to a record, and where it was then."""
    then = state_at(name, records, at)
    scenario = Scenario(Router(WAITS), plain_model, config=household())
    scenario.journal, scenario.now = [(record,) for record in records], Millis(records[-1].at + 1)
    scenario.conversation, scenario.count = scenario.refold(), 100
    scenario.handle(RollBack(to=then.next_seq - 1, then=then, by="the operator", reason=""))
    return scenario, then


def again(state: Conversation) -> Conversation:
    """The state as it is read from a checkpoint of it."""
    return fold(state.id, CONVERSATION.decode_lines(CONVERSATION.encode_decisions([[StateSnapshot.of(state)]]))[0])


def check_rest(state: Conversation) -> None:
    """Nothing is open, and no one is who was only called."""
    assert (state.work.runs, state.work.asks, state.work.turn, state.router.question) == ({}, {}, None, None)
    assert all(
        isinstance(effect, Publish) or effect.key.part in ("expire", "lost") for effect in pending(state).values()
    )
    assert not [name for name in state.memory.agent_states if "/" in name]
    assert again(state) == state


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.soak), 9])
def test_from_every_record_one_can_go_back_and_branch_off(
    reported: tuple[ConversationId, list[Record]], step: int
) -> None:
    name, records = reported
    for at in range(1, records[-1].seq, step):
        scenario, then = back_at(name, records, at)
        assert again(then) == then, "a checkpoint in the middle of it holds all of it"
        assert pending(again(then)) == pending(then), "also what is in flight"
        check_rest(scenario.conversation)
        roster = {known: one for known, one in then.memory.agent_states.items() if known not in then.work.runs}
        assert scenario.conversation.memory.agent_states == roster, "agents are where they were then"
        forked = of_fork(then, NOW, id=ConversationId("e" * 64), address={}, title="other")
        begins = ConversationForked(seq=1, at=NOW, id=forked.id, origin=name, at_seq=at, title="other", state=forked)
        fork = fold(forked.id, [begins])
        check_rest(fork)
        assert fork.memory.agent_states == roster


def test_what_was_gone_back_to_is_gone_on_from(reported: tuple[ConversationId, list[Record]]) -> None:
    name, records = reported
    for at in range(6, records[-1].seq, 31):
        scenario, _ = back_at(name, records, at)
        phase = "execute" if scenario.conversation.cycle.phase is Phase.CHAT else None
        scenario.router = Router(route(phase, "executor"), WAITS)
        scenario.converse("and now?")
        assert scenario.conversation.cycle.status == "waiting"
        check_invariants(scenario)


def test_it_is_carried_whole(reported: tuple[ConversationId, list[Record]]) -> None:
    name, records = reported
    carried = unpacked(packed(name, records, NOW))
    assert (carried.id, list(carried.records)) == (name, records)
    assert fold(name, carried.records) == fold(name, records)
