"""What becomes of words on their way to relays, as folds."""

from dataclasses import replace

from tenex.core import records as r
from tenex.core.state.conversation import RelayRefusal, State

REFUSALS = 20
"""Refused events that are remembered: enough to see which relay refuses what."""


def delivered(c: State, record: r.Delivered) -> None:
    """A relay has answered for good; a row that is answered by all is gone.

    Once a relay has refused an event, all of the row also goes to the relays that were kept for that.
    """
    row = c.outbox.get(record.message)
    if row is None:
        return
    left = tuple(pair for pair in row.open if pair != (record.part, record.relay))
    expires = row.expires_at or record.expires_at
    changed = replace(row, open=left, expires_at=expires)
    if record.accepted:
        c.refusals = tuple(
            replace(one, is_delivered=one.is_delivered or one.message == record.message) for one in c.refusals
        )
    elif record.refused is not None:
        more = tuple((part, relay) for part in range(len(row.events)) for relay in row.others)
        changed = replace(changed, open=(*left, *more), others=())
        before = [one.is_delivered for one in c.refusals if one.message == record.message]
        refusal = RelayRefusal(
            message=record.message,
            event=record.refused,
            relay=record.relay,
            reason=record.detail,
            at=record.at,
            is_delivered=before[-1] if before else bool(row.expires_at),
        )
        c.refusals = (*c.refusals, refusal)[-REFUSALS:]
    rows = {seq: changed if seq == record.message else other for seq, other in c.outbox.items()}
    c.outbox = {seq: other for seq, other in rows.items() if other.open}


def expired(c: State, record: r.OutboxExpired) -> None:
    """The relays that are left were given up."""
    c.outbox = {seq: row for seq, row in c.outbox.items() if seq != record.message}
