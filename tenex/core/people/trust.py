"""On whose behalf a conversation's work is done, and which lessons may reach it."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from tenex.core.config import Role
from tenex.core.inbox.message import Message
from tenex.core.state import State

_RANKS: Final = (Role.OWNER, Role.MEMBER, Role.GUEST)
"""From the one who may do most to the one who may do least."""


def least_trusted(state: State) -> Message | None:
    """The newest message of a user who may do least, of all who have written; None where no message is known."""
    return max(_of_people(state), key=lambda message: (_rank(message.role), message.seq), default=None)


def may_reach(role: Role | None, state: State) -> bool:
    """Whether a lesson that was learned on behalf of a user with that role may be shown in a conversation.

    It may where no one has written who may do more. Without a role it is from before roles were kept.
    """
    if _rank(role) == 0:
        return True
    ranks = (_rank(message.role) for message in _of_people(state))
    first = next(ranks, 0)
    return _rank(role) <= first and all(_rank(role) <= rank for rank in ranks)


def may_replace(role: Role | None, lesson: Role | None) -> bool:
    """Whether work on behalf of a user with `role` may replace or withdraw a lesson learned on behalf of another.

    It may where the user may do at least as much: else a guest could take away what an owner taught.
    """
    return _rank(role) <= _rank(lesson)


def is_outside(conversation: Mapping[str, Any], message: Mapping[str, Any]) -> bool:
    """Whether a message, by the addresses of both, was sent to a conversation in a group from outside the group.

    A group is one of a relay: another relay takes its name from anyone.
    """
    group = conversation.get("group")
    if not group:
        return False
    return message.get("group") != group or set(conversation.get("relays", ())).isdisjoint(message.get("relays", ()))


def room_of(address: Mapping[str, Any]) -> str:
    """The people of a conversation in direct messages (`InboundMessage.room`), by its address; "" for any other."""
    return str(address.get("room") or "")


def group_of(address: Mapping[str, Any]) -> str:
    """The group of a relay (NIP-29) that a conversation is in, by its address; "" for none."""
    return str(address.get("group") or "")


def chat_of(address: Mapping[str, Any]) -> str:
    """The chat that a conversation was begun in, by its address: a group of a relay (NIP-29), or none of them.

    "" for a conversation in a thread, where what a message quotes says nothing about where it belongs.
    """
    group = group_of(address)
    if group:
        return f"group {' '.join((group, *address.get('relays', ())))}"
    return "outside of groups" if address.get("form") == "chats" else ""


def _of_people(state: State) -> Iterator[Message]:
    """The messages of users that agents may be shown, in short form too."""
    return (
        message
        for message in chain(state.memory.earlier, state.memory.recent, state.cycle.messages)
        if message.role is not None
    )


def _rank(role: Role | None) -> int:
    return _RANKS.index(role) if role is not None else 0
