"""Reading what people read: our `conversation.json`, and the `<id>.json` of older programs, as a `RecoveredHistory`.

Both have the field names of the original: `phaseTransitions`, `orchestratorTurns`, `metadata`. In an old file phases
may be in any case or missing (then: chat), and messages are events, which the caller reads.

Each entry is read by itself: what is invalid is left out and named, the rest is kept. Files here may have been edited.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.errors import StoreDamaged
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, Slug, TurnId
from tenex.core.messages import Usage
from tenex.core.phases import Phase
from tenex.core.records.rebuild import RecoveredPosition
from tenex.core.state.agent import AgentPhaseState as Place
from tenex.core.state.agent import Moved
from tenex.core.state.run import Completion, OrchestratorTurn

from .recovered_history import Message, RecoveredHistory
from .view_json import LISTS

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

Events = Callable[[Sequence[Any]], tuple[Sequence[Message], Sequence[Phase | None], Sequence[str]]]
"""Reads the `history` of an old file: its messages, the phase of each, and what was lost of them."""

MOST_MESSAGES: Final = 40
"""A view holds no more of them (`core.state.RECENT`)."""
MOST: Final = 2**53
"""What JSON can hold to the last digit everywhere; a time or a count beyond it is nonsense."""
_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
_SEGMENT: Final = re.compile(rf"({'|'.join(LISTS)})-\d+\.json")


def _phase(value: object) -> object:
    return Phase.parse(value) or value if isinstance(value, str) else value


def _millis(value: object) -> object:
    """A time in ms, or as ISO 8601 has it."""
    if not isinstance(value, str):
        return value
    try:
        return round(datetime.fromisoformat(value).timestamp() * 1000)
    except (ValueError, OverflowError):
        return value


def _moment(value: object) -> Millis | None:
    """The same; None for what can be no time."""
    value = _millis(value)
    return Millis(value) if type(value) is int and 0 <= value < MOST else None


AnyPhase = Annotated[Phase, BeforeValidator(_phase)]
Time = Annotated[int, BeforeValidator(_millis), Field(ge=0, lt=MOST)]
Word = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class _Entry(BaseModel):
    """An entry of a list, its fields named as in the file."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True, alias_generator=to_camel)


class _Transition(_Entry):
    from_: AnyPhase = Field(alias="from")
    to: AnyPhase
    timestamp: Time
    message: Word = ""
    agent_pubkey: Word = ""
    agent_name: Word = ""
    reason: Word = ""
    summary: Word = ""


class _Completion(_Entry):
    agent: str
    text: Word = Field("", validation_alias=AliasChoices("text", "message"))
    time: Time | None = Field(None, validation_alias=AliasChoices("time", "timestamp"))
    outcome: Literal["finished", "failed", "timed_out", "stopped", "over_limit"] = "finished"
    summary: Word = ""
    verdict: Literal["", "verified", "issues"] = ""
    error: Word = ""


class _Turn(_Entry):
    turn_id: str
    timestamp: Time
    phase: AnyPhase
    agents: list[str] = []
    reason: Word = ""
    completions: list[_Completion] = []


class _Message(_Entry):
    time: Time
    from_: str = Field(alias="from")
    text: str
    role: str = ""
    phase: AnyPhase | None = None
    event_id: Word = ""
    author: Word = ""


class _Waiver(_Entry):
    phases: list[AnyPhase]
    by: Word = ""
    quote: Word = ""
    message_id: Word = ""
    at: Time


class _Usage(_Entry):
    calls: int = Field(0, ge=0, lt=MOST)
    input_tokens: int = Field(0, ge=0, lt=MOST)
    output_tokens: int = Field(0, ge=0, lt=MOST)
    cost_usd: float | None = Field(None, ge=0, allow_inf_nan=False)
    estimated_tokens: int = Field(0, ge=0, lt=MOST)


