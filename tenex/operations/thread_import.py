"""Reads a conversation from its events: who wrote, which agent answered, in which phase, at what cost.

    events -> messages, transitions, turns -> RecoveredHistory

The phase of an agent's message is in its tags (`phase`, `phase-from`), and the agent in its key. Which agents worked
together is not known: each completion counts as a turn of its own, and no quality gate as met.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tenex.core import records as r
from tenex.core.commands import parse
from tenex.core.config import PeerGroup, Role
from tenex.core.errors import InvalidEvent, UsageError
from tenex.core.ids import ConversationId, Millis, PublicKey, Slug, TurnId
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.phases import Phase
from tenex.core.ports import UnsignedEvent
from tenex.core.signals import InboundMessage
from tenex.core.state.conversation import title_of
from tenex.core.state.run import Completion, OrchestratorTurn
from tenex.nostr.events import Event, event_id, parse_event
from tenex.nostr.threading import read_event
from tenex.store.recovered_history import RULES, UNKNOWN, Message, RecoveredHistory

FAILED: Final = "I could not finish: "
"""How the message about an agent's failure begins."""
_MACHINES: Final = frozenset({"phase", "llm-model", "status", "tool"})
"""Tags that only programs of this kind write."""
LOST: Final = (
    "which agents worked together, and why: each completion counts as a turn of its own",
    "the summaries and verdicts of completions, and the order of what was written in the same second",
    "how many model calls a run took and which model was asked; what the orchestrator's decisions cost",
    "which quality gates were met: in a cycle that has executed all of them count as open",
    "what agents were shown, which tools they called and what those returned; which files they read and changed",
    "where cycles began, unless one came from reflection; what was waived; what was asked and not answered",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who is who in a thread."""

    project: PublicKey
    agents: Mapping[PublicKey, Slug]
    circle: PeerGroup
    names: Mapping[PublicKey, str] = field(default_factory=dict)
    """The names of users, agents and the project, as far as they are known."""

    def name(self, pubkey: PublicKey) -> str:
        """A name to show."""
        return self.names.get(pubkey) or self.agents.get(pubkey) or f"person-{pubkey[:8]}"


@dataclass(slots=True)
class _Thread:
    """What was read so far."""

    messages: list[Message] = field(default_factory=list)
    phases: list[Phase | None] = field(default_factory=list)
    transitions: list[r.PhaseTransition] = field(default_factory=list)
    turns: list[OrchestratorTurn] = field(default_factory=list)
    spent: dict[Phase, Usage] = field(default_factory=dict)
    opening: InboundMessage | None = None
    phase: Phase = Phase.CHAT


def past_of_thread(
    conversation: ConversationId, events: Iterable[tuple[Event, str]], cast: Cast, lost: Sequence[str] = ()
) -> RecoveredHistory:
    """The history of a conversation from the events of its thread.

    Args:
        conversation: the id of its root.
        events: genuine ones, each with the relay it came from, in any order.
        cast: who is who.
        lost: what is known to be missing.

    Raises:
        UsageError: no user who may talk here has written in it.
    """
    thread = _Thread()
    ours = {cast.project, *cast.agents}

    def place(one: tuple[Event, str]) -> tuple[bool, int, bool, str]:
        """The root before all, whatever its date; of the same second the question before its answer."""
        return str(one[0].id) != conversation, one[0].created_at, one[0].pubkey in ours, one[0].id

    rules: list[str] = []
    for event, relay in sorted(events, key=place):
        if event.pubkey in ours:
            if any(tag[:1] == ("workflow",) for tag in event.tags):
                rules = [RULES]
            _read_agent_event(thread, event, cast)
        else:
            _read_user_event(thread, event, relay, cast, ours)
    if thread.opening is None:
        raise UsageError(
            f"No relay that answered has a message of conversation {conversation} by anybody who may talk here. "
            "Its id is that of the event that began it, in full."
        )
    first = thread.messages[0]
    text = first.text if isinstance(first, r.MessageRecorded) else ""
    title = title_of(thread.opening.title.strip() or text) or "Untitled"
    return RecoveredHistory(
        id=conversation,
        source="relay",
        title=title,
        starter=thread.opening.author,
        address=dict(thread.opening.address),
        started_at=first.at,
        messages=thread.messages,
        phases=thread.phases,
        transitions=thread.transitions,
        turns=thread.turns,
        spent=thread.spent,
        lost=[*LOST, *rules, *lost],
    )


def read_history(
    history: Sequence[Any], cast: Cast
) -> tuple[Sequence[Message], Sequence[Phase | None], Sequence[str], Mapping[str, Any]]:
    """Read the events an old file keeps as its `history`: JSON arrays as NIP-01 hashes them, or objects.

    All of them were part of the conversation, so no author is unauthorized: one with the tags of an agent is an agent.

    Returns:
        The messages, the phase of each where it is known, what was lost, and the address of the thread.
    """
    thread, unread = _Thread(), 0
    ours = {cast.project, *cast.agents}
    for entry in history:
        try:
            event = _event_of(entry)
        except (InvalidEvent, ValueError, TypeError, LookupError, RecursionError):
            unread += 1
            continue
        if event.pubkey in ours or (
            cast.circle.role(event.pubkey) is None and any(tag[0] in _MACHINES for tag in event.tags if tag)
        ):
            _read_agent_message(thread, event, cast)
        else:
            _read_user_event(thread, event, "", cast, ours, else_role=Role.GUEST)
    lost = [f"entries of the history that are no events: {unread}"] if unread else []
    address = dict(thread.opening.address) if thread.opening is not None else {}
    return thread.messages, thread.phases, lost, address


def _event_of(entry: Any) -> Event:
    found = json.loads(entry) if isinstance(entry, str) else entry
    if isinstance(found, dict):
        found = [0, *(found[name] for name in ("pubkey", "created_at", "kind", "tags", "content"))]
    _, pubkey, created_at, kind, tags, content = found[:6]
    shape = {"pubkey": pubkey, "created_at": created_at, "kind": kind, "tags": tags, "content": content}
    # the file is the operator's own, and an old one may keep no signature
    return parse_event({**shape, "id": event_id(pubkey, created_at, kind, tags, content), "sig": "0" * 128})


def _read_user_event(
    thread: _Thread, event: Event, relay: str, cast: Cast, ours: set[PublicKey], *, else_role: Role | None = None
) -> None:
    incoming = read_event(event, ours, {slug: key for key, slug in cast.agents.items()}, relay, None)
    role = cast.circle.role(event.pubkey) or else_role
    if incoming is None or role is None or (incoming.by_machine and not incoming.mentions):
        return
    thread.opening = thread.opening or incoming
    at, name, command = Millis(event.created_at * 1000), cast.name(event.pubkey), parse(event.content)
    if command is not None:
        message: Message = r.CommandGiven(
            seq=0,
            at=at,
            event_id=event.id,
            author=event.pubkey,
            name=name,
            role=role,
            command=command.name,
            argument=command.argument,
            created_at=event.created_at,
            origin=dict(incoming.origin),
        )
    else:
        addressed = tuple(dict.fromkeys(cast.agents[key] for key in incoming.mentions if key in cast.agents))
        message = r.MessageRecorded(
            seq=0,
            at=at,
            event_id=event.id,
            author=event.pubkey,
            name=name,
            role=role,
            text=event.content,
            created_at=event.created_at,
            addressed=addressed,
            reply_to=incoming.reply_to,
            origin=dict(incoming.origin),
        )
    thread.messages.append(message)
    thread.phases.append(None)


def _read_agent_event(thread: _Thread, event: Event, cast: Cast) -> None:
    message = _read_agent_message(thread, event, cast)
    from_, to = _phase(event, "phase-from"), thread.phase
    if from_ is not None and from_ is not to:
        thread.transitions.append(
            r.PhaseTransition(
                seq=0,
                at=Millis(message.at - 1),
                from_=from_,
                to=to,
                message=UNKNOWN,
                agent_pubkey=cast.project,
                agent_name=cast.name(cast.project),
                reason=UNKNOWN,
                summary="",
                announce_at=message.at,
            )
        )
    if (usage := _spent(event)).calls:
        thread.spent[to] = thread.spent.get(to, NO_USAGE) + usage
    slug = cast.agents.get(event.pubkey)
    if slug is None or message.purpose not in ("completion", "error"):
        return
    is_done = message.purpose == "completion"
    done = Completion(
        agent=slug,
        outcome="finished" if is_done else "failed",
        text=message.text if is_done else "",
        summary="",
        verdict="",
        error="" if is_done else message.text.removeprefix(FAILED),
        at=message.at,
    )
    thread.turns.append(
        OrchestratorTurn(
            turn_id=TurnId(f"turn-{len(thread.turns) + 1}"),
            seq=0,
            timestamp=Millis(message.at - 1),
            phase=to,
            agents=(slug,),
            reason=UNKNOWN,
            completions=(done,),
        )
    )


def _read_agent_message(thread: _Thread, event: Event, cast: Cast) -> r.MessageSent:
    thread.phase = _phase(event, "phase") or thread.phase
    tags = {(tag[0], tag[1]) for tag in event.tags if len(tag) > 1}
    purpose: r.Purpose = "notice" if event.pubkey == cast.project else "question"
    if any(name == "error" for name, _ in tags):
        purpose = "error"
    elif ("status", "completed") in tags:
        purpose = "completion"
    message = r.MessageSent(
        # a moment after what it answers, which may be of the same second
        seq=0,
        at=Millis(event.created_at * 1000 + 2),
        speaker=event.pubkey,
        name=cast.name(event.pubkey),
        text=event.content,
        purpose=purpose,
        phase=thread.phase,
        phase_from=_phase(event, "phase-from"),
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
    thread.messages.append(message)
    thread.phases.append(thread.phase)
    return message


def _phase(event: Event, name: str) -> Phase | None:
    return next((Phase.parse(tag[1]) for tag in event.tags if len(tag) > 1 and tag[0] == name), None)


def _spent(event: Event) -> Usage:
    """What the run that ends with this message cost, as its tags say; nothing where they are not numbers."""
    tags = {tag[0]: tag[1] for tag in event.tags if len(tag) > 1}
    if tags.get("status") != "completed" and "error" not in tags:  # a question's costs are in the completion too
        return NO_USAGE
    try:
        return Usage(
            input_tokens=int(tags["llm-prompt-tokens"]),
            output_tokens=int(tags["llm-completion-tokens"]),
            cost_usd=float(tags["llm-cost-usd"]) if "llm-cost-usd" in tags else None,
        )
    except (KeyError, ValueError):
        return NO_USAGE
