"""What becomes of words on their way to relays, as folds.

Never: decide when to give a relay up.
"""

from dataclasses import replace

from . import records as r
from .state import State


def delivered(c: State, record: r.Delivered) -> None:
    """A relay has answered for good; a row that is answered by all is gone."""
    row = c.outbox.get(record.said)
    if row is None:
        return
    left = tuple(pair for pair in row.open if pair != (record.part, record.relay))
    expires = row.expires_at or record.expires_at
    changed = replace(row, open=left, expires_at=expires)
    rows = {seq: changed if seq == record.said else other for seq, other in c.outbox.items()}
    c.outbox = {seq: other for seq, other in rows.items() if other.open}


def expired(c: State, record: r.OutboxExpired) -> None:
    """The relays that are left were given up."""
    c.outbox = {seq: row for seq, row in c.outbox.items() if seq != record.said}
