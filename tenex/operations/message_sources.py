"""Reads the messages of a conversation from a readable file, from an older program's file, or from its events."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tenex.configuration.agents import PROJECT, read_library
from tenex.core.config import PeerGroup, Role
from tenex.core.cycle.records import PhaseTransition
from tenex.core.cycle.state import CYCLE_MESSAGES
from tenex.core.delivery.records import MessageSent, Purpose
from tenex.core.errors import InvalidEvent, StoreDamaged
from tenex.core.history.state import MessagePlace
from tenex.core.identity.state import title_of
from tenex.core.ids import ConversationId, Millis, PublicKey, Slug
from tenex.core.inbox.commands import parse
from tenex.core.inbox.records import CommandGiven, MessageRecorded
from tenex.core.memory.state import LEAST_RECENT
from tenex.core.people.trust import is_outside
from tenex.core.phases import AFTER_WORK, QUALITY_PHASES, Phase
from tenex.core.ports import UnsignedEvent
from tenex.core.signals import InboundMessage, MessageReceived
from tenex.core.text.names import placeholder, without_mentions
from tenex.nostr.events import Event, event_id, parse_event
from tenex.nostr.keys import KeyRing, parse_public_key
from tenex.nostr.threading import read_event
from tenex.runtime.seal import LEAD
from tenex.settings import ProjectPaths, Settings
from tenex.store.salvage import MessageRecord
from tenex.store.view_reader import entries

from .view_entries import NAME_CHARACTERS, phase_of, places_of_view, read_messages, read_transitions

OWNER: Final = "owner"
"""The operator's key; the others in that folder are the daemon's."""
_AGENT_TAGS: Final = frozenset({"phase", "llm-model", "status", "tool"})
"""Tags that only programs of this kind write."""
_PARTS: Final = {"workflow": "workflow", "mission": "mission", "agent_states": "agents"}
"""Fields of `State`, and their names in a readable file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Participants:
    """Who wrote: the project, its agents, and the users who may write here."""

    project: PublicKey
    agents: Mapping[PublicKey, Slug]
    users: PeerGroup
    names: Mapping[PublicKey, str] = field(default_factory=dict)

    @property
    def keys(self) -> set[PublicKey]:
        """The daemon's keys."""
        return {self.project, *self.agents}

    def name(self, pubkey: PublicKey) -> str:
        """The name to show."""
        return self.names.get(pubkey) or self.agents.get(pubkey) or placeholder(pubkey, self.users.owners)

    def without_project(self, text: str) -> str:
        """A user's text as the daemon records it."""
        return without_mentions(text, self.project, self.name(self.project))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredMessages:
    """What a source other than the journal has of a conversation."""

    source: str
    messages: Sequence[MessageRecord]
    """Oldest first; their seq has no meaning."""
    unanswered: Sequence[MessageReceived] = ()
    """The newest messages of users that no agent has answered; they are among `messages` too."""
    title: str = ""
    address: Mapping[str, Any] = field(default_factory=dict)
    agent: Slug = Slug("")
    """The agent that the conversation is with; "" where it has phases."""
    phase: Phase | None = None
    """The current one; None if the source cannot be read."""
    cycle: int = 1
    open_gates: tuple[Phase, ...] = ()
    is_import: bool = False
    """The source says that the conversation was imported."""
    has_ended: bool = False
    turns: int = 0
    """The number of the last turn."""
    ended_turns: frozenset[str] = frozenset()
    """The turns that it shows as ended."""
    parts: tuple[str, ...] = ()
    """The fields of `State` that it mentions, but that only the journal holds."""
    lost: Sequence[str] = ()
    transitions: Sequence[PhaseTransition] = ()
    """Those that the source shows, oldest first."""
    status_reason: str = ""
    """Why it says that the conversation waits or has ended."""
    places: Mapping[tuple[Millis, str], MessagePlace] = field(default_factory=dict)
    """Cycle, turn and event of its messages, by time and text."""


def participants_of(settings: Settings, where: ProjectPaths) -> Participants:
    """The participants by the keys and agents of this folder.

    Raises:
        ConfigurationError: the project has no key, or a file cannot be read.
    """
    ring = KeyRing(*where.key_folders)
    keys = {name: ring.read(name).public for name in ring.names() if name != OWNER}
    project = ring.read(PROJECT).public
    library = read_library(where.agents, code_refusal=where.code_refusal)
    shown = {definition.slug: definition.name for definition in library.roster}
    agents = {key: Slug(name) for name, key in keys.items() if name != PROJECT}
    names = {key: shown[slug] for key, slug in agents.items() if slug in shown} | {project: settings.project.name}
    return Participants(project=project, agents=agents, users=settings.peer_group(parse_public_key), names=names)


# ---- files


