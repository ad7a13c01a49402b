"""What a conversation waits for from a user, and the message that an answer replies to.

`asks_of` is the one place that lists it, of whatever kind: open questions of agents, approvals, waivers, and whose turn
it is. A page shows what it gives, with a form for each.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.ids import CallId, ConversationId, EventId, Millis, RunId
from tenex.core.port_values import UnsignedEvent
from tenex.core.projection import glance_of
from tenex.core.trust import room_of

Kind = Literal["question", "approval", "waiver", "turn"]

ORDER: Final[Mapping[Kind, int]] = {"question": 0, "approval": 0, "waiver": 0, "turn": 1}
"""Decisions come before conversations that merely have nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """The message that an answer replies to, and where its conversation lives."""

    event: UnsignedEvent
    relays: tuple[str, ...]
    address: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Something that waits for a user."""

    conversation: ConversationId
    title: str
    kind: Kind
    who: str
    text: str
    since: Millis
    seq: int
    """The record of the message that asks."""
    replied: Replied | None
    """None where no message was sent that could be answered."""


def asks_of(state: Conversation, records: Iterable[r.Record]) -> list[Ask]:
    """What a conversation waits for, by its state and the records of its journal that hold the messages."""
    sent = [record for record in records if isinstance(record, r.MessageSent)]
    by_event = {event.id: record for record in sent for event in record.events}
    asks: list[Ask] = []
    asked: set[tuple[RunId, CallId]] = set()
    requests = state.approvals.open.values()
    for request in requests:
        message = next((by_event[EventId(event)] for event in request.events if EventId(event) in by_event), None)
        asks.append(_ask(state, "approval", message, who=request.name, text="" if message else request.line))
        asked.update((request.run, call.call) for call in request.calls)
    for event, question in state.work.asks.items():
        if question not in asked:  # a long question is several events
            asked.add(question)
            asks.append(_question(state, *question, by_event.get(EventId(event))))
    if asks or state.cycle.status != "waiting":
        return asks
    last = sent[-1] if sent else None
    kind: Kind = last.asks if last is not None and last.asks and state.cycle.waiting_for != "user" else "turn"
    return [_ask(state, kind, last)]


def replied_by(state: Conversation, message: r.MessageSent | None) -> Replied | None:
    """The message as one that can be answered: by its last event, which is where a client shows its end.

    Not in direct messages: a page writes what everybody can read.
    """
    address = state.identity.address
    if message is None or not message.events or not message.relays or not address or room_of(address):
        return None
    return Replied(event=message.events[-1], relays=message.relays, address=state.identity.address)


def newest_message(records: Sequence[r.Record]) -> r.MessageSent | None:
    """The newest message of ours that was published, which what a user writes next replies to."""
    sent = (record for record in reversed(records) if isinstance(record, r.MessageSent))
    return next((record for record in sent if record.events), None)


def _question(state: Conversation, run_id: RunId, call_id: CallId, message: r.MessageSent | None) -> Ask:
    run = state.work.runs.get(run_id)
    call = run.find(call_id) if run is not None else None
    text = str(call.request.arguments.get("question") or "") if call is not None else ""
    return _ask(state, "question", message, who=run.name if run is not None else "", text=text)


def _ask(state: Conversation, kind: Kind, message: r.MessageSent | None, *, who: str = "", text: str = "") -> Ask:
    glance = glance_of(state)
    return Ask(
        conversation=glance.id,
        title=glance.title,
        kind=kind,
        who=who or (message.name if message is not None else ""),
        text=text or (message.text if message is not None else ""),
        since=message.at if message is not None else glance.updated_at,
        seq=message.seq if message is not None else glance.seq,
        replied=replied_by(state, message),
    )
