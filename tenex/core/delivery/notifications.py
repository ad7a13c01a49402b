"""Whom a message of ours notifies, and which messages users are sent.

A phone rings at every event that names its owner in a p tag, and at every private message. So words are sent in three
ways: with p tags, without them (they are in the thread, for who opens it), and not at all (they are in the
conversation's file).

    /quiet     nothing of work under way; no p tag on what is for others
    (normal)   work under way without p tags, and not in direct messages, which always notify; the same for how work
               was checked whose result was an answer before
    /verbose   work under way with p tags, and what is otherwise in the file only

Quiet hours. What would notify somebody then who is not awake is sent without their p tag, and private messages to them
wait. Awake is who has written here, or answered by a reaction, within `AWAKE` by the date of what they wrote:
they expect what they asked for, if it does not take so long that they may sleep. What a program writes for them is no
sign of it, and agents elsewhere have no quiet hours. When the hours are over one message reminds them of what came, and
the private messages go out. When they write before, they have seen it or see it now.
"""

from dataclasses import dataclass
from itertools import chain
from typing import Final

from tenex.core import records as r
from tenex.core.config import QuietHours, Verbosity
from tenex.core.ids import Millis, PublicKey
from tenex.core.inbox.message import Message
from tenex.core.people.trust import room_of
from tenex.core.signals import MessageReceived
from tenex.core.state import State
from tenex.core.transaction import Transaction

from .records import UNDER_WAY, UNNOTIFIED, Purpose

AWAKE: Final = Millis(30 * 60_000)
"""Time for which somebody who has written waits for the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """The fields of a `MessageSent` that say whom it is sent to, and whom it notifies."""

    is_published: bool
    notifies: tuple[PublicKey, ...] | None = None
    silent: tuple[PublicKey, ...] = ()
    missed_by: tuple[PublicKey, ...] = ()
    missed_until: Millis = Millis(0)


def audience(
    transaction: Transaction, purpose: Purpose, text: str, tags: tuple[tuple[str, ...], ...], *, is_published: bool
) -> Audience:
    """Whom a message is for that answers what was written last; `is_published` is whether it would be sent."""
    asker = _asker(transaction.state)
    is_private = bool(room_of(transaction.state.identity.address))
    verbosity = _verbosity_of(transaction, asker)
    is_unnotified = purpose in UNNOTIFIED and verbosity is not Verbosity.VERBOSE
    if verbosity is Verbosity.VERBOSE:
        is_published = is_published or bool(text.strip())
    elif (is_unnotified and is_private) or (purpose in UNDER_WAY and verbosity is Verbosity.QUIET):
        is_published = False
    if not is_published:
        return Audience(is_published=False)
    called = (asker, *(PublicKey(tag[1]) for tag in tags if tag[0] == "p"))
    notifies: tuple[PublicKey, ...] | None = () if is_unnotified else None
    if notifies is None and transaction.policy.notifications.verbosity is Verbosity.QUIET:
        wanted = dict.fromkeys([*called, *_who_said(transaction, Verbosity.VERBOSE)])
        notifies = tuple(person for person in wanted if person)
    silent = tuple(person for person in _who_said(transaction, Verbosity.QUIET) if person not in called)
    hours = transaction.policy.notifications.quiet_hours
    until = hours.until(transaction.now) if hours is not None else Millis(0)
    if hours is None or not until or notifies == ():
        return Audience(is_published=True, notifies=notifies, silent=silent)
    awake = (*_awake(transaction, hours), *_machines(transaction.state))
    if is_private:
        called = tuple(PublicKey(str(person)) for person in transaction.state.identity.address.get("people", ()))
    missed_by = tuple(dict.fromkeys(person for person in called if person and person not in awake))
    return Audience(
        is_published=True,
        notifies=awake if notifies is None else tuple(person for person in notifies if person in awake),
        silent=silent,
        missed_by=missed_by,
        missed_until=until if missed_by else Millis(0),
    )


def note_awake(transaction: Transaction, signal: MessageReceived) -> None:
    """Record that who writes in their quiet hours is awake, or has seen what came in them.

    What a program writes for them is no sign of it, nor what they wrote long before it came here: a relay or the daemon
    was away. Nor is what is dated far in the future.
    """
    hours = transaction.policy.notifications.quiet_hours
    is_program = signal.is_plain or signal.message.by_machine
    person = signal.message.author
    is_quiet = hours is not None and hours.until(transaction.now)
    written_at = Millis(signal.message.created_at * 1000)
    is_recent = abs(transaction.now - written_at) < AWAKE
    if not is_program and is_recent and (is_quiet or person in transaction.state.delivery.missed):
        transaction.add(r.QuietHoursInterrupted, person=person, written_at=min(transaction.now, written_at))


def _asker(state: State) -> PublicKey:
    """Who wrote what our next message answers."""
    origin = state.delivery.command_origin or state.delivery.origin
    return PublicKey(str(origin.get("author", "")))


def _verbosity_of(transaction: Transaction, person: PublicKey) -> Verbosity:
    return transaction.state.delivery.verbosity.get(person, transaction.policy.notifications.verbosity)


def _who_said(transaction: Transaction, wanted: Verbosity) -> tuple[PublicKey, ...]:
    """Who has asked for that here."""
    said = transaction.state.delivery.verbosity
    return tuple(person for person, verbosity in said.items() if verbosity is wanted)


def _awake(transaction: Transaction, hours: QuietHours) -> tuple[PublicKey, ...]:
    """Who has written here within the last half hour.

    Of what came in quiet hours `note_awake` has recorded whose sign it is.
    """
    state = transaction.state
    since = transaction.now - AWAKE
    messages = chain(state.memory.recent, state.cycle.messages)
    by_day = (message for message in messages if message.at >= since and not hours.until(message.at))
    wrote = (message.author for message in by_day if _is_of_person(message))
    acted = (person for person, at in state.delivery.awake.items() if at >= since)
    return tuple(dict.fromkeys([*wrote, *acted]))


def _is_of_person(message: Message) -> bool:
    return message.role is not None and not message.is_plain


def _machines(state: State) -> tuple[PublicKey, ...]:
    """The agents elsewhere that have written here: no quiet hours are theirs."""
    messages = chain(state.memory.recent, state.cycle.messages)
    return tuple(dict.fromkeys(message.author for message in messages if message.by_machine))