def messages_of_view(
    view: dict[str, Any], conversation: ConversationId, source: str, participants: Participants | None = None
) -> RecoveredMessages:
    """What a readable file holds: its newest messages, and what agents answered in the turns it lists.

    Args:
        view: as read by `store.view_reader`; entries that cannot be understood are named as lost.
        conversation: its id, if the file does not name it.
        source: the file's name.
        participants: needed for the file of an older program, whose messages are events.

    Raises:
        StoreDamaged: it is of another conversation.
    """
    if view.get("id", conversation) != conversation:
        raise StoreDamaged(f"{source} is of another conversation than {conversation}. Nothing was changed.")
    lost = [f"{name}, which could not be read" for name in entries(view, "unread")]
    turns = [turn for turn in entries(view, "orchestratorTurns") if isinstance(turn, dict)]
    completions = [
        {
            "from": done.get("agent"),
            "text": done.get("text") or done.get("message"),
            "time": done.get("time") or done.get("timestamp") or turn.get("timestamp"),
            "phase": turn.get("phase"),
        }
        for turn in turns
        for done in entries(turn, "completions")
        if isinstance(done, dict) and (done.get("text") or done.get("message"))
    ]
    messages: list[MessageRecord] = [*read_messages(entries(view, "messages"), lost)]
    shown = {message.text for message in messages if not isinstance(message, CommandGiven)}
    messages += [message for message in read_messages(completions, lost) if message.text not in shown]
    address = _mapping(_mapping(view.get("metadata")).get("address"))
    if entries(view, "history") and not messages and participants is not None:
        messages, found = _read_history(entries(view, "history"), participants, lost)
        address = address or dict(found)
    if view.get("history") and not entries(view, "history"):
        lost.append("history, which is not a list")
    if len(entries(view, "messages")) >= LEAST_RECENT:
        lost.append(f"messages of users older than the {LEAST_RECENT} newest messages")
    if type(undelivered := view.get("undelivered")) is int and undelivered:
        lost.append(f"{undelivered} undelivered messages; they are not sent again")
    transitions = read_transitions(view, source, lost)
    phase = phase_of(view.get("phase")) or Phase.CHAT
    gates = tuple(gate for name in entries(view, "openGates") if (gate := phase_of(name)) is not None)
    cycle = view.get("cycle")
    numbers = [str(turn.get("turnId")).removeprefix("turn-") for turn in turns]
    return RecoveredMessages(
        source=source,
        messages=sorted(messages, key=lambda message: message.at),
        title=str(view.get("title") or ""),
        address=address,
        agent=Slug(str(view.get("agent") or "")),
        phase=phase,
        cycle=cycle if type(cycle) is int and 0 < cycle < 2**31 else 1,
        open_gates=gates if "openGates" in view else gates_at(phase),
        is_import=bool(view.get("imported")),
        has_ended=view.get("status") == "ended",
        ended_turns=frozenset(str(turn.get("turnId")) for turn in turns if turn.get("isCompleted") is True),
        turns=max((int(number) for number in numbers if number.isdecimal() and len(number) < 10), default=0),
        parts=tuple(part for part, name in _PARTS.items() if view.get(name)),
        lost=lost,
        transitions=transitions,
        status_reason=str(view.get("statusReason") or "")[:NAME_CHARACTERS],
        places=places_of_view(view),
    )


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def gates_at(phase: Phase) -> tuple[Phase, ...]:
    """The open gates of a phase where none is known to be met: agents check once more rather than never."""
    return QUALITY_PHASES if phase in (Phase.EXECUTE, *AFTER_WORK) else ()


# ---- events


def _read_history(
    history: Sequence[Any], participants: Participants, lost: list[str]
) -> tuple[list[MessageRecord], Mapping[str, Any]]:
    """The messages of an older program's file, and the thread's address.

    Its `history` has JSON arrays as NIP-01 hashes them, or objects. All authors were part of the conversation, so none
    is unauthorized: one with the tags of an agent is an agent.
    """
    messages: list[MessageRecord] = []
    address: Mapping[str, Any] = {}
    unread = 0
    for entry in history:
        try:
            event = _event_of(entry)
        except (InvalidEvent, ValueError, TypeError, LookupError, RecursionError):
            unread += 1
            continue
        has_agent_tags = any(tag[0] in _AGENT_TAGS for tag in event.tags if tag)
        if event.pubkey in participants.keys or (has_agent_tags and participants.users.role(event.pubkey) is None):
            messages.append(_sent(event, participants))
        elif (read := _received(event, "", participants, Role.GUEST)) is not None:
            address = address or read[1].address
            messages.append(read[0])
    if unread:
        lost.append(f"entries of the history that are not events: {unread}")
    return messages, address


def _event_of(entry: Any) -> Event:
    found = json.loads(entry) if isinstance(entry, str) else entry
    if isinstance(found, dict):
        found = [0, *(found[name] for name in ("pubkey", "created_at", "kind", "tags", "content"))]
    _, pubkey, created_at, kind, tags, content = found[:6]
    shape = {"pubkey": pubkey, "created_at": created_at, "kind": kind, "tags": tags, "content": content}
    # the file is the operator's own, and an old one may have no signature
    return parse_event({**shape, "id": event_id(pubkey, created_at, kind, tags, content), "sig": "0" * 128})


