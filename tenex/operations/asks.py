"""What a conversation waits for from a user, and the message that an answer replies to.

`asks_of` is the one place that lists it, of whatever kind: open questions of agents, calls that need a permission,
plans, waivers, and whose turn it is. A page shows what it gives, with a form for each.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tenex.core import records as r
from tenex.core.approvals.message import call_text, number_of, scope
from tenex.core.approvals.shown_values import visible
from tenex.core.approvals.state import Request
from tenex.core.conversation import Conversation
from tenex.core.ids import CallId, ConversationId, EventId, Millis, PublicKey, RunId
from tenex.core.messages import ModelStep
from tenex.core.people.trust import room_of
from tenex.core.port_values import UnsignedEvent
from tenex.core.projection import glance_of
from tenex.core.values import replace
from tenex.core.work.run import ASK
from tenex.nostr.threading.notes import NOTE, NOTES

Kind = Literal["question", "approval", "plan", "waiver", "turn"]

ORDER: Final[Mapping[Kind, int]] = {"question": 0, "approval": 0, "plan": 0, "waiver": 0, "turn": 1}
"""Decisions come before conversations that merely have nothing to do."""
DECISIONS: Final[Mapping[str, Kind]] = {"approval": "plan", "waiver": "waiver"}
"""What a message of ours asks a user to decide (`MessageSent.asks`), by our name of it."""
MOST_OPTIONS: Final = 20
"""Of a question, as buttons."""
WHOLE: Final = 100_000
"""Characters of a call that a page shows; a longer one cannot be allowed from it, since no one would have seen it."""
SAID: Final = 1_000
"""Characters of what an agent says about its calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """The message that an answer replies to, and where its conversation lives."""

    event: UnsignedEvent
    relays: tuple[str, ...]
    address: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCall:
    """A call that needs a permission, with all that would run."""

    tool: str
    text: str
    """The command, or the tool with its arguments; what is invisible is written as escapes."""
    folder: str
    """Where a command starts; "" for the workspace."""
    rule: str
    """Why it is asked about."""
    number: int = 0
    """Its number in the request; 0 where it is the only call."""
    always: str = ""
    """What the answer `always` to it would allow."""


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
    options: tuple[str, ...] = ()
    """From which a question lets one choose."""
    calls: tuple[ShownCall, ...] = ()
    """What a permission is for."""
    said: str = ""
    """What the agent says about these calls."""
    always: str = ""
    """What the answer `always` to all of them would allow."""
    number: str = ""
    """By which the command line names a request."""
    waiting_for: str = ""
    """Of a turn, as `Glance.waiting_for`."""
    expires_at: Millis = Millis(0)
    """When it is refused without an answer; 0 for never."""

    @property
    def is_whole(self) -> bool:
        """Whether a page shows all that it asks."""
        return sum(len(call.text) for call in self.calls) <= WHOLE


def asks_of(state: Conversation, records: Iterable[r.Record]) -> list[Ask]:
    """What a conversation waits for, by its state and the records of its journal that hold the messages."""
    sent = [record for record in records if isinstance(record, r.MessageSent)]
    by_event = {event.id: record for record in sent for event in record.events}
    asks: list[Ask] = []
    asked: set[tuple[RunId, CallId]] = set()
    for request in state.approvals.open.values():
        message = next((by_event[EventId(event)] for event in request.events if EventId(event) in by_event), None)
        asks.append(_approval(state, request, message))
        asked.update((request.run, call.call) for call in request.calls)
    for event, question in state.work.asks.items():
        if question not in asked:  # a long question is several events
            asked.add(question)
            asks.append(_question(state, *question, by_event.get(EventId(event))))
    if asks or state.cycle.status != "waiting":
        return asks
    last = sent[-1] if sent else None
    is_decision = last is not None and last.asks and state.cycle.waiting_for != "user"
    kind: Kind = DECISIONS.get(last.asks, "turn") if last is not None and is_decision else "turn"
    return [_ask(state, kind, last, waiting_for=state.cycle.waiting_for)]


def replied_by(state: Conversation, message: r.MessageSent | None) -> Replied | None:
    """The message as one that can be answered: by its last event, which is where a client shows its end.

    Not in direct messages: a page writes what everybody can read.
    """
    address = state.identity.address
    if message is None or not message.events or not message.relays or not address or room_of(address):
        return None
    event = message.events[-1]
    event = replace(event, id=state.delivery.newest_id(event.id))
    return Replied(event=event, relays=message.relays, address=state.identity.address)


def replied_to_root(state: Conversation) -> Replied | None:
    """The note that began a conversation as one that can be answered, for a time in which no agent has written yet.

    Its text is not needed: a reply names it by its id. Other forms need tags of the event that no record holds.
    """
    address = state.identity.address
    relays = tuple(map(str, address.get("relays") or ()))
    is_note = address.get("form") == NOTES.name and address.get("root_kind") == NOTE
    if not is_note or "group" in address or not relays:
        return None
    root = UnsignedEvent(
        id=EventId(str(address["root"])),
        pubkey=PublicKey(str(address["root_author"])),
        created_at=state.identity.started_at // 1_000,
        kind=NOTE,
        tags=(),
        content="",
    )
    return Replied(event=root, relays=relays, address=address)


def newest_message(records: Sequence[r.Record]) -> r.MessageSent | None:
    """The newest message of ours that was published, which what a user writes next replies to."""
    sent = (record for record in reversed(records) if isinstance(record, r.MessageSent))
    return next((record for record in sent if record.events), None)


def _approval(state: Conversation, request: Request, message: r.MessageSent | None) -> Ask:
    run = state.work.runs.get(request.run)
    calls: list[ShownCall] = []
    for number, asked in request.left.items():
        call = run.find(asked.call) if run is not None else None
        arguments: Mapping[str, Any] = {} if call is None else call.request.arguments
        folder = arguments.get("cwd")
        calls.append(
            ShownCall(
                tool=asked.tool,
                text=asked.line if call is None else call_text(asked.tool, arguments),
                folder=visible(folder) if isinstance(folder, str) else "",
                rule=asked.rule,
                number=number if len(request.calls) > 1 else 0,
                always=scope(asked),
            )
        )
    newest = run.entries[-1] if run is not None and run.entries else None
    return _ask(
        state,
        "approval",
        message,
        who=request.name,
        text=request.line,
        calls=tuple(calls),
        said=visible(newest.text.strip())[:SAID] if isinstance(newest, ModelStep) else "",
        always="what each says above" if len(calls) > 1 else calls[0].always,
        number=number_of(state.id, request.seq),
        expires_at=request.expires_at,
    )


def _question(state: Conversation, run_id: RunId, call_id: CallId, message: r.MessageSent | None) -> Ask:
    run = state.work.runs.get(run_id)
    call = run.find(call_id) if run is not None else None
    is_ask = call is not None and call.request.tool == ASK
    arguments: Mapping[str, Any] = call.request.arguments if call is not None and is_ask else {}
    options = arguments.get("options")
    choices = [str(option) for option in options] if isinstance(options, list) else []
    return _ask(
        state,
        "question",
        message,
        who=run.name if run is not None else "",
        text=str(arguments.get("question") or ""),
        options=tuple(choice for choice in choices if choice.strip())[:MOST_OPTIONS],
    )


def _ask(
    state: Conversation, kind: Kind, message: r.MessageSent | None, *, who: str = "", text: str = "", **more: Any
) -> Ask:
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
        **more,
    )
