"""`conversation.json` as text: readable values, and the lists rendered once."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar, cast

from pydantic_core import PydanticSerializationError, to_json

from tenex.core.agent_phases.program import AgentPhaseState
from tenex.core.conversation import Conversation, new_conversation
from tenex.core.cycle.records import PhaseTransition
from tenex.core.delivery.state import RelayRefusal
from tenex.core.history.state import BLOCK, CallSummary, CycleSummary, DecisionSummary, History, Rollback, RunSummary
from tenex.core.ids import ConversationId, Millis, PublicKey, RunId
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.people.decider import Decider
from tenex.core.projection import Fate, PlacedMessage, Projection, RunActivity, project
from tenex.core.records import Record
from tenex.core.state import Waiver
from tenex.core.totals.costs import run_agent
from tenex.core.totals.state import PhaseMetrics
from tenex.core.values import replace
from tenex.core.work.turn import Completion, OrchestratorTurn

from .view_model import (
    AgentJson,
    CallJson,
    CompletionJson,
    CycleJson,
    DeciderJson,
    DecisionJson,
    FateJson,
    HeadJson,
    MessageJson,
    MetricsJson,
    RefusalJson,
    RollbackJson,
    RunJson,
    RunningJson,
    TailJson,
    TransitionJson,
    TurnJson,
    UsageJson,
    WaiverJson,
)

T = TypeVar("T", bound=Mapping[str, Any])

SEGMENT: Final = BLOCK
"""Entries in a file of their own: the view then stays below some 500 KB, which a disk replaces in some ms."""

UNNAMED: Final = "unknown"
"""The model of a call whose model is not recorded."""

LISTED: Final = 100
"""Such files named in the view, the newest; those before them have the numbers down to 1."""

LISTS: Final[Mapping[str, str]] = {
    "phaseTransitions": "transitions",
    "orchestratorTurns": "turns",
    "runs": "runs",
    "toolCalls": "calls",
    "decisions": "decisions",
    "cycles": "cycles",
}
"""The lists of the view, and the fields of `History` that hold their newest entries."""


@dataclass(slots=True)
class RenderedList:
    """What has been rendered of a list: its newest texts, and how many files of it are on disk."""

    texts: list[str] = field(default_factory=list)
    before: int = 0
    """How many came before these."""
    files: int = 0
    last: Any = None
    """What the last text was rendered from."""

    def catch_up(self, items: Sequence[Any], before: int, text: Callable[[Any], str]) -> None:
        """Render what is new."""
        known = self.before + len(self.texts) - before
        if 0 <= known <= len(items):
            last = items[known - 1] if known else self.last
            is_next = last is self.last or last == self.last  # the first alone is quick
        else:
            is_next = False
        if not is_next:  # it has gone on, or back, unseen
            self.texts = []
            self.before = before
            known = 0
        self.texts.extend(text(item) for item in items[known:])
        self.last = items[-1] if items else None

    @property
    def whole(self) -> int:
        """How many files there must be."""
        return max(0, (self.before + len(self.texts)) // SEGMENT - 1)

    def kept(self, files: int) -> list[str]:
        """The texts the view holds beside so many files."""
        return self.texts[max(0, files * SEGMENT - self.before) :]

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

    messages: dict[tuple[int, int, str, Fate | None], str] = field(default_factory=dict)
    """By the seq of the record that holds the message, its cycle, its turn, and what became of it."""
    lists: dict[str, RenderedList] = field(default_factory=lambda: {name: RenderedList() for name in LISTS})

    def catch_up(self, projection: Projection) -> None:
        """Render what is new since the last view."""
        history = projection.history
        for name, attribute in LISTS.items():
            items = getattr(history, attribute)
            before = getattr(history, f"{attribute}_before")
            self.lists[name].catch_up(items, before, _TEXTS[name])
        earlier = self.messages
        self.messages = {}
        for placed in projection.messages:
            key = (placed.message.seq, placed.message.cycle, placed.turn, placed.fate)
            self.messages[key] = earlier.get(key) or _indented(_message(placed))


def _agent(state: AgentPhaseState) -> AgentJson:
    """An agent's own phase, its state, and how it got there."""
    return {
        "phase": state.phase or None,
        "state": dict(state.values),
        "history": [{"from": move.source, "to": move.target, "at": _time(move.at)} for move in state.history],
    }


def render(conversation: Conversation, rendered: Rendered | None = None) -> str:
    """The view as JSON text; what has been rendered before is used again."""
    projection = project(conversation)
    if rendered is None:
        rendered = Rendered()
    rendered.catch_up(projection)
    parts = [_text(_head(projection))[:-2]]
    parts.extend(_part(name, known) for name, known in rendered.lists.items())
    parts.append(f',\n  "messages": {_list(list(rendered.messages.values()))}')
    parts.append(",\n" + _text(_tail(projection))[2:])
    parts.append("\n")
    return "".join(parts)


