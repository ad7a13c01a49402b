"""`conversation.json`: a conversation as a person wants to read it.

A view: an edit to it is ignored and replaced. It holds the newest turns and transitions whole; older ones stand beside
it in numbered segments of `SEGMENT` that are written once and listed in it, so that writing it costs the same however
long the conversation is.

Never: be read to decide anything; the journal is the truth.
"""

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tenex.core.conversation import Conversation
from tenex.core.ids import Millis
from tenex.core.records import HandedOff, PhaseTransition
from tenex.core.runs import Completion, Message, OrchestratorTurn, Run
from tenex.core.state import History
from tenex.core.steps import Usage

from . import atomic
from .disk import Disk
from .folder import ConversationFolder
from .loading import VIEW

SEGMENT: Final = 100
"""Turns in a segment: the view then stays near 100 KB, which a disk replaces in a ms or two."""

REMEMBERED: Final = 200
"""Conversations whose rendered turns are kept: as many as there are open journals."""

_LISTS: Final = ("phaseTransitions", "orchestratorTurns")


@dataclass(slots=True)
class _Rendered:
    """What has been rendered of one conversation, and how many segments of each list are on disk."""

    history: History
    messages: dict[int, str] = field(default_factory=dict)
    """By the seq of the record that holds the message."""
    texts: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in _LISTS})
    segments: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_LISTS, 0))


class Views:
    """Writes the views of a folder's conversations."""

    def __init__(self, folder: ConversationFolder, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk
        self._rendered: OrderedDict[str, _Rendered] = OrderedDict()

    async def show(self, conversation: Conversation) -> None:
        """Replace the view; the conversation is read before the first await.

        Raises:
            OSError: the old view, if any, is still there.
        """
        rendered = self._render_history(conversation)
        path = self._folder.path(conversation.id)
        files: list[tuple[Path, bytes]] = []
        for name in _LISTS:
            whole = max(0, len(rendered.texts[name]) // SEGMENT - 1)
            for number in range(rendered.segments[name], whole):
                part = rendered.texts[name][number * SEGMENT : (number + 1) * SEGMENT]
                files.append((path / _segment_name(name, number), f"[\n    {_join(part)}\n]\n".encode()))
        files.append((path / VIEW, render(conversation, rendered).encode()))
        await self._disk.run(_write, files)
        for name in _LISTS:
            rendered.segments[name] = max(0, len(rendered.texts[name]) // SEGMENT - 1)

    def _render_history(self, conversation: Conversation) -> _Rendered:
        history = conversation.history
        assert history is not None
        known = self._rendered.pop(conversation.id, None)
        if known is None or known.history is not history:
            known = _Rendered(history)
        self._rendered[conversation.id] = known
        if len(self._rendered) > REMEMBERED:
            self._rendered.popitem(last=False)
        _catch_up(known, conversation)
        return known


def _catch_up(rendered: _Rendered, conversation: Conversation) -> None:
    """Render what is new since the last view."""
    history = rendered.history
    transitions, turns = rendered.texts["phaseTransitions"], rendered.texts["orchestratorTurns"]
    transitions.extend(_indented(_transition(t)) for t in history.transitions[len(transitions) :])
    turns.extend(_indented(_turn(turn)) for turn in history.turns[len(turns) :])
    known = rendered.messages
    rendered.messages = {m.seq: known.get(m.seq) or _indented(_message(m)) for m in conversation.recent}


def _write(files: list[tuple[Path, bytes]]) -> None:
    for path, data in files[:-1]:
        if not path.exists():  # a segment never changes
            atomic.replace(path, data)
    atomic.replace(*files[-1])


def render(conversation: Conversation, rendered: _Rendered | None = None) -> str:
    """The view as JSON text; what has been rendered before is used again."""
    c = conversation
    if rendered is None:
        rendered = _Rendered(c.history or History())
    _catch_up(rendered, c)
    texts = rendered.texts
    head = {
        "id": c.id,
        "title": c.title,
        "status": "waiting" if c.is_parked else c.status,
        "waitingFor": "answer" if c.is_parked else c.waiting_for or None,
        "phase": c.phase,
        "phaseStartedAt": c.phase_started_at,
        "cycle": c.cycle,
        "createdAt": _time(c.started_at),
        "updatedAt": _time(c.updated_at),
        "seq": c.next_seq - 1,
    }
    tail = {
        "openTurn": _turn(c.turn) if c.turn else None,
        "running": [_run(run) for run in c.runs.values()],
        "openGates": list(c.open_gates),
        "participants": list(c.participants),
        "waivers": [
            {"phases": list(w.phases), "by": w.name, "quote": w.quote, "messageId": w.message_id, "at": _time(w.at)}
            for w in c.waivers
        ],
        "metadata": {"readFiles": dict(c.read_files), "changedFiles": sorted(c.touched), "address": dict(c.address)},
        "undelivered": sum(len(row.open) for row in c.outbox.values()),
        "phaseMetrics": {
            phase: {"visits": m.visits, "durationMs": m.duration, "usage": _usage(m.usage)}
            for phase, m in c.metrics.items()
        },
        "usage": _usage(c.usage),
    }
    parts = [json.dumps(head, ensure_ascii=False, indent=2)[:-2]]
    for name in _LISTS:
        kept, earlier = _tail(texts[name], name)
        if earlier:
            parts.append(f',\n  "earlier{name[0].upper()}{name[1:]}": {json.dumps(earlier)}')
        parts.append(f',\n  "{name}": {_list(kept)}')
    parts.append(f',\n  "messages": {_list(list(rendered.messages.values()))}')
    parts.append(",\n" + json.dumps(tail, ensure_ascii=False, indent=2)[2:])
    return "".join(parts).encode("utf-8", "replace").decode() + "\n"


def _tail(texts: list[str], name: str) -> tuple[list[str], list[str]]:
    """The newest texts, at least a segment of them if there are, and the files of the others."""
    whole = max(0, len(texts) // SEGMENT - 1)
    return texts[whole * SEGMENT :], [_segment_name(name, number) for number in range(whole)]


def _segment_name(name: str, number: int) -> str:
    return f"{name}-{number + 1:06d}.json"


def _list(texts: list[str]) -> str:
    return f"[\n    {_join(texts)}\n  ]" if texts else "[]"


def _join(texts: list[str]) -> str:
    return ",\n    ".join(texts)


def _indented(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n    ")


def _time(at: Millis) -> str:
    try:
        return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # a clock that is set to nonsense must not cost the view
        return str(at)


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


def _turn(turn: OrchestratorTurn) -> dict[str, Any]:
    return {
        "turnId": turn.turn_id,
        "timestamp": turn.timestamp,
        "time": _time(turn.timestamp),
        "phase": turn.phase,
        "agents": list(turn.agents),
        "reason": turn.reason,
        "completions": [_completion(done) for done in turn.completions],
        "isCompleted": turn.is_completed,
    }


def _completion(done: Completion) -> dict[str, Any]:
    shown = {
        "agent": done.agent,
        "outcome": done.outcome,
        "text": done.text,
        "summary": done.summary,
        "verdict": done.verdict,
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
        "phase": message.phase,
        "text": message.text,
        "eventId": message.event_id,
    }
    return {name: value for name, value in shown.items() if value}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "calls": usage.calls,
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "costUsd": usage.cost_usd,
    }
