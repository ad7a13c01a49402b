"""Agents by name, users by role; what records state that something cost, and for whom work is done."""

import dataclasses
from dataclasses import replace

import pytest

from tenex.core import records as r
from tenex.core.config import Expectation, Limits, PeerGroup, Role
from tenex.core.conversation import Conversation, new_conversation
from tenex.core.ids import ConversationId, Millis, PublicKey, RunId, Slug
from tenex.core.messages import NO_USAGE, ModelStep, Usage
from tenex.core.people.trust import least_trusted, may_reach
from tenex.core.phases import Phase
from tenex.core.totals.costs import ROUTER, cost_of, model_of, spender_of
from tests.fakes.scenario import agent, policy

from .kit import message

KEY = str(agent("executor").pubkey)
NPUB = "npub1v4ux2cm4w3hhyqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq23d6aj"
SPELLED = {
    "project-manager": ["Project-Manager", " project-manager ", "ProjectManager", "PROJECT_MANAGER", "project manager"],
    "executor": ["@executor", "Executor,", "`@executor`", '**"executor"**.', "<@executor>:"],
}
HIDDEN = ["exe\u200bcutor", "\ufeff@executor\u2060", "\u2068executor\u2069", "＠ｅｘｅｃｕｔｏｒ．", "executor\ufe0f"]
PROFILE = "nostr:nprofile1qy8hwumn8ghj7cfwv4uxzmtsd3jsqgr90pjkxat5daeqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq0k5pzp"
"""The key with a relay before it."""
KEYS = [KEY.upper(), f"@{KEY}", NPUB, f"nostr:{NPUB}", f"`{NPUB}`,", NPUB.upper(), f"NOSTR:{NPUB.upper()}", PROFILE]
NO_ONE = ["", " ", "projectmanager", "project-manager-2", "-", "@", "``", "npub1", NPUB[:40], "\0", "\ud800"]


@pytest.mark.parametrize(
    ("written", "slug"),
    [
        *((written, slug) for slug, forms in SPELLED.items() for written in forms),
        *((written, "executor") for written in (*KEYS, *HIDDEN)),
        *((written, None) for written in NO_ONE),
    ],
)
def test_an_agent_is_found_however_its_name_is_written_and_by_its_key(written: str, slug: str | None) -> None:
    found = policy().find(written)
    assert (found and found.slug) == slug


def test_an_agent_is_found_by_the_name_that_is_shown_unless_two_have_it() -> None:
    base, ada = policy(), dataclasses.replace(agent("builder"), name="Ada Lovelace")
    one = dataclasses.replace(base, roster={**base.roster, Slug("builder"): ada})
    assert one.find("ada lovelace") == one.find("Ada\xa0Love\u00adlace") == ada
    jose = dataclasses.replace(base, roster={Slug("x"): dataclasses.replace(agent("x"), name="Jose\u0301")})
    assert jose.find("josé") is not None
    other = dataclasses.replace(agent("tester"), name="Ada Lovelace")
    assert dataclasses.replace(one, roster={**one.roster, Slug("tester"): other}).find("Ada Lovelace") is None
    both = {Slug("Executor"): agent("Executor"), Slug("executor"): agent("executor")}
    exact = dataclasses.replace(base, roster=both)
    assert [exact.find(slug) for slug in both] == list(both.values()), "an exact slug goes before one like it"


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


PAID = Usage(input_tokens=7, output_tokens=3, cost_usd=0.5)
AT = Millis(1)
RUN = RunId("turn-2.security-expert")


def paid(kind: type[r.Record]) -> r.Record:
    """A record of that kind that cost something; its other fields hold nothing."""
    lacking = [field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]
    given = dict.fromkeys(lacking, "") | {"seq": 1, "at": AT, "usage": PAID, "model": "big"}
    return kind(**given | ({"run": RUN} if "run" in lacking else {}))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [r.ModelReprompted, r.RetryScheduled, r.RunEnded, r.RouteRejected, r.Routed])
def test_every_record_of_a_cost_states_how_much_which_model_and_for_whom(kind: type[r.Record]) -> None:
    record = paid(kind)
    assert (cost_of(record), model_of(record)) == (PAID, "big")
    assert spender_of(record) == ("security-expert" if hasattr(record, "run") else ROUTER)
    fields = {name: {field.name for field in dataclasses.fields(known)} for name, known in r.RECORDS.items()}
    assert [name for name, have in fields.items() if "usage" in have and "model" not in have] == []


def test_a_step_holds_its_cost_and_other_records_none() -> None:
    step = r.ModelResponded(seq=1, at=AT, run=RUN, step=ModelStep(model="small", usage=PAID))
    assert (cost_of(step), model_of(step), spender_of(step)) == (PAID, "small", "security-expert")
    due = r.RetryDue(seq=1, at=AT, run=None)
    assert (cost_of(due), model_of(due), spender_of(due)) == (NO_USAGE, "", ROUTER)


OWNER, MEMBER, GUEST = Role.OWNER, Role.MEMBER, Role.GUEST


def talked(*roles: Role | None) -> Conversation:
    """A conversation in which users with these roles have written, the last but the first two long ago."""
    conversation = new_conversation(ConversationId("c" * 64))
    wrote = [message(seq, author=PublicKey(f"{role}"), role=role) for seq, role in enumerate(roles)]
    conversation.cycle = replace(conversation.cycle, messages=tuple(wrote[:2]))
    conversation.memory = replace(conversation.memory, recent=tuple(wrote[1:]))
    return conversation


@pytest.mark.parametrize(
    ("roles", "least"),
    [
        ([], None),
        ([None], None),
        ([OWNER], OWNER),
        ([OWNER, MEMBER], MEMBER),
        ([MEMBER, OWNER], MEMBER),
        ([GUEST, None, OWNER, MEMBER], GUEST),
    ],
)
def test_work_is_done_on_behalf_of_the_least_privileged_user(roles: list[Role | None], least: Role | None) -> None:
    person = least_trusted(talked(*roles))
    assert (person.role if person else None) == least


@pytest.mark.parametrize(
    ("lesson", "roles", "reaches"),
    [
        (OWNER, [OWNER], True),
        (OWNER, [MEMBER], True),
        (MEMBER, [MEMBER], True),
        (MEMBER, [GUEST], True),
        (MEMBER, [OWNER], False),
        (MEMBER, [MEMBER, OWNER], False),
        (GUEST, [MEMBER], False),
        (GUEST, [GUEST], True),
        (MEMBER, [], False),
        (None, [OWNER], True),
    ],
)
def test_a_lesson_reaches_no_one_who_may_do_more_than_its_source(
    lesson: Role | None, roles: list[Role], reaches: bool
) -> None:
    assert may_reach(lesson, talked(*roles)) is reaches
