"""What follows from the answer of a relay."""

from tenex.core import records as r
from tenex.core.effects import Key
from tenex.core.ids import Millis
from tenex.core.port_values import PublishOutcome
from tenex.core.transaction import Transaction

# Outbox expiry. A message is one or several events, each of which goes to several relays. Its outbox row keeps the
# pairs of event and relay that have not answered for good. What passes (silence, `rate-limited:`, a relay that is away)
# is tried again by the relay's client and is never seen here: an outcome is final. A pair leaves the row with its
# outcome, and the row goes with its last pair.
#
# A row that no relay has accepted does not expire: the message would be lost. Once a relay has accepted, the others
# have `OUTBOX_EXPIRY`, counted once from the first, and then the row goes with what is still open. A refusal begins
# that time too where it adds the relays that are tried in place of the one that refused (`others`): it is not known
# whether those exist, and they may not keep the row for ever. A refusal without such relays does not, because another
# relay may still be the first to accept.
OUTBOX_EXPIRY = Millis(3 * 24 * 3_600_000)
"""How long other relays are tried once one has accepted, or refused what others are also tried for: one dead relay
keeps nothing open."""


def published(transaction: Transaction, key: Key, outcome: PublishOutcome) -> None:
    """Record what a relay answered for good about an event, unless that is recorded."""
    row = transaction.state.delivery.outbox.get(key.seq)
    part, _, relay = key.part.partition(" ")
    if row is None or not part.isdecimal() or (int(part), relay) not in row.open:
        return
    expires = Millis(transaction.now + OUTBOX_EXPIRY) if outcome.accepted or row.others else Millis(0)
    transaction.add(
        r.Delivered,
        message=key.seq,
        part=int(part),
        relay=relay,
        accepted=outcome.accepted,
        detail=outcome.detail[:200],
        expires_at=expires,
        refused=None if outcome.accepted else row.events[int(part)].id,
    )
