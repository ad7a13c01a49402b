"""A conversation as its events tell it: who wrote, who of ours answered, in which phase, at what cost.

    events -> messages, transitions, turns -> store.regained.Past

The phase of what we said stands in its tags (`phase`, `phase-from`), and who said it in its key. Which agents worked
together does not: each completion counts as a turn of its own, and no quality gate as met.
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
"""How an agent's failure begins where it is told (`core.turns`)."""
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
    """What people, agents and the project call themselves, as far as that is known."""

    def name(self, pubkey: PublicKey) -> str:
        """A name to show."""
        return self.names.get(pubkey) or self.agents.get(pubkey) or f"person-{pubkey[:8]}"


@dataclass(slots=True)
class _Told:
    """What has been read so far."""

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
    """What a thread tells.

    Args:
        conversation: the id of its root.
        events: genuine ones, each with the relay it came from, in any order.
        cast: who is who.
        lost: what is known to be missing.

    Raises:
        UsageError: nobody who may talk here has written in it.
    """
    told = _Told()
    ours = {cast.project, *cast.agents}

    def place(one: tuple[Event, str]) -> tuple[bool, int, bool, str]:
        """The root before all, whatever its date; of the same second the question before its answer."""
        return str(one[0].id) != conversation, one[0].created_at, one[0].pubkey in ours, one[0].id

    rules: list[str] = []
    for event, relay in sorted(events, key=place):
        if event.pubkey in ours:
            if any(tag[:1] == ("workflow",) for tag in event.tags):
                rules = [RULES]
            _ours(told, event, cast)
        else:
            _theirs(told, event, relay, cast, ours)
    if told.opening is None:
        raise UsageError(
            f"No relay that answered has a message of conversation {conversation} by anybody who may talk here. "
            "Its id is that of the event that began it, in full."
        )
    first = told.messages[0]
    text = first.text if isinstance(first, r.MessageRecorded) else ""
    title = title_of(told.opening.title.strip() or text) or "Untitled"
    return RecoveredHistory(
        id=conversation,
        source="relay",
        title=title,
        starter=told.opening.author,
        address=dict(told.opening.address),
        started_at=first.at,
        messages=told.messages,
        phases=told.phases,
        transitions=told.transitions,
        turns=told.turns,
        spent=told.spent,
        lost=[*LOST, *rules, *lost],
    )


def read_history(
    history: Sequence[Any], cast: Cast
) -> tuple[Sequence[Message], Sequence[Phase | None], Sequence[str], Mapping[str, Any]]:
    """Read the events an old file keeps as its `history`: JSON arrays as NIP-01 hashes them, or objects.

    All of them were part of the conversation, so nobody is a stranger: who bears the tags of an agent is one.

    Returns:
        The messages, the phase of each where it is told, what was lost, and the address of the thread.
    """
    told, unread = _Told(), 0
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
            _said(told, event, cast)
        else:
            _theirs(told, event, "", cast, ours, else_role=Role.GUEST)
    lost = [f"entries of the history that are no events: {unread}"] if unread else []
    address = dict(told.opening.address) if told.opening is not None else {}
    return told.messages, told.phases, lost, address


def _event_of(entry: Any) -> Event:
    found = json.loads(entry) if isinstance(entry, str) else entry
    if isinstance(found, dict):
        found = [0, *(found[name] for name in ("pubkey", "created_at", "kind", "tags", "content"))]
    _, pubkey, created_at, kind, tags, content = found[:6]
    shape = {"pubkey": pubkey, "created_at": created_at, "kind": kind, "tags": tags, "content": content}
    # the file is the operator's own, and an old one may keep no signature
    return parse_event({**shape, "id": event_id(pubkey, created_at, kind, tags, content), "sig": "0" * 128})


def _theirs(
    told: _Told, event: Event, relay: str, cast: Cast, ours: set[PublicKey], *, else_role: Role | None = None
) -> None:
    incoming = read_event(event, ours, {slug: key for key, slug in cast.agents.items()}, relay, None)
    role = cast.circle.role(event.pubkey) or else_role
    if incoming is None or role is None or (incoming.by_machine and not incoming.mentions):
        return
    told.opening = told.opening or incoming
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
    told.messages.append(message)
    told.phases.append(None)


def _ours(told: _Told, event: Event, cast: Cast) -> None:
    said = _said(told, event, cast)
    from_, to = _phase(event, "phase-from"), told.phase
    if from_ is not None and from_ is not to:
        told.transitions.append(
            r.PhaseTransition(
                seq=0,
                at=Millis(said.at - 1),
                from_=from_,
                to=to,
                message=UNKNOWN,
                agent_pubkey=cast.project,
                agent_name=cast.name(cast.project),
                reason=UNKNOWN,
                summary="",
                announce_at=said.at,
            )
        )
    if (usage := _spent(event)).calls:
        told.spent[to] = told.spent.get(to, NO_USAGE) + usage
    slug = cast.agents.get(event.pubkey)
    if slug is None or said.purpose not in ("completion", "error"):
        return
    is_done = said.purpose == "completion"
    done = Completion(
        agent=slug,
        outcome="finished" if is_done else "failed",
        text=said.text if is_done else "",
        summary="",
        verdict="",
        error="" if is_done else said.text.removeprefix(FAILED),
        at=said.at,
    )
    told.turns.append(
        OrchestratorTurn(
            turn_id=TurnId(f"turn-{len(told.turns) + 1}"),
            seq=0,
            timestamp=Millis(said.at - 1),
            phase=to,
            agents=(slug,),
            reason=UNKNOWN,
            completions=(done,),
        )
    )


def _said(told: _Told, event: Event, cast: Cast) -> r.MessageSent:
    told.phase = _phase(event, "phase") or told.phase
    tags = {(tag[0], tag[1]) for tag in event.tags if len(tag) > 1}
    purpose: r.Purpose = "notice" if event.pubkey == cast.project else "question"
    if any(name == "error" for name, _ in tags):
        purpose = "error"
    elif ("status", "completed") in tags:
        purpose = "completion"
    said = r.MessageSent(
        # a moment after what it answers, which may be of the same second
        seq=0,
        at=Millis(event.created_at * 1000 + 2),
        speaker=event.pubkey,
        name=cast.name(event.pubkey),
        text=event.content,
        purpose=purpose,
        phase=told.phase,
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
    told.messages.append(said)
    told.phases.append(told.phase)
    return said


def _phase(event: Event, name: str) -> Phase | None:
    return next((Phase.parse(tag[1]) for tag in event.tags if len(tag) > 1 and tag[0] == name), None)


def _spent(event: Event) -> Usage:
    """What the run that ends with this message cost, as its tags say; nothing where they are not numbers."""
    tags = {tag[0]: tag[1] for tag in event.tags if len(tag) > 1}
    if tags.get("status") != "completed" and "error" not in tags:  # a question's costs stand in the completion too
        return NO_USAGE
    try:
        return Usage(
            input_tokens=int(tags["llm-prompt-tokens"]),
            output_tokens=int(tags["llm-completion-tokens"]),
            cost_usd=float(tags["llm-cost-usd"]) if "llm-cost-usd" in tags else None,
        )
    except (KeyError, ValueError):
        return NO_USAGE
