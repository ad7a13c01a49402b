"""Slugs match exactly, then without case, then kebab-cased; who is who in the circle."""

import dataclasses

import pytest

from tenex.core.config import Expectation, Limits, PeerGroup, Policy, Role
from tenex.core.ids import PublicKey, Slug
from tenex.core.phases import Phase
from tests.fakes.scenario import agent, rules

KEY = str(agent("executor").pubkey)
NPUB = "npub1v4ux2cm4w3hhyqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq23d6aj"
SPELLED = {
    "project-manager": ["Project-Manager", " project-manager ", "ProjectManager", "PROJECT_MANAGER", "project manager"],
    "executor": ["@executor", "Executor,", "`@executor`", '**"executor"**.', "<@executor>:"],
}
KEYS = [KEY.upper(), f"@{KEY}", NPUB, f"nostr:{NPUB}", f"`{NPUB}`,"]
NO_ONE = ["", " ", "projectmanager", "project-manager-2", "-", "@", "``", "npub1", NPUB[:40], "\0", "\ud800"]


@pytest.mark.parametrize(
    ("written", "slug"),
    [
        *((written, slug) for slug, forms in SPELLED.items() for written in forms),
        *((written, "executor") for written in KEYS),
        *((written, None) for written in NO_ONE),
    ],
)
def test_an_agent_is_found_however_its_name_is_written_and_by_its_key(written: str, slug: str | None) -> None:
    found = rules().find(written)
    assert (found and found.slug) == slug


def test_an_agent_is_found_by_the_name_that_is_shown_unless_two_have_it() -> None:
    base, ada = rules(), dataclasses.replace(agent("builder"), name="Ada Lovelace")
    one = dataclasses.replace(base, roster={**base.roster, Slug("builder"): ada})
    assert one.find("ada lovelace") == ada
    other = dataclasses.replace(agent("tester"), name="Ada Lovelace")
    assert dataclasses.replace(one, roster={**one.roster, Slug("tester"): other}).find("Ada Lovelace") is None


def test_an_exact_slug_goes_before_one_that_only_looks_like_it() -> None:
    base = rules()
    both = {Slug("Executor"): agent("Executor"), Slug("executor"): agent("executor")}
    config = Policy(roster=both, tools=base.tools, project=base.project)
    assert config.find("Executor") == both[Slug("Executor")]
    assert config.find("executor") == both[Slug("executor")]


def test_roles_in_the_circle() -> None:
    alice, bob, eve = (PublicKey(char * 64) for char in "abe")
    closed = PeerGroup(owners=frozenset({alice}), members=frozenset({bob, alice}))
    assert [closed.role(key) for key in (alice, bob, eve)] == [Role.OWNER, Role.MEMBER, None]
    assert PeerGroup(is_open=True).role(eve) is Role.GUEST


def test_an_expectation_of_a_phase_goes_before_the_default() -> None:
    short = Expectation(warn_after=1, close_after=2)
    limits = Limits(expectations={Phase.CHORES: short})
    assert limits.expectation(Phase.CHORES) is short
    assert limits.expectation(Phase.EXECUTE) is limits.default_expectation