def messages_of_thread(
    conversation: ConversationId,
    events: Iterable[tuple[Event, str]],
    participants: Participants,
    lost: Sequence[str] = (),
) -> RecoveredMessages:
    """What relays hold of a conversation: messages in its thread, not those that only mention it.

    Args:
        conversation: the id of the thread's root.
        events: genuine ones, each with the relay it came from, in any order.
        participants: whose messages count.
        lost: what is known to be missing.
    """
    ours = participants.keys

    def order(one: tuple[Event, str]) -> tuple[bool, int, bool, str]:
        """The root first, whatever its date; of the same second the question before its answer."""
        return str(one[0].id) != conversation, one[0].created_at, one[0].pubkey in ours, one[0].id

    messages: list[MessageRecord] = []
    unanswered: list[MessageReceived] = []
    received: set[str] = set()
    thread: set[str] = {conversation}
    opening: InboundMessage | None = None
    sent: list[MessageSent] = []
    for event, relay in sorted(events, key=order):
        if event.pubkey in ours:
            sent.append(_sent(event, participants, sent[-1].phase if sent else Phase.CHAT))
            messages.append(sent[-1])
            thread.add(event.id)
            if event.pubkey != participants.project:
                unanswered = _after_answer(event, unanswered, received)
        elif (read := _received(event, relay, participants)) is not None:
            record, inbound = read
            if inbound.conversation not in thread:
                continue
            opening = opening or inbound
            if isinstance(record, MessageRecorded) and is_outside(opening.address, inbound.address):
                record = replace(record, is_outside=True)
            messages.append(record)
            thread.add(event.id)
            received.add(event.id)
            if isinstance(record, MessageRecorded):
                unanswered.append(
                    MessageReceived(
                        message=inbound,
                        role=record.role,
                        name=record.name,
                        addressed=record.addressed,
                        is_plain=inbound.by_program,
                    )
                )
    first = opening.text if opening is not None else ""
    phase = sent[-1].phase if sent else Phase.CHAT
    return RecoveredMessages(
        source="relay",
        messages=messages,
        unanswered=unanswered[-CYCLE_MESSAGES:],
        title=title_of(opening.title.strip() or first) if opening is not None else "",
        address=dict(opening.address) if opening is not None else {},
        phase=phase,
        open_gates=gates_at(phase),
        turns=len(sent),
        lost=lost,
    )


def _after_answer(answer: Event, waiting: Sequence[MessageReceived], received: set[str]) -> list[MessageReceived]:
    """Those of the users' messages that still wait after an agent's message.

    It answers all before it. But its date may be up to `LEAD` ahead, so of the messages of that time it answers those
    up to the one that it refers to.
    """
    named = received.intersection(tag[1] for tag in answer.tags if tag[:1] == ("e",) and tag[1:2])
    if not named:
        return []
    first = max((n for n, one in enumerate(waiting, 1) if one.message.event_id in named), default=0)
    return [one for one in waiting[first:] if one.message.created_at > answer.created_at - LEAD]


def _received(
    event: Event, relay: str, participants: Participants, else_role: Role | None = None
) -> tuple[MessageRecord, InboundMessage] | None:
    """A user's message; None where its author may not write here, or is a program."""
    slugs: dict[str, PublicKey] = {slug: key for key, slug in participants.agents.items()}
    inbound = read_event(event, participants.keys, slugs, relay, None)
    role = participants.users.role(event.pubkey) or else_role
    if inbound is None or role is None or (inbound.by_machine and not inbound.mentions):
        return None
    inbound = replace(inbound, text=participants.without_project(inbound.text))
    command = None if inbound.by_program else parse(inbound.text)
    common: dict[str, Any] = {
        "seq": 0,
        "at": Millis(event.created_at * 1000),
        "event_id": event.id,
        "author": event.pubkey,
        "name": participants.name(event.pubkey),
        "role": role,
        "created_at": event.created_at,
        "origin": dict(inbound.origin),
    }
    if command is not None:
        return CommandGiven(**common, command=command.name, argument=command.argument), inbound
    mentions = (participants.agents.get(key) for key in inbound.mentions)
    addressed = tuple(dict.fromkeys(slug for slug in mentions if slug is not None))
    return MessageRecorded(**common, text=inbound.text, addressed=addressed, reply_to=inbound.reply_to), inbound


def _sent(event: Event, participants: Participants, phase: Phase = Phase.CHAT) -> MessageSent:
    tags = {tag[0]: tag[1] for tag in event.tags if len(tag) > 1}
    purpose: Purpose = "notice" if event.pubkey == participants.project else "question"
    if "error" in tags:
        purpose = "error"
    elif tags.get("status") == "completed":
        purpose = "completion"
    return MessageSent(
        seq=0,
        at=Millis(event.created_at * 1000 + 2),  # after the message it answers, which may be of the same second
        speaker=event.pubkey,
        name=participants.name(event.pubkey),
        text=event.content,
        purpose=purpose,
        phase=phase_of(tags.get("phase")) or phase,
        events=(
            UnsignedEvent(
                id=event.id,
                pubkey=event.pubkey,
                created_at=event.created_at,
                kind=event.kind,
                tags=event.tags,
                content=event.content,
            ),
        ),
    )
