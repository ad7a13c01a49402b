"""`conversation.json` as text: readable values, and the lists rendered once."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json

from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId, Millis
from tenex.core.messages import Usage
from tenex.core.records import HandedOff, PhaseTransition, Record
from tenex.core.reducers.phase_metrics import phase_metrics
from tenex.core.state.agent import AgentPhaseState
from tenex.core.state.conversation import BLOCK, History, RelayRefusal, Rollback
from tenex.core.state.memory import LEAST_RECENT
from tenex.core.state.mission import mission_view
from tenex.core.state.rollback import ConversationForked
from tenex.core.state.run import Completion, Message, OrchestratorTurn, Run
from tenex.core.state.workflow import session_view

SEGMENT: Final = BLOCK
"""Turns in a file of their own: the view then stays near 100 KB, which a disk replaces in a ms or two."""

LISTED: Final = 100
"""Such files named in the view, the newest; those before them have the numbers down to 1."""

LISTS: Final = ("phaseTransitions", "orchestratorTurns")


@dataclass(slots=True)
class RenderedList:
    """What has been rendered of a list: its newest texts, and how many files of it are on disk."""

    texts: list[str] = field(default_factory=list)
    before: int = 0
    """How many came before these."""
    files: int = 0
    last: Any = None
    """What the last text was rendered from."""

    def catch_up(self, items: Sequence[Any], before: int, text: Callable[[Any], dict[str, Any]]) -> None:
        """Render what is new."""
        known = self.before + len(self.texts) - before
        if not 0 <= known <= len(items) or (known and items[known - 1] != self.last):
            self.texts, self.before, known = [], before, 0  # it has gone on, or back, unseen
        self.texts.extend(_indented(text(item)) for item in items[known:])
        self.last = items[-1] if items else None

    @property
    def whole(self) -> int:
        """How many files there must be."""
        return max(0, (self.before + len(self.texts)) // SEGMENT - 1)

    def kept(self) -> list[str]:
        """The texts the view holds."""
        return self.texts[max(0, self.whole * SEGMENT - self.before) :]

    def file(self, number: int) -> list[str] | None:
        """The texts of a file, from 0; None if they are not known any more."""
        start = number * SEGMENT - self.before
        return self.texts[start : start + SEGMENT] if start >= 0 else None

    def written(self, files: int) -> None:
        """So many files are on disk: what is in them need not be remembered."""
        self.files = files
        gone = files * SEGMENT - self.before
        if gone > 0:
            self.texts, self.before = self.texts[gone:], self.before + gone


@dataclass(slots=True)
class Rendered:
    """What has been rendered of one conversation."""

    messages: dict[int, str] = field(default_factory=dict)
    """By the seq of the record that holds the message."""
    lists: dict[str, RenderedList] = field(default_factory=lambda: {name: RenderedList() for name in LISTS})

    def catch_up(self, conversation: Conversation) -> None:
        """Render what is new since the last view."""
        history = conversation.history or History()
        transitions, turns = (self.lists[name] for name in LISTS)
        transitions.catch_up(history.transitions, history.transitions_before, _transition)
        turns.catch_up(history.turns, history.turns_before, _turn)
        known = self.messages
        self.messages = {m.seq: known.get(m.seq) or _indented(_message(m)) for m in conversation.recent[-LEAST_RECENT:]}


def _agent(state: AgentPhaseState) -> dict[str, Any]:
    """An agent's own phase, its state, and how it got there."""
    return {
        "phase": state.phase or None,
        "state": dict(state.values),
        "history": [{"from": move.source, "to": move.target, "at": _time(move.at)} for move in state.history],
    }


def render(conversation: Conversation, rendered: Rendered | None = None) -> str:
    """The view as JSON text; what has been rendered before is used again."""
    c = conversation
    if rendered is None:
        rendered = Rendered()
    rendered.catch_up(c)
    head: dict[str, Any] = {
        "id": c.id,
        "title": c.title,
        "status": "waiting" if c.is_parked else c.status,
        "waitingFor": "answer" if c.is_parked else c.waiting_for or None,
        **({"phase": c.phase, "phaseStartedAt": c.phase_started_at} if c.has_phases else {}),
        "cycle": c.cycle,
        "createdAt": _time(c.started_at),
        "updatedAt": _time(c.updated_at),
        "seq": c.next_seq - 1,
    }
    if c.imported:
        head["imported"] = True
    if c.agent:
        head["agent"] = c.agent
    if (origin := c.forked_from) is not None:
        head["forkedFrom"] = {"id": origin.id, "seq": origin.seq, "title": origin.title}
    if c.workflow is not None:
        head["workflow"] = session_view(c.workflow)
    if c.mission is not None:
        head["mission"] = mission_view(c.mission)
    if c.agent_states:
        head["agents"] = {name: _agent(state) for name, state in c.agent_states.items()}
    if c.history is not None and c.history.rollbacks:
        head["rollbacks"] = [_rollback(one) for one in c.history.rollbacks]
    tail = {
        "openTurn": _turn(c.turn) if c.turn else None,
        "running": [_run(run) for run in c.runs.values()],
        "openGates": list(c.unmet_gates),
        "participants": list(c.participants),
        "waivers": [
            {
                "phases": list(w.phases),
                "by": w.name,
                "quote": w.quote,
                **({"untried": w.untried} if w.untried else {}),
                "messageId": w.message_id,
                "at": _time(w.at),
            }
            for w in c.waivers
        ],
        "metadata": {"readFiles": dict(c.read_files), "changedFiles": sorted(c.touched), "address": dict(c.address)},
        "undelivered": sum(len(row.open) for row in c.outbox.values()),
        "phaseMetrics": {
            phase: {"visits": m.visits, "durationMs": m.duration, "usage": usage_json(m.usage)}
            for phase, m in phase_metrics(c).items()
        },
        "usage": usage_json(c.usage),
    }
    if c.refusals:
        head["refusals"] = [_refusal(one) for one in c.refusals]
    parts = [_text(head)[:-2]]
    for name, known in rendered.lists.items():
        first = max(0, known.whole - LISTED)
        if earlier := [file_name(name, number) for number in range(first, known.whole)]:
            parts.append(f',\n  "earlier{name[0].upper()}{name[1:]}": {json.dumps(earlier)}')
        parts.append(f',\n  "{name}": {_list(known.kept())}')
    parts.append(f',\n  "messages": {_list(list(rendered.messages.values()))}')
    parts.append(",\n" + _text(tail)[2:])
    return "".join(parts).encode("utf-8", "replace").decode() + "\n"


