"""What each record does to the messages on their way out."""

from typing import Final

from tenex.core import records as r
from tenex.core.ids import EventId, Millis
from tenex.core.port_values import outgoing_events
from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.values import replace

from .state import Delivery, OutboxRow, RelayRefusal

DELIVERY: Final = Reducers[Delivery]("delivery")

REFUSALS = 20
"""Refused events that are remembered: enough to see which relay refuses what."""


# ---- which message ours answer ---------------------------------------------------------------------------------------


@DELIVERY.on(r.MessageRecorded)
def _wrote(delivery: Delivery, record: r.MessageRecorded, _: State) -> Delivery:
    return replace(
        delivery,
        origin=record.origin,
        origin_at=record.created_at,
        command_origin={},
        first_origin=delivery.first_origin or record.origin,
    )


@DELIVERY.on(r.CommandGiven)
def _command(delivery: Delivery, record: r.CommandGiven, _: State) -> Delivery:
    return replace(
        delivery,
        origin=delivery.origin or record.origin,
        origin_at=record.created_at,
        command_origin=record.origin,
        first_origin=delivery.first_origin or record.origin,
    )


@DELIVERY.on(r.MessageWithdrawn)
def _withdrawn(delivery: Delivery, record: r.MessageWithdrawn, before: State) -> Delivery:
    messages = (*before.memory.recent, *before.cycle.messages)
    deleted = next((message.event_id for message in messages if message.seq == record.message), "")
    if deleted and delivery.origin.get("id") == deleted:  # clients show no answers to what is gone
        return replace(delivery, origin=delivery.first_origin or delivery.origin)
    return delivery


@DELIVERY.on(r.TurnOpened)
def _turn_opened(delivery: Delivery, _record: r.TurnOpened, _: State) -> Delivery:
    return replace(delivery, command_origin={}) if delivery.command_origin else delivery


# ---- the outbox ------------------------------------------------------------------------------------------------------


@DELIVERY.on(r.MessageSent)
def _sent(delivery: Delivery, record: r.MessageSent, _: State) -> Delivery:
    outgoing = outgoing_events(record.events, record.relays, record.wraps)
    pairs = tuple((part, relay) for part, (_event, relays) in enumerate(outgoing) for relay in relays)
    if pairs:
        row = OutboxRow(events=tuple(event for event, _relays in outgoing), open=pairs, others=record.others)
        created_at = max(event.created_at for event in record.events)
        delivery = replace(delivery, outbox={**delivery.outbox, record.seq: row}, last_created_at=created_at)
    if record.is_published and delivery.command_origin:
        delivery = replace(delivery, command_origin={})
    return delivery


@DELIVERY.on(r.Delivered)
def _delivered(delivery: Delivery, record: r.Delivered, _: State) -> Delivery:
    """A relay has answered for good; a row that is answered by all is gone."""
    row = delivery.outbox.get(record.message)
    if row is None:
        return delivery
    is_refused = record.refused is not None and not record.accepted
    answered = row.answered(record.part, record.relay, expires_at=record.expires_at, is_refused=is_refused)
    rows = {**delivery.outbox, record.message: answered}
    delivery = replace(delivery, outbox={seq: other for seq, other in rows.items() if other.open})
    if record.accepted:
        return _accepted(delivery, record.message)
    if record.refused is not None:
        return _refused(delivery, row, record, record.refused)
    return delivery


def _accepted(delivery: Delivery, message: int) -> Delivery:
    if not any(refusal.message == message for refusal in delivery.refusals):
        return delivery
    refusals = (
        replace(refusal, is_delivered=True) if refusal.message == message else refusal for refusal in delivery.refusals
    )
    return replace(delivery, refusals=tuple(refusals))


def _refused(delivery: Delivery, row: OutboxRow, record: r.Delivered, event: EventId) -> Delivery:
    earlier = [refusal.is_delivered for refusal in delivery.refusals if refusal.message == record.message]
    refusal = RelayRefusal(
        message=record.message,
        event=event,
        relay=record.relay,
        reason=record.detail,
        at=record.at,
        is_delivered=earlier[-1] if earlier else bool(row.expires_at),
    )
    return replace(delivery, refusals=(*delivery.refusals, refusal)[-REFUSALS:])


@DELIVERY.on(r.OutboxExpired)
def _expired(delivery: Delivery, record: r.OutboxExpired, _: State) -> Delivery:
    return replace(delivery, outbox={seq: row for seq, row in delivery.outbox.items() if seq != record.message})


@DELIVERY.on(r.ProcessRestarted)
def _restarted(delivery: Delivery, record: r.ProcessRestarted, _: State) -> Delivery:
    return _postponed(delivery, record.away)


@DELIVERY.on(r.ClockAdjusted)
def _clock_set(delivery: Delivery, record: r.ClockAdjusted, _: State) -> Delivery:
    return _postponed(delivery, record.by)


def _postponed(delivery: Delivery, by: int) -> Delivery:
    """Have what waits for a relay expire later; a row no relay has taken yet does not expire at all."""
    rows = {
        seq: replace(row, expires_at=Millis(row.expires_at + by)) if row.expires_at else row
        for seq, row in delivery.outbox.items()
    }
    return replace(delivery, outbox=rows)
