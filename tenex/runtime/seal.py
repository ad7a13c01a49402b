"""Completes records before they are journaled: the events of a message, its date, the prompt of a run."""

import hashlib
from collections.abc import Callable
from functools import lru_cache

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.ports import OutgoingMessage, Prompt, Prompter, Sealer, UnsignedEvent
from tenex.core.values import replace
from tenex.core.work.run import Run

PROMPTS = 64
"""System prompts whose digests are kept: those of the agents at work, a few MB at most."""
LEAD = 60
"""Seconds our events may be dated ahead: some relays refuse more than 15 minutes (NIP-22)."""


def seal(state: Conversation, record: r.Record, sealer: Sealer, prompter: Prompter) -> r.Record:
    """The record with what the core leaves open; most records come back unchanged."""
    match record:
        case r.MessageSent():
            return sealed(state, record, sealer)
        case r.ButtonsClosed():
            return closed(state, record, sealer)
        case r.CostReported():
            return reported(state, record, sealer)
        case r.Delivered(again=UnsignedEvent() as event):
            return replace(record, again=sealer.redated(event, dated(state, record)))
        case r.RunStarted() | r.AgentPhaseChanged() | r.PromptRerendered():
            return prompted(state, record, prompter.work)
    return record


def sealed(state: Conversation, record: r.MessageSent, sealer: Sealer) -> r.MessageSent:
    """A message with its events and their relays; one that is not published has none."""
    if not record.is_published:
        return replace(record, buttons=None) if record.buttons else record
    draft = OutgoingMessage(
        speaker=record.speaker,
        text=record.text,
        tags=record.tags,
        created_at=dated(state, record),
        address=state.identity.address,
        reply_to=state.delivery.command_origin or state.delivery.origin,
        is_markdown=is_of_model(state, record),
        name=record.name,
        notifies=record.notifies,
        silent=record.silent,
        files=tuple(file for file in record.files if file.url),
        buttons=record.buttons,
    )
    if draft.buttons is not None and not sealer.has_buttons(draft):
        draft = replace(draft, buttons=None)
    events = sealer.seal(draft)
    return replace(
        record,
        buttons=draft.buttons,
        events=events,
        wraps=sealer.wraps(draft, events),
        relays=sealer.relays(draft),
        others=sealer.others(draft),
    )


def closed(state: Conversation, record: r.ButtonsClosed, sealer: Sealer) -> r.ButtonsClosed:
    """The end of buttons with the event that has their relay end them; none where the relay does not have them."""
    if record.is_refused:
        return record
    draft = _without_words(state, record)
    return replace(
        record, events=sealer.closing(draft, state.delivery.newest_id(record.event)), relays=sealer.relays(draft)
    )


def reported(state: Conversation, record: r.CostReported, sealer: Sealer) -> r.CostReported:
    """The report of a cost with its event."""
    draft = _without_words(state, record)
    return replace(record, events=sealer.cost_report(draft, record.cost), relays=sealer.relays(draft))


def _without_words(state: Conversation, record: r.ButtonsClosed | r.CostReported) -> OutgoingMessage:
    """The draft of an event that is no message, for the relays of the conversation."""
    return OutgoingMessage(
        speaker=record.speaker,
        text="",
        tags=(),
        created_at=dated(state, record),
        address=state.identity.address,
        reply_to={},
    )


def is_of_model(state: Conversation, record: r.MessageSent) -> bool:
    """Whether an agent's model wrote the words: not where they show a call that a person is to allow."""
    if record.in_place_of is not None:
        return True
    if record.purpose != "question":
        return record.purpose == "completion"
    if record.run is None or record.call is None:
        return False
    return state.approvals.asked(record.run, record.call) is None


def prompted(
    state: Conversation,
    record: r.RunStarted | r.AgentPhaseChanged | r.PromptRerendered,
    render: Callable[[Conversation, Run], Prompt],
) -> r.RunStarted | r.AgentPhaseChanged | r.PromptRerendered:
    """The record of a run that begins, or whose agent changed its phase, with the prompt that holds from then on."""
    ahead = state.fork()
    ahead.apply(record)
    prompt = render(ahead, ahead.work.runs[record.run])
    digest = _digest(prompt.system)
    system = None if digest in state.memory.systems else prompt.system
    forgets = state.memory.spare_systems(digest)
    if isinstance(record, r.RunStarted):
        return replace(record, digest=digest, system=system, forgets=forgets, entries=prompt.entries)
    return replace(record, digest=digest, system=system, forgets=forgets)


@lru_cache(maxsize=PROMPTS)
def _digest(system: str) -> str:
    return hashlib.sha256(system.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def dated(state: Conversation, record: r.Record) -> int:
    """The `created_at` of a message: after our last one and after what it answers, at most `LEAD` seconds ahead.

    A date further ahead came from a clock that was wrong and is ignored: clamped to `LEAD`, all messages of one second
    would have the same date and no order.
    """
    now = record.at // 1000
    latest = now + LEAD
    last = state.delivery.last_created_at if state.delivery.last_created_at <= latest else 0
    origin = state.delivery.origin_at if state.delivery.origin_at <= latest else 0
    return min(max(now, last + 1, origin), latest)
