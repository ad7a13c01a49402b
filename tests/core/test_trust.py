"""On whose behalf work is done, and which lessons may be shown in it."""

from dataclasses import replace

import pytest

from tenex.core.config import Role
from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId, Millis, PublicKey
from tenex.core.phases import Phase
from tenex.core.state.run import Message
from tenex.core.trust import least_trusted, may_reach

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