def everything(conversation: ConversationId, records: Iterable[Record]) -> dict[str, list[str]]:
    """The lists from their beginning, for all records of a conversation."""
    c = Conversation(id=conversation)
    known = c.history or History()
    found: dict[str, list[str]] = {name: [] for name in LISTS}
    transitions, turns = (found[name] for name in LISTS)
    for record in records:
        c.apply(record)
        now = c.history or History()
        if isinstance(record, ConversationForked):  # what was before it is in the file of the other conversation
            transitions.extend(_indented(_transition(one)) for one in now.transitions)
            turns.extend(_indented(_turn(one)) for one in now.turns)
            known = now
            continue
        if now.transitions is not known.transitions:
            transitions.append(_indented(_transition(now.transitions[-1])))
        if now.turns is not known.turns:
            turns.append(_indented(_turn(now.turns[-1])))
        known = now
    return found


def file_name(name: str, number: int) -> str:
    """The name of a list's file, its number counted from 0."""
    return f"{name}-{number + 1:06d}.json"


def file_of(texts: Sequence[str]) -> bytes:
    """The content of a file of a list."""
    return f"[\n    {_join(texts)}\n]\n".encode("utf-8", "replace")


def _list(texts: Sequence[str]) -> str:
    return f"[\n    {_join(texts)}\n  ]" if texts else "[]"


def _join(texts: Sequence[str]) -> str:
    return ",\n    ".join(texts)


def _indented(value: dict[str, Any]) -> str:
    return _text(value).replace("\n", "\n    ")


def _text(value: dict[str, Any]) -> str:
    """Indented JSON, in an eighth of the time that `json` takes for it."""
    try:
        return to_json(value, indent=2).decode()
    except PydanticSerializationError:  # half of a surrogate pair, which a model may write
        return json.dumps(value, ensure_ascii=False, indent=2)


def iso(at: Millis, timespec: str = "seconds") -> str:
    """ISO 8601 in UTC; the number itself where no calendar has it."""
    try:
        return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # a clock that is set to nonsense must not cost the view
        return str(at)


_time: Final = partial(iso, timespec="milliseconds")


def _transition(record: PhaseTransition | HandedOff) -> dict[str, Any]:
    return {
        "from": record.from_,
        "to": record.to,
        "message": record.message,
        "timestamp": record.at,
        "time": _time(record.at),
        "agentPubkey": record.agent_pubkey,
        "agentName": record.agent_name,
        "reason": record.reason,
        "summary": record.summary,
    }


def _rollback(rollback: Rollback) -> dict[str, Any]:
    return {
        "at": rollback.seq,
        "time": _time(rollback.at),
        "to": rollback.to,
        "by": rollback.by,
        "reason": rollback.reason,
        "undone": list(rollback.undone),
    }


def _refusal(refusal: RelayRefusal) -> dict[str, Any]:
    return {
        "time": _time(refusal.at),
        "relay": refusal.relay,
        "reason": refusal.reason,
        "eventId": refusal.event,
        "isDelivered": refusal.is_delivered,
    }


def _turn(turn: OrchestratorTurn) -> dict[str, Any]:
    ran = [{"agent": one.agent, "command": one.command, "exitStatus": one.status} for one in turn.ran]
    return {
        "turnId": turn.turn_id,
        "timestamp": turn.timestamp,
        "time": _time(turn.timestamp),
        "phase": turn.phase,
        "agents": list(turn.agents),
        "reason": turn.reason,
        "completions": [_completion(done) for done in turn.completions],
        **({"ran": ran} if ran else {}),
        "isCompleted": turn.is_completed,
    }


def _completion(done: Completion) -> dict[str, Any]:
    shown = {
        "agent": done.agent,
        "outcome": done.outcome,
        "text": done.text,
        "summary": done.summary,
        "verdict": done.verdict,
        "untried": done.untried,
        "error": done.error,
        "time": _time(done.at),
    }
    return {name: value for name, value in shown.items() if value}


def _run(run: Run) -> dict[str, Any]:
    return {
        "agent": run.agent,
        "steps": run.steps,
        "parked": run.is_parked,
        "openCalls": [call.request.tool for call in run.open_calls],
        "closesAt": _time(run.close_at),
    }


def _message(message: Message) -> dict[str, Any]:
    shown = {
        "time": _time(message.at),
        "from": message.name,
        "role": message.role or "agent",
        "author": message.author,
        "phase": message.phase,
        "text": message.text,
        "eventId": message.event_id or message.sent_as,
    }
    return {name: value for name, value in shown.items() if value}


def usage_json(usage: Usage) -> dict[str, Any]:
    """What model calls have taken, as JSON: counts that few servers give only where they are not 0."""
    rare = {
        "estimatedTokens": usage.estimated,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
    }
    return {
        "calls": usage.calls,
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "costUsd": usage.cost_usd,
        **{name: count for name, count in rare.items() if count},
    }