class _Move(_Entry):
    from_: str = Field(alias="from")
    to: str
    at: Time


class _Placed(_Entry):
    phase: Word = ""
    state: dict[str, Any] = {}
    history: list[_Move] = []


def read_view(path: Path) -> dict[str, Any]:
    """The JSON object in a file, with the older turns and transitions of the segments beside it put back in.

    Segments that cannot be read, and lists that are none, are named under `unread`.

    Raises:
        StoreDamaged: there is no such file, or no JSON object in it.
    """
    try:
        view = _json(path)
    except (OSError, ValueError, RecursionError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is no JSON"
        raise StoreDamaged(f"{path} cannot be read: {why}.") from fault
    if not isinstance(view, dict):
        raise StoreDamaged(f"{path} holds no JSON object.")
    unread: list[str] = []
    for name in LISTS:
        if not isinstance(view.get(name) or [], list):
            unread.append(name)
        listed = [str(segment) for segment in _list(view, f"earlier{name[0].upper()}{name[1:]}")]
        there = [segment.name for segment in path.parent.glob(f"{name}-*.json")]  # the view does not list the oldest
        earlier = [entry for segment in sorted({*listed, *there}) for entry in _segment(path.parent, segment, unread)]
        view[name] = [*earlier, *_list(view, name)]
    view["unread"] = unread
    return view


def past_of_view(
    view: Mapping[str, Any], conversation: ConversationId, source: str, events: Events | None
) -> RecoveredHistory:
    """The history in a view or an old file.

    Raises:
        StoreDamaged: it is of another conversation.
    """
    if view.get("id", conversation) != conversation:
        raise StoreDamaged(f"{source} is about another conversation than {conversation}; nothing was changed.")
    lost = [f"{name}, which could not be read" for name in _list(view, "unread")]
    transitions = [_transition(entry) for entry in _each(view, "phaseTransitions", _Transition, lost)]
    turns = [turn for entry in _each(view, "orchestratorTurns", _Turn, lost) if (turn := _turn(entry)).agents]
    if isinstance(view.get("openTurn"), dict):
        turns += [_turn(entry) for entry in _each({"openTurn": [view["openTurn"]]}, "openTurn", _Turn, lost)]
        lost.append("what was under way in the open turn: it counts as stopped")
    entries = list(_each(view, "messages", _Message, lost))
    messages: Sequence[Message] = [_message(entry) for entry in entries]
    phases: Sequence[Phase | None] = [entry.phase for entry in entries]
    if not isinstance(view.get("history") or [], list):
        lost.append("history, which is no list")
    elif not entries and events is not None and _list(view, "history"):
        messages, phases, gone = events(_list(view, "history"))
        lost.extend(gone)
    lost.extend(_of_messages(entries))
    if type(undelivered := view.get("undelivered")) is int and undelivered:
        lost.append(f"{undelivered} undelivered messages; they are not sent again")
    lost.extend(_of_travel(view))
    forked_from = _origin(view, lost)
    lost.append("what agents were shown, which tools they called and what those returned")
    spent = dict(_spent(view))
    if any(usage.calls for usage in spent.values()):
        lost.append("which model was asked and by whom: costs are known by phase only")
    metadata = view.get("metadata") if isinstance(view.get("metadata"), dict) else {}
    assert isinstance(metadata, dict)
    times = [*(m.at for m in messages), *(t.at for t in transitions), *(turn.timestamp for turn in turns)]
    if (began := _moment(view.get("createdAt"))) is not None:
        times.append(began)
    address = metadata.get("address") if isinstance(metadata.get("address"), dict) else {}
    assert isinstance(address, dict)
    first = next(
        (m.author for m in messages if not isinstance(m, r.MessageSent) and m.author), address.get("root_author")
    )
    return RecoveredHistory(
        id=conversation,
        source=source,
        title=str(view.get("title") or "Untitled"),
        starter=PublicKey(str(first or "")),
        address=address,
        agent=Slug(agent) if isinstance(agent := view.get("agent"), str) and _SLUG.fullmatch(agent) else Slug(""),
        started_at=min(times, default=Millis(0)),
        has_ended=view.get("status") == "ended",
        messages=messages,
        phases=phases,
        transitions=transitions,
        turns=turns,
        waivers=[_waived(entry) for entry in _each(view, "waivers", _Waiver, lost)],
        spent=spent,
        position=_position(view, metadata, max(times, default=Millis(0))),
        covered=seq if type(seq := view.get("seq")) is int else None,
        after=list(_placed(view, max(times, default=Millis(0)), lost)),
        forked_from=forked_from,
        lost=lost,
    )


def _position(view: Mapping[str, Any], metadata: Mapping[str, Any], newest: Millis) -> RecoveredPosition:
    phase, since, cycle = view.get("phase"), _moment(view.get("phaseStartedAt")), view.get("cycle")
    read, changed = metadata.get("readFiles"), metadata.get("changedFiles")
    if isinstance(read, list):  # an old file knows the paths only
        read = dict.fromkeys((path for path in read if isinstance(path, str)), "")
    participants = tuple(Slug(name) for name in _list(view, "participants") if isinstance(name, str))
    gates = tuple(gate for name in _list(view, "openGates") if (gate := Phase.parse(str(name))))
    return RecoveredPosition(
        cycle=cycle if type(cycle) is int and 0 < cycle < MOST else 0,
        phase=(Phase.parse(phase) if isinstance(phase, str) else None) or Phase.CHAT,
        phase_started_at=newest if since is None else since,
        participants=participants if "participants" in view else None,
        open_gates=gates if "openGates" in view else None,
        touched=tuple(path for path in changed if isinstance(path, str)) if isinstance(changed, list) else (),
        read_files={k: v for k, v in read.items() if isinstance(v, str)} if isinstance(read, dict) else {},
    )


def _of_travel(view: Mapping[str, Any]) -> Iterator[str]:
    undone = [
        turn
        for rollback in _list(view, "rollbacks")
        if isinstance(rollback, dict)
        for turn in _list(rollback, "undone")
        if isinstance(turn, str)
    ]
    if _list(view, "rollbacks"):
        named = f" ({len(set(undone))} turns)" if undone else ""
        yield f"that it went back to an earlier record: what was undone by that{named} is among the rest"


def _origin(view: Mapping[str, Any], lost: list[str]) -> tuple[ConversationId, int, str] | None:
    value = view.get("forkedFrom")
    if not isinstance(value, dict):
        return None
    match value:
        case {"id": str(name), "seq": int(seq), "title": str(title)} if seq is not True and 0 < seq < MOST:
            return ConversationId(name), seq, title
    lost.append("where it was forked from, which could not be understood")
    return None


def _placed(view: Mapping[str, Any], at: Millis, lost: list[str]) -> Iterator[r.Record]:
    """The own phases of agents; a call of a sub-agent under way is over, and its phases with it."""
    value = view.get("agents")
    for name, entry in value.items() if isinstance(value, dict) else ():
        if not _SLUG.fullmatch(name):
            continue
        try:
            known = _Placed.model_validate(entry)
        except ValidationError:
            lost.append("the own phase of an agent, which could not be understood: it starts from the first")
            continue
        moves = tuple(Moved(source=one.from_, target=one.to, at=Millis(one.at)) for one in known.history)
        place = Place(phase=known.phase, values=known.state, history=moves)
        yield r.AgentStateSet(seq=0, at=at, agent=Slug(name), state=place)


def _of_messages(entries: Sequence[_Message]) -> Iterator[str]:
    if len(entries) >= MOST_MESSAGES:
        yield f"messages older than the {len(entries)} newest"
    if any(entry.role != "agent" and not entry.author for entry in entries):
        yield "the keys of the people who wrote, and which of their messages answered which"


def _spent(view: Mapping[str, Any]) -> Iterator[tuple[Phase, Usage]]:
    metrics = view.get("phaseMetrics")
    for name, entry in metrics.items() if isinstance(metrics, dict) else ():
        phase = Phase.parse(name)
        try:
            usage = _Usage.model_validate(entry["usage"])
        except (ValidationError, TypeError, KeyError):
            continue
        if phase is not None:
            yield (
                phase,
                Usage(
                    calls=usage.calls,
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    cost_usd=usage.cost_usd,
                    estimated=usage.estimated_tokens,
                ),
            )


def _each(view: Mapping[str, Any], name: str, kind: type[M], lost: list[str]) -> Iterator[M]:
    for number, entry in enumerate(_list(view, name), start=1):
        try:
            yield kind.model_validate(entry)
        except ValidationError:
            lost.append(f"entry {number} of {name}, which could not be understood")


def _list(view: Mapping[str, Any], name: str) -> list[Any]:
    found = view.get(name)
    return found if isinstance(found, list) else []


def _json(path: Path) -> Any:
    """The value in a file. What is no JSON, though Python reads it, is null: NaN; or `?`: half a character."""
    value = json.loads(path.read_bytes(), parse_constant=lambda _: None)
    text = json.dumps(value, ensure_ascii=False)
    return value if text.isascii() else json.loads(text.encode("utf-8", "replace"))


def _segment(folder: Path, name: str, unread: list[str]) -> list[Any]:
    if not _SEGMENT.fullmatch(name):  # a path that leads elsewhere is not followed
        unread.append("a file whose name is not ours")
        return []
    try:
        found = _json(folder / name)
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        unread.append(name)
        return []
    return found


def _transition(entry: _Transition) -> r.PhaseTransition:
    return r.PhaseTransition(
        seq=0,
        at=Millis(entry.timestamp),
        from_=entry.from_,
        to=entry.to,
        message=entry.message,
        agent_pubkey=PublicKey(entry.agent_pubkey),
        agent_name=entry.agent_name,
        reason=entry.reason,
        summary=entry.summary,
        announce_at=Millis(entry.timestamp),
    )


def _turn(entry: _Turn) -> OrchestratorTurn:
    at = Millis(entry.timestamp)
    done = tuple(
        Completion(
            agent=Slug(one.agent),
            outcome=one.outcome,
            text=one.text,
            summary=one.summary,
            verdict=one.verdict,
            error=one.error,
            at=Millis(one.time) if one.time is not None else at,
        )
        for one in entry.completions
    )
    agents = dict.fromkeys((*map(Slug, entry.agents), *(one.agent for one in done)))
    return OrchestratorTurn(
        turn_id=TurnId(entry.turn_id),
        seq=0,
        timestamp=at,
        phase=entry.phase,
        reason=entry.reason,
        completions=done,
        agents=tuple(agent for agent in agents if agent.lower() not in ("end", "user")),
    )


def _message(entry: _Message) -> Message:
    at = Millis(entry.time)
    try:
        role = Role(entry.role)
    except ValueError:
        return r.MessageSent(
            seq=0,
            at=at,
            speaker=PublicKey(entry.author),
            name=entry.from_,
            text=entry.text,
            purpose="completion",
            phase=entry.phase or Phase.CHAT,
        )
    return r.MessageRecorded(
        seq=0,
        at=at,
        event_id=EventId(entry.event_id),
        author=PublicKey(entry.author),
        name=entry.from_,
        role=role,
        text=entry.text,
        created_at=at // 1000,
    )


def _waived(entry: _Waiver) -> r.Waived:
    return r.Waived(
        seq=0,
        at=Millis(entry.at),
        phases=tuple(entry.phases),
        author=PublicKey(""),
        name=entry.by,
        quote=entry.quote,
        message_id=EventId(entry.message_id),
    )
