"""What records state that something cost, which model was paid, and for whom."""

import dataclasses
from dataclasses import replace

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.conversation import Conversation
from tenex.core.costs import ROUTER, cost_of, model_of, spender_of
from tenex.core.ids import ConversationId, Millis, PublicKey, RunId
from tenex.core.messages import NO_USAGE, ModelStep, Usage
from tenex.core.phases import Phase
from tenex.core.state.run import Message
from tenex.core.trust import least_trusted, may_reach

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


def test_no_kind_of_record_has_a_cost_without_a_model() -> None:
    """What was spent must be found with the model that was paid for it."""
    fields = {name: {field.name for field in dataclasses.fields(kind)} for name, kind in r.RECORDS.items()}
    assert [name for name, have in fields.items() if "usage" in have and "model" not in have] == []


def test_a_step_holds_its_cost_and_other_records_none() -> None:
    step = r.ModelResponded(seq=1, at=AT, run=RUN, step=ModelStep(model="small", usage=PAID))
    assert (cost_of(step), model_of(step), spender_of(step)) == (PAID, "small", "security-expert")
    due = r.RetryDue(seq=1, at=AT, run=None)
    assert (cost_of(due), model_of(due), spender_of(due)) == (NO_USAGE, "", ROUTER)


OWNER, MEMBER, GUEST = Role.OWNER, Role.MEMBER, Role.GUEST


def talked(*roles: Role | None) -> Conversation:
    """A conversation in which users with these roles have written, the last but the first two long ago."""
    conversation = Conversation(ConversationId("c" * 64))
    message = [
        Message(
            seq=seq,
            at=Millis(seq),
            event_id=f"{seq}",
            author=PublicKey(f"{role}"),
            name="",
            text="",
            phase=Phase.CHAT,
            role=role,
        )
        for seq, role in enumerate(roles)
    ]
    conversation.messages, conversation.recent = tuple(message[:2]), tuple(message[1:])
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


def test_of_several_the_newest_is_named() -> None:
    conversation = talked(MEMBER, MEMBER)
    conversation.recent = (*conversation.recent, replace(conversation.recent[0], seq=9, author=PublicKey("last")))
    person = least_trusted(conversation)
    assert person is not None
    assert person.author == "last"