def _head(projection: Projection) -> HeadJson:
    """What comes before the lists."""
    glance = projection.glance
    phases = projection.phases
    origin = projection.forked_from
    head: HeadJson = {
        "id": glance.id,
        "title": glance.title,
        "status": glance.status,
        "waitingFor": glance.waiting_for or None,
        "statusReason": projection.reason or None,
        "phase": phases.phase.value if phases.phase is not None else None,
        "phaseStartedAt": phases.started_at,
        "cycle": glance.cycle,
        "createdAt": _time(glance.started_at),
        "updatedAt": _time(glance.updated_at),
        "seq": glance.seq,
        "imported": bool(glance.imported),
        "agent": projection.agent,
        "forkedFrom": {"id": origin.id, "seq": origin.seq, "title": origin.title} if origin is not None else None,
    }
    if phases.phase is None:
        del head["phase"]
        del head["phaseStartedAt"]
    head = _without_empty(head, "imported", "agent", "forkedFrom")
    for share in projection.activity.shares:
        cast("dict[str, Any]", head)[share.name] = share.view
    if projection.agent_states:
        head["agents"] = {name: _agent(state) for name, state in projection.agent_states.items()}
    if projection.history.rollbacks:
        head["rollbacks"] = [_rollback(rollback) for rollback in projection.history.rollbacks]
    if projection.refusals:
        head["refusals"] = [_refusal(refusal) for refusal in projection.refusals]
    return head


def _tail(projection: Projection) -> TailJson:
    """What comes after the lists."""
    activity = projection.activity
    phases = projection.phases
    return {
        "openCycle": _cycle(projection.open_cycle) if projection.open_cycle is not None else None,
        "openTurn": _turn(projection.open_turn) if projection.open_turn is not None else None,
        "running": [_run(run) for run in activity.runs],
        "openGates": [phase.value for phase in phases.open_gates],
        "participants": list(projection.participants),
        "waivers": [_waiver(waiver) for waiver in phases.waivers],
        "metadata": {
            "readFiles": dict(projection.read_files),
            "changedFiles": list(projection.changed_files),
            "address": dict(projection.address),
        },
        "undelivered": activity.undelivered_count,
        "phaseMetrics": {phase.value: _metrics(metrics) for phase, metrics in phases.metrics.items()},
        "workingMs": projection.working,
        "usage": usage_json(projection.usage),
    }


def everything(conversation: ConversationId, records: Iterable[Record]) -> dict[str, list[str]]:
    """The lists from their beginning, for all records of a conversation.

    Where the records begin with a snapshot, what it does not hold is empty.
    """
    c = new_conversation(conversation)
    found: dict[str, list[str]] = {name: [] for name in LISTS}
    for record in records:
        before = c.history
        c.apply(record)
        now = c.history or History()
        if now is before:
            continue
        for name, attribute in LISTS.items():
            items = getattr(now, attribute)
            texts = found[name]
            first = getattr(now, f"{attribute}_before")
            texts.extend("" for _ in range(first - len(texts)))
            texts.extend(_TEXTS[name](item) for item in items[len(texts) - first :])
    return found


def file_name(name: str, number: int) -> str:
    """The name of a list's file, its number counted from 0."""
    return f"{name}-{number + 1:06d}.json"


def file_of(texts: Sequence[str]) -> bytes:
    """The content of a file of a list."""
    return (f"[\n    {_join(texts)}\n]\n" if texts else "[]\n").encode()


def _part(name: str, known: RenderedList) -> str:
    """A list of the view, after the names of the files that hold what was before it."""
    whole = known.whole
    text = f',\n  "{name}": {_list(known.kept(whole))}'
    if not whole:
        return text
    earlier = json.dumps([file_name(name, number) for number in range(max(0, whole - LISTED), whole)])
    return f',\n  "earlier{name[0].upper()}{name[1:]}": {earlier}{text}'


def _list(texts: Sequence[str]) -> str:
    return f"[\n    {_join(texts)}\n  ]" if texts else "[]"


def _join(texts: Sequence[str]) -> str:
    return ",\n    ".join(texts)


def _indented(value: Mapping[str, Any]) -> str:
    return _text(value).replace("\n", "\n    ")


def _line(value: Mapping[str, Any]) -> str:
    return _text(value, indent=None)


