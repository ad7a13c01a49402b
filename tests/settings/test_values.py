"""Settings as the core's values: every field of the core has a setting, and the defaults agree."""

from dataclasses import fields
from pathlib import Path

import pytest

from tenex.core.config import Expectation, GateRules, Limits, Role
from tenex.core.errors import ConfigurationError
from tenex.core.phases import Phase
from tenex.nostr.keys import SecretKey, parse_public_key
from tenex.settings import Settings, circle, gate_rules, limits, load, model_for, named_models, router_model

OTHER = {
    "turns_per_message": (11, 11),
    "same_route": (12, 12),
    "steps_per_run": (13, 13),
    "link_depth": (2, 2),
    "nodes_per_mission": (17, 17),
    "steps_per_node": (18, 18),
    "tokens_per_run": (20, 20),
    "cost_per_run_usd": (1.5, 1.5),
    "tokens_per_cycle": (21, 21),
    "cost_per_cycle_usd": (2.5, 2.5),
    "tokens_per_conversation": (22, 22),
    "cost_per_conversation_usd": (3.5, 3.5),
    "tokens_per_guests_day": (23, 23),
    "cost_per_guests_day_usd": (4.5, 4.5),
    "tokens_per_member_day": (24, 24),
    "cost_per_member_day_usd": (5.5, 5.5),
    "tokens_per_owner_day": (25, 25),
    "cost_per_owner_day_usd": (6.5, 6.5),
    "tokens_per_day": (26, 26),
    "cost_per_day_usd": (7.5, 7.5),
    "routing_attempts": (5, 5),
    "handoff_window": (16.5, 16_500),
    "router_warn_after": (2.5, 2500),
    "announce_after": (0.25, 250),
    "retry_delays": ([0.5, 2], (500, 2000)),
    "hold_for": (19, 19_000),
}


def test_the_defaults_are_the_cores() -> None:
    assert limits(Settings()) == Limits()


def test_every_limit_of_the_core_is_a_setting_in_seconds_where_it_is_a_time() -> None:
    own = {"expectations", "default_expectation"}
    assert {field.name for field in fields(Limits)} - own == set(OTHER)
    settings = load(None, Path("/nowhere"), env={}, overrides={"limits": {k: given for k, (given, _) in OTHER.items()}})
    assert {name: getattr(limits(settings), name) for name in OTHER} == {k: wanted for k, (_, wanted) in OTHER.items()}


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_may_have_an_expectation_of_its_own(phase: Phase) -> None:
    given = {"default": {"warn_after": 1, "close_after": 2}, phase.value: {"warn_after": 3, "close_after": 4.5}}
    settings = load(None, Path("/nowhere"), env={}, overrides={"limits": {"expectations": given}})
    found = limits(settings)
    assert {p: found.expectation(p) for p in Phase} == {
        p: Expectation(warn_after=3000, close_after=4500)
        if p is phase
        else Expectation(warn_after=1000, close_after=2000)
        for p in Phase
    }


def test_every_rule_of_the_gates_is_a_setting() -> None:
    given = {"members_may_waive": True, "plan_approval": "person"}
    settings = load(None, Path("/nowhere"), env={}, overrides={"gates": given})
    assert {field.name for field in fields(GateRules)} == set(given)
    assert gate_rules(settings) == GateRules(members_may_waive=True, plan_approval="person")


def test_roles_follow_the_lists_and_the_door() -> None:
    owner, member, stranger = (SecretKey.generate() for _ in range(3))
    for is_open, guest in ((False, None), (True, Role.GUEST)):
        people = {"owners": [owner.npub], "members": [member.public, owner.public], "open": is_open}
        found = circle(load(None, Path("/nowhere"), env={}, overrides={"people": people}), parse_public_key)
        roles = [found.role(key.public) for key in (owner, member, stranger)]
        assert roles == [Role.OWNER, Role.MEMBER, guest]


def test_a_project_nobody_may_talk_to_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="nobody may talk here"):
        circle(Settings(), parse_public_key)


def test_every_wrong_key_is_told() -> None:
    settings = load(None, Path("/nowhere"), env={}, overrides={"people": {"owners": ["x"], "members": ["y"]}})
    with pytest.raises(ConfigurationError) as caught:
        circle(settings, parse_public_key)
    assert [line.split(": ")[1] for line in caught.value.faults] == ["people.owners[0]", "people.members[0]"]


def test_the_most_specific_model_wins() -> None:
    """An agent in a phase, the agent, its own file, the phase, the default; the router has its own."""
    given = {
        "default": "d",
        "phases": {"plan": "p"},
        "agents": {"executor": {"model": "a", "phases": {"plan": "ap"}}, "planner": {}},
    }
    models = load(None, Path("/nowhere"), env={}, overrides={"models": given}).models
    assert model_for(models, "executor", Phase.PLAN, own="o") == ("ap",)
    assert model_for(models, "executor", Phase.CHAT, own="o") == ("a",)
    assert model_for(models, "planner", Phase.PLAN, own="o") == ("o",)
    assert model_for(models, "planner", Phase.PLAN) == ("p",)
    assert model_for(models, "planner", Phase.CHAT) == ("d",)
    assert router_model(models) == ("d",)
    assert router_model(models.model_copy(update={"router": ["r", "s", "r"]})) == ("r", "s")


def test_every_model_that_is_named_is_found_with_its_setting() -> None:
    given = {
        "default": ["d", "e"],
        "router": "r",
        "phases": {"plan": "p"},
        "agents": {"executor": {"model": "a", "phases": {"plan": ["ap", "d"]}}},
    }
    models = load(None, Path("/nowhere"), env={}, overrides={"models": given}).models
    assert named_models(models) == {
        "models.default": ("d", "e"),
        "models.router": ("r",),
        "models.phases.plan": ("p",),
        "models.agents.executor.model": ("a",),
        "models.agents.executor.phases.plan": ("ap", "d"),
    }


@pytest.mark.parametrize("wrong", [5, [], [""], "", ["a", 5], {"a": "b"}])
def test_a_model_that_is_none_is_one_fault_that_says_what_to_write(wrong: object) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load(None, Path("/nowhere"), env={}, overrides={"models": {"default": wrong}})
    assert raised.value.faults == (
        'command line: models.default: must be the name of a model in quotes, or a list of one to ten: ["a:b", "c:d"]',
    )
