"""What follows from the answer of a relay, from none, and from the end of quiet hours."""

from typing import Final

from tenex.core import records as r
from tenex.core.effects import Key
from tenex.core.ids import Millis, PublicKey
from tenex.core.memory.window import in_a_line
from tenex.core.people.trust import group_of, room_of
from tenex.core.port_values import PublishOutcome, UnsignedEvent
from tenex.core.text.amounts import count
from tenex.core.transaction import Transaction

from .outgoing import notify, repeat
from .state import MOST_REDATED, Missed, OutboxRow

# Outbox expiry. A message is one or several events, each of which goes to several relays. Its outbox row keeps the
# pairs of event and relay that have not answered for good. What passes (silence, `rate-limited:`, a relay that is away)
# is tried again by the relay's client and is never seen here: an outcome is final. A pair leaves the row with its
# outcome, and the row goes with its last pair.
#
# One rule holds for all rows, also those of private messages, whose relays are named by their readers. A row that no
# relay has accepted is kept for `OUTBOX_LONGEST`, so that no message is lost while the relays are away for weeks. Once
# a relay has accepted, the others have `OUTBOX_EXPIRY`, counted once from the first, and then the row goes with what is
# still open. A refusal begins that time too where it adds the relays that are tried in place of the one that refused
# (`others`): it is not known whether those exist. A refusal without such relays does not, because another relay may
# still be the first to accept.
#
# A refusal may be for the date of the event, as where a relay was away for longer than dates may differ. Then the
# event is made again with a new date (`Delivered.again`) and is a further part of the row. Both can never be read: this
# is decided when every relay has refused the old one so, was asked for it and does not have it. A relay that refuses it
# for another cause may have it: its OK was lost, and then our key was removed there. The record of the last answer
# holds the new event, so there is no moment between the two. A relay that refuses the new one too, whose date is of
# now, has refused for another reason: that is final.
OUTBOX_EXPIRY = Millis(3 * 24 * 3_600_000)
"""How long other relays are tried once one has accepted, or refused what others are also tried for: one dead relay
keeps nothing open."""

_OF_MEMBERS: Final = ("restricted:", "auth-required:", "blocked:")
"""The prefixes (NIP-01) of refusals that are of a key."""

REMINDED_CHARACTERS = 120
"""Of each message that a reminder shows."""


def published(transaction: Transaction, key: Key, outcome: PublishOutcome) -> None:
    """Record what a relay answered for good about an event, unless that is recorded."""
    row = transaction.state.delivery.outbox.get(key.seq)
    number, _, relay = key.part.partition(" ")
    if row is None or not number.isdecimal() or (int(number), relay) not in row.open:
        return
    part = int(number)
    event = row.events[part]
    may_be_other = row.redated < MOST_REDATED and _may_have_another_id(transaction, event)
    is_outdated = outcome.is_outdated and may_be_other
    is_redated = may_be_other and not outcome.accepted and row.may_be_redated(part, relay, is_outdated=is_outdated)
    tries_others = bool(row.others) and not is_outdated
    expires = Millis(transaction.now + OUTBOX_EXPIRY) if outcome.accepted or tries_others else Millis(0)
    transaction.add(
        r.Delivered,
        message=key.seq,
        part=part,
        relay=relay,
        accepted=outcome.accepted,
        detail=outcome.detail[:200],
        expires_at=expires,
        refused=None if outcome.accepted else event.id,
        outdated=is_outdated,
        again=event if is_redated else None,  # its date and its id are given where records are sealed
    )
    if key.seq not in transaction.state.delivery.outbox:
        delivered = {each for each, _ in row.accepted} | ({part} if outcome.accepted else set())
        if len(delivered) < row.parts:
            _repeat(transaction, key.seq, row, outcome.fallback)


def _repeat(transaction: Transaction, message: int, row: OutboxRow, fallback: PublicKey | None) -> None:
    """Send in a room by another key what no relay took there, once; the first time for a cause with the cause.

    Somebody in the room waits for it, and sees nothing of a refusal. Where the message itself is refused (`invalid:`)
    it is refused of any key, so then only the cause is sent.
    """
    state = transaction.state
    policy = transaction.policy
    refusals = [refusal for refusal in state.delivery.refusals if refusal.message == message]
    if not refusals or not group_of(state.identity.address) or not row.text:
        return
    refusal = refusals[-1]
    key = fallback or policy.project.pubkey
    agents = {agent.pubkey: agent for agent in (*policy.roster.values(), policy.project)}
    speaker = agents.get(key)
    if speaker is None or key == refusal.by:
        return
    is_of_message = refusal.reason.startswith("invalid:")
    is_said = any(
        (earlier.by, earlier.reason) == (refusal.by, refusal.reason) and earlier.message != message
        for earlier in state.delivery.refusals
    )
    cause = f"{row.name} cannot write here (“{refusal.reason}”)."
    if is_of_message:
        where = f"The message is in the file of the conversation: tenex conversations show {state.id}"
        lines = [cause, where]
    else:
        if refusal.reason.startswith(_OF_MEMBERS):
            cause = f"{cause} Add {row.name} to the members; until then {speaker.name} passes on its messages."
        lines = [*(() if is_said else (cause,)), f"{row.name}:", row.text]
    repeat(transaction, speaker, "\n\n".join(lines), state.delivery.first_ids.get(row.events[0].id, row.events[0].id))


def _may_have_another_id(transaction: Transaction, event: UnsignedEvent) -> bool:
    """Whether an event may get another id: not one that is signed, nor the one that the conversation is named by."""
    address = transaction.state.identity.address
    return not event.sig and str(event.id) not in (str(transaction.state.id), address.get("root"))


def quiet_hours_over(transaction: Transaction, first: int) -> None:
    """Send what waited, or remind of what came, to those for whom `first` was the first message that did not ring.

    Where the machine was off in the meantime it may be quiet again, and then it waits for the end of these hours.
    """
    state = transaction.state
    missed = {person: what for person, what in state.delivery.missed.items() if what.first == first}
    if not missed:
        return
    hours = transaction.policy.notifications.quiet_hours
    until = hours.until(transaction.now) if hours is not None else Millis(0)
    if until:
        transaction.add(r.QuietHoursPostponed, people=tuple(missed), until=until)
        return
    transaction.add(r.QuietHoursEnded, people=tuple(missed))
    if room_of(state.identity.address):
        return
    answered = PublicKey(str(state.delivery.origin.get("author", "")))
    tags = tuple(("p", person) for person in missed if person != answered)
    most = max(missed.values(), key=lambda what: what.count)
    notify(transaction, _reminder(transaction, most), "reminder", tags=tags, notifies=tuple(missed))


def _reminder(transaction: Transaction, missed: Missed) -> str:
    recent = {message.seq: message for message in transaction.state.memory.recent}
    shown = [recent[seq] for seq in missed.newest if seq in recent]
    lines = [f"{message.name}: “{in_a_line(message.text, REMINDED_CHARACTERS)}”" for message in shown]
    wrote = f"In the quiet hours {count(missed.count, 'message')} came here"
    return "\n".join([f"{wrote}:", *lines]) if lines else f"{wrote}."


def expired(transaction: Transaction, message: int) -> None:
    """Record that the relays of a message which have not answered are no longer tried."""
    row = transaction.state.delivery.outbox[message]
    delivered = {part for part, _relay in row.accepted}
    transaction.add(
        r.OutboxExpired,
        message=message,
        relays=tuple(dict.fromkeys(relay for _part, relay in row.open)),
        accepted=len({relay for _part, relay in row.accepted}),
        lost=len({part for part, _relay in row.open} - delivered),
    )