def _text(value: Mapping[str, Any], indent: int | None = 2) -> str:
    """JSON, in an eighth of the time that `json` takes for it. Enums are slow here: give it their values."""
    try:
        return to_json(value, indent=indent).decode()
    except PydanticSerializationError:  # half of a surrogate pair, which a model may write
        return json.dumps(value, ensure_ascii=False, indent=indent).encode("utf-8", "replace").decode()


def iso(at: Millis, timespec: str = "seconds") -> str:
    """ISO 8601 in UTC; the number itself where no calendar has it."""
    try:
        return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # a clock that is set to nonsense must not cost the view
        return str(at)


_time: Final = partial(iso, timespec="milliseconds")


def _without_empty(shown: T, *names: str) -> T:
    """A part of the view without those of these fields that say nothing."""
    fields = cast("dict[str, Any]", shown)
    for name in names:
        if not fields[name]:
            del fields[name]
    return shown


def _said(shown: T) -> T:
    """A part of the view without all fields that are empty or 0."""
    return cast("T", {name: value for name, value in shown.items() if value})


def _decider(by: Decider | None) -> DeciderJson | None:
    if by is None:
        return None
    shown: DeciderJson = {"kind": by.kind, "name": by.name, "pubkey": by.pubkey, "model": by.model}
    return _said(shown)


def _short_decider(by: Decider | None) -> DeciderJson | None:
    """The same in a line: the project's name and key, which are in each transition, are left out."""
    if by is not None and by.kind in ("router", "rule"):
        by = replace(by, name="", pubkey=PublicKey(""))
    return _decider(by)


def _models(models: Mapping[str, Usage]) -> dict[str, UsageJson]:
    return {model or UNNAMED: usage_json(usage) for model, usage in models.items()}


def _transition(record: PhaseTransition) -> TransitionJson:
    shown: TransitionJson = {
        "from": record.from_,
        "to": record.to,
        "message": record.message,
        "timestamp": record.at,
        "time": _time(record.at),
        "cycle": record.cycle,
        "decidedBy": _decider(record.decided_by),
        "request": record.request,
        "agentPubkey": record.agent_pubkey,
        "agentName": record.agent_name,
        "reason": record.reason,
        "summary": record.summary,
        "source": record.source,
    }
    return _without_empty(shown, "request", "source")


def _turn_id(run: RunId) -> str:
    return run.partition(".")[0].partition("/")[0]


def _call(call: CallSummary) -> CallJson:
    shown: CallJson = {
        "time": _time(call.at),
        "cycle": call.cycle,
        "turn": _turn_id(call.run),
        "agent": run_agent(call.run),
        "run": call.run,
        "call": call.call,
        "tool": call.tool,
        "arguments": dict(call.arguments),
        "outcome": call.outcome,
        "exitStatus": call.exit_status,
        "result": call.result,
        "workingMs": call.duration,
        "waitedMs": call.waited,
        "changedFiles": list(call.changed),
        "revertedFiles": list(call.reverted),
        "source": call.source,
    }
    shown = _without_empty(shown, "changedFiles", "revertedFiles", "source")
    return cast("CallJson", {name: value for name, value in shown.items() if value is not None})


def _decision(decision: DecisionSummary) -> DecisionJson:
    shown: DecisionJson = {
        "time": _time(decision.at),
        "cycle": decision.cycle,
        "kind": decision.kind,
        "by": _short_decider(decision.by),
        "agents": list(decision.agents),
        "phase": decision.phase,
        "reason": decision.reason,
        "refusedAnswer": decision.answer,
        "usage": usage_json(decision.usage) if decision.usage.calls else None,
        "source": decision.source,
    }
    return _said(shown)


def _cycle(cycle: CycleSummary) -> CycleJson:
    shown: CycleJson = {
        "cycle": cycle.cycle,
        "startedAt": _time(cycle.at) if cycle.at else None,
        "startedBecause": cycle.began_because,
        "startedBy": _decider(cycle.begun_by),
        "endedAt": _time(cycle.ended_at) if cycle.ended_at is not None else None,
        "endedBecause": cycle.ended_because or None,
        "endedBy": _decider(cycle.ended_by),
        "workingMs": cycle.working,
        "turns": cycle.turns,
        "usage": usage_json(cycle.usage),
        "changedFiles": list(cycle.changed),
        "changedFilesCount": cycle.changed_count if cycle.changed_count > len(cycle.changed) else 0,
        "checks": list(cycle.checks),
        "source": cycle.source,
    }
    return _without_empty(shown, "changedFilesCount", "checks", "source")


def _waiver(waiver: Waiver) -> WaiverJson:
    shown: WaiverJson = {
        "phases": list(waiver.phases),
        "by": waiver.name,
        "quote": waiver.quote,
        "untried": waiver.untried,
        "messageId": waiver.message_id,
        "at": _time(waiver.at),
    }
    return _without_empty(shown, "untried")


