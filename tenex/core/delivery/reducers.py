"""What each record does to the messages on their way out."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeVar

from tenex.core import records as r
from tenex.core.ids import EventId, Millis, PublicKey
from tenex.core.people.trust import room_of
from tenex.core.port_values import AttachedFile, UnsignedEvent, outgoing_events
from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.values import replace

from .files import WITHOUT_FILES, destination
from .state import OUTBOX_LONGEST, ButtonQuestion, Delivery, Missed, OutboxRow, RelayRefusal, ShowRequest

V = TypeVar("V")

DELIVERY: Final = Reducers[Delivery]("delivery")

REFUSALS = 20
"""Refused events that are remembered: enough to see which relay refuses what."""

REPEATED = 200
"""Events that repeat another whose first id is remembered: replies to older ones are to the thread as a whole."""

REMINDERS = 5
"""Events of reminders that are known as such: replies come soon."""
SHOWN_OF_MISSED = 3
"""Messages that a reminder shows the beginning of."""
PEOPLE = 50
"""Users who are remembered for what they have said of notifications, and as awake: the last ones."""


# ---- which message ours answer ---------------------------------------------------------------------------------------


@DELIVERY.on(r.MessageRecorded)
def _wrote(delivery: Delivery, record: r.MessageRecorded, _: State) -> Delivery:
    if record.is_correction:
        return delivery
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
def _sent(delivery: Delivery, record: r.MessageSent, before: State) -> Delivery:
    outgoing = outgoing_events(record.events, record.relays, record.wraps)
    pairs = tuple((part, relay) for part, (_event, relays) in enumerate(outgoing) for relay in relays)
    if pairs:
        row = OutboxRow(
            events=tuple(event for event, _relays in outgoing),
            open=pairs,
            others=record.others,
            held=_held(record, [event for event, _relays in outgoing], before),
            lost_at=Millis(record.at + OUTBOX_LONGEST),
            name=record.name,
            text=_repeatable(record),
        )
        created_at = max(event.created_at for event in record.events)
        delivery = replace(delivery, outbox={**delivery.outbox, record.seq: row}, last_created_at=created_at)
    if record.is_published and delivery.command_origin:
        delivery = replace(delivery, command_origin={})
    if record.files:
        delivery = _without(delivery, record.files)
    if record.in_place_of is not None:
        delivery = _known_as(delivery, record.in_place_of, record.events)
    if record.purpose == "reminder":
        ids = tuple(event.id for event in record.events)
        delivery = replace(delivery, reminders=(*delivery.reminders, *ids)[-REMINDERS:])
    if record.buttons is not None and record.events:
        delivery = replace(delivery, with_buttons={**delivery.with_buttons, record.events[0].id: _question(record)})
    return _missed(delivery, record) if record.missed_by else delivery


def _repeatable(record: r.MessageSent) -> str:
    """What another key sends where no relay takes a message; a question with buttons is first sent without them."""
    is_repeated = record.in_place_of is not None or record.buttons is not None
    return "" if is_repeated or record.purpose in WITHOUT_FILES else record.text


def _question(record: r.MessageSent) -> ButtonQuestion:
    return ButtonQuestion(
        message=record.seq,
        speaker=record.speaker,
        name=record.name,
        text=record.text,
        content=record.events[0].content,
        phase=record.phase,
        run=record.run,
        call=record.call,
        tags=record.tags,
        asks=record.asks,
        notifies=record.notifies,
        silent=record.silent,
    )


@DELIVERY.on(r.ButtonsClosed)
def _buttons_closed(delivery: Delivery, record: r.ButtonsClosed, _: State) -> Delivery:
    left = {event: question for event, question in delivery.with_buttons.items() if event != record.event}
    delivery = replace(delivery, with_buttons=left)
    if record.is_refused:  # what was refused is sent in another form
        others = tuple(refusal for refusal in delivery.refusals if refusal.message != record.message)
        return replace(delivery, refusals=others)
    return _without_words(delivery, record)


@DELIVERY.on(r.CostReported)
def _cost_reported(delivery: Delivery, record: r.CostReported, _: State) -> Delivery:
    return _without_words(delivery, record)


def _without_words(delivery: Delivery, record: r.ButtonsClosed | r.CostReported) -> Delivery:
    """The state in which the events of a record wait for their relays; no one reads them as a message."""
    pairs = tuple((part, relay) for part in range(len(record.events)) for relay in record.relays)
    if not pairs:
        return delivery
    row = OutboxRow(events=record.events, open=pairs, lost_at=Millis(record.at + OUTBOX_LONGEST))
    created_at = max(event.created_at for event in record.events)
    return replace(delivery, outbox={**delivery.outbox, record.seq: row}, last_created_at=created_at)


def _held(record: r.MessageSent, events: Sequence[UnsignedEvent], before: State) -> tuple[tuple[int, PublicKey], ...]:
    """The parts for people in their quiet hours: private messages, which cannot be sent without notifying."""
    if not record.missed_by or not room_of(before.identity.address):
        return ()
    return tuple(
        (part, person)
        for part, event in enumerate(events)
        for person in record.missed_by
        if any(tag[:2] == ("p", person) for tag in event.tags)
    )


def _missed(delivery: Delivery, record: r.MessageSent) -> Delivery:
    missed = dict(delivery.missed)
    for person in record.missed_by:
        earlier = missed.get(person) or Missed(first=record.seq, until=record.missed_until, count=0, newest=())
        newest = (*earlier.newest, record.seq)[-SHOWN_OF_MISSED:]
        missed[person] = replace(earlier, count=earlier.count + 1, newest=newest)
    return replace(delivery, missed=missed)


@DELIVERY.on(r.Delivered)
def _delivered(delivery: Delivery, record: r.Delivered, _: State) -> Delivery:
    """A relay has answered for good; a row that is answered by all is gone."""
    row = delivery.outbox.get(record.message)
    if row is None:
        return delivery
    is_refused = record.refused is not None and not record.accepted and not record.outdated
    answered = row.answered(
        record.part,
        record.relay,
        expires_at=record.expires_at,
        is_accepted=record.accepted,
        is_refused=is_refused,
    )
    if is_refused:
        answered = replace(answered, refused=(*answered.refused, record.part))
    if record.outdated:
        answered = replace(answered, outdated=(*answered.outdated, (record.part, record.relay)))
    if record.again is not None:
        answered = answered.with_new_date(record.part, record.again)
        delivery = _known_as(delivery, row.events[record.part].id, [record.again])
    rows = {**delivery.outbox, record.message: answered}
    delivery = replace(delivery, outbox={seq: other for seq, other in rows.items() if other.open})
    if record.accepted:
        return _accepted(delivery, record.message)
    if record.refused is not None:
        return _refused(delivery, row, record, record.refused)
    return delivery


def _known_as(delivery: Delivery, old: EventId, events: Sequence[UnsignedEvent]) -> Delivery:
    """The state in which these events are known by the id of an earlier one, whose words they have."""
    first = delivery.first_ids.get(old, old)
    first_ids = {**delivery.first_ids, **{event.id: first for event in events}}
    return replace(
        delivery,
        first_ids=dict(list(first_ids.items())[-REPEATED:]),
        last_created_at=max(delivery.last_created_at, *(event.created_at for event in events)),
    )


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
        is_delivered=earlier[-1] if earlier else bool(row.accepted),
        by=row.events[record.part].pubkey,
        name=row.name,
    )
    others = delivery.refusals
    if not row.name:  # of what is no message, the newest of each key and cause is enough
        same = ("", refusal.by, refusal.reason)
        others = tuple(other for other in others if (other.name, other.by, other.reason) != same)
    return replace(delivery, refusals=(*others, refusal)[-REFUSALS:])


@DELIVERY.on(r.OutboxExpired)
def _expired(delivery: Delivery, record: r.OutboxExpired, _: State) -> Delivery:
    return replace(delivery, outbox={seq: row for seq, row in delivery.outbox.items() if seq != record.message})


@DELIVERY.on(r.ProcessRestarted)
def _restarted(delivery: Delivery, record: r.ProcessRestarted, _: State) -> Delivery:
    return _postponed(delivery, record.away)


@DELIVERY.on(r.ClockAdjusted)
def _clock_set(delivery: Delivery, record: r.ClockAdjusted, _: State) -> Delivery:
    """A timer that runs keeps the time it had, but quiet hours end by the new clock: theirs run again."""
    missed = {person: replace(what, armed=record.seq) for person, what in delivery.missed.items()}
    return _postponed(replace(delivery, missed=missed), record.by)


def _postponed(delivery: Delivery, by: int) -> Delivery:
    """Have what waits for a relay expire later."""

    def later(at: Millis) -> Millis:
        return Millis(at + by) if at else at

    rows = {
        seq: replace(row, expires_at=later(row.expires_at), lost_at=later(row.lost_at))
        for seq, row in delivery.outbox.items()
    }
    return replace(delivery, outbox=rows)


# ---- files -----------------------------------------------------------------------------------------------------------


@DELIVERY.on(r.ToolCallCompleted)
def _call_returned(delivery: Delivery, record: r.ToolCallCompleted, _: State) -> Delivery:
    if not record.files:
        return delivery
    files = tuple(dict.fromkeys([*delivery.attached.get(record.run, ()), *record.files]))
    return replace(delivery, attached={**delivery.attached, record.run: files})


def _without(delivery: Delivery, sent: Sequence[AttachedFile]) -> Delivery:
    """Nothing of what was sent waits any more."""
    left = {run: tuple(file for file in files if file not in sent) for run, files in delivery.attached.items()}
    return replace(delivery, attached={run: files for run, files in left.items() if files})


@DELIVERY.on(r.FileRequested)
def _file_requested(delivery: Delivery, record: r.FileRequested, before: State) -> Delivery:
    where = destination(before, record.author, record.role)
    request = ShowRequest(path=record.path, destination=where)
    return replace(delivery, shows={**delivery.shows, record.seq: request})


@DELIVERY.on(r.FileShown)
def _file_shown(delivery: Delivery, record: r.FileShown, _: State) -> Delivery:
    return replace(delivery, shows={seq: request for seq, request in delivery.shows.items() if seq != record.request})


# ---- who is notified -------------------------------------------------------------------------------------------------


@DELIVERY.on(r.VerbositySet)
def _verbosity_set(delivery: Delivery, record: r.VerbositySet, _: State) -> Delivery:
    others = {person: verbosity for person, verbosity in delivery.verbosity.items() if person != record.person}
    if record.verbosity is not None:
        others[record.person] = record.verbosity
    return replace(delivery, verbosity=_newest(others))


@DELIVERY.on(r.QuietHoursInterrupted)
def _interrupted(delivery: Delivery, record: r.QuietHoursInterrupted, _: State) -> Delivery:
    others = {person: at for person, at in delivery.awake.items() if person != record.person}
    delivery = replace(delivery, awake=_newest({**others, record.person: record.written_at or record.at}))
    return _released(delivery, (record.person,))


@DELIVERY.on(r.QuietHoursPostponed)
def _quiet_hours_postponed(delivery: Delivery, record: r.QuietHoursPostponed, _: State) -> Delivery:
    missed = {
        person: replace(what, until=record.until, armed=record.seq) if person in record.people else what
        for person, what in delivery.missed.items()
    }
    return replace(delivery, missed=missed)


@DELIVERY.on(r.QuietHoursEnded)
def _quiet_hours_ended(delivery: Delivery, record: r.QuietHoursEnded, _: State) -> Delivery:
    return _released(delivery, record.people)


def _released(delivery: Delivery, people: Collection[PublicKey]) -> Delivery:
    """Nothing waits for the end of these people's quiet hours any more."""
    if delivery.missed.keys().isdisjoint(people):
        return delivery
    rows = {
        seq: replace(row, held=tuple(pair for pair in row.held if pair[1] not in people)) if row.held else row
        for seq, row in delivery.outbox.items()
    }
    missed = {person: what for person, what in delivery.missed.items() if person not in people}
    return replace(delivery, outbox=rows, missed=missed)


def _newest(by_person: Mapping[PublicKey, V]) -> Mapping[PublicKey, V]:
    return dict(list(by_person.items())[-PEOPLE:])