def _metrics(metrics: PhaseMetrics) -> MetricsJson:
    return {
        "visits": metrics.visits,
        "durationMs": metrics.duration,
        "workingMs": metrics.working,
        "usage": usage_json(metrics.usage),
    }


def _rollback(rollback: Rollback) -> RollbackJson:
    return {
        "at": rollback.seq,
        "time": _time(rollback.at),
        "to": rollback.to,
        "by": rollback.by,
        "reason": rollback.reason,
        "undone": list(rollback.undone),
    }


def _refusal(refusal: RelayRefusal) -> RefusalJson:
    return {
        "time": _time(refusal.at),
        "relay": refusal.relay,
        "reason": refusal.reason,
        "eventId": refusal.event,
        "isDelivered": refusal.is_delivered,
    }


def _turn(turn: OrchestratorTurn) -> TurnJson:
    shown: TurnJson = {
        "turnId": turn.turn_id,
        "timestamp": turn.timestamp,
        "time": _time(turn.timestamp),
        "cycle": turn.cycle,
        "phase": turn.phase.value,
        "agents": list(turn.agents),
        "decidedBy": _decider(turn.decided_by),
        "reason": turn.reason,
        "completions": [_completion(done) for done in turn.completions],
        "ran": [{"agent": one.agent, "command": one.command, "exitStatus": one.status} for one in turn.ran],
        "isCompleted": turn.is_completed,
        "workingMs": turn.working,
        "usage": usage_json(sum(turn.models.values(), NO_USAGE)),
        "models": _models(turn.models),
        "changedFiles": list(turn.changed),
        "source": turn.source,
    }
    return _without_empty(shown, "ran", "source")


def _run_summary(run: RunSummary) -> RunJson:
    shown: RunJson = {
        "cycle": run.cycle,
        "turn": _turn_id(run.run),
        "run": run.run,
        "agent": run.agent,
        "pubkey": run.pubkey,
        "calledBy": run.caller,
        "startedAt": _time(run.started) if run.started else None,
        "endedAt": _time(run.ended),
        "workingMs": run.working,
        "outcome": run.outcome,
        "error": run.error,
        "steps": run.steps,
        "toolCalls": run.calls,
        "models": _models(run.models),
        "source": run.source,
    }
    return cast("RunJson", {name: value for name, value in shown.items() if value not in (None, "")})


def _completion(done: Completion) -> CompletionJson:
    shown: CompletionJson = {
        "agent": done.agent,
        "outcome": done.outcome,
        "text": done.text,
        "summary": done.summary,
        "verdict": done.verdict,
        "untried": done.untried,
        "error": done.error,
        "time": _time(done.at),
    }
    return _said(shown)


def _run(run: RunActivity) -> RunningJson:
    return {
        "run": run.id,
        "agent": run.agent,
        "name": run.name,
        "pubkey": run.pubkey,
        "steps": run.steps,
        "parked": run.state == "parked",
        "openCalls": [call.tool for call in run.open_calls],
        "closesAt": _time(run.closes_at),
        "models": _models(run.models),
    }


def _message(placed: PlacedMessage) -> MessageJson:
    message = placed.message
    shown: MessageJson = {
        "time": _time(message.at),
        "cycle": message.cycle,
        "turn": placed.turn,
        "from": message.name,
        "role": message.role or "agent",
        "author": message.author,
        "phase": message.phase.value,
        "text": message.text,
        "eventId": message.event_id or message.sent_as,
        "cameInCycle": message.carried_from,
        "fate": _fate(placed.fate) if placed.fate is not None else None,
    }
    return _said(shown)


def _fate(fate: Fate) -> FateJson:
    shown: FateJson = {"kind": fate.kind, "turn": fate.turn, "words": fate.words}
    return _said(shown)


def usage_json(usage: Usage) -> UsageJson:
    """What model calls have taken, as JSON: counts that few servers give only where they are not 0."""
    shown: UsageJson = {
        "calls": usage.calls,
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "costUsd": usage.cost_usd,
        "estimatedTokens": usage.estimated,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
    }
    return _without_empty(shown, "estimatedTokens", "cacheReadTokens", "cacheWriteTokens")


_TEXTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "phaseTransitions": lambda item: _indented(_transition(item)),
    "orchestratorTurns": lambda item: _indented(_turn(item)),
    "runs": lambda item: _line(_run_summary(item)),
    "toolCalls": lambda item: _line(_call(item)),
    "decisions": lambda item: _line(_decision(item)),
    "cycles": lambda item: _indented(_cycle(item)),
}
"""The text of an entry of a list. Calls and decisions have a line each, so that `grep` finds them whole."""
