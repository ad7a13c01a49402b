"""Renders a conversation: records in, lines for a terminal out; live in the demo, afterwards in `show`."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal

from tenex.core import records as r
from tenex.core.ids import RunId
from tenex.core.messages import ModelStep
from tenex.core.phases import PHASES
from tenex.core.projection import activity_of, glance_of, partner, worker_of
from tenex.core.rollback.whole import ConversationForked, RolledBack
from tenex.core.snapshot import StateSnapshot
from tenex.core.state import State
from tenex.core.totals.costs import run_agent
from tenex.workflows.missions import records as m
from tenex.workflows.phases import records as p
from tenex.workflows.speakers import records as w

Tone = Literal["person", "agent", "stranger", "phase", "turn", "tool", "refused", "notice", "error", "end", "dim"]

ARGUMENT_CHARACTERS = 60
RESULT_CHARACTERS = 100


_json = partial(json.dumps, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Line:
    """A line to show; `event` is set for a message that relays deliver too."""

    tone: Tone
    head: str
    text: str = ""
    at: int = 0
    event: str = ""

    @property
    def time(self) -> str:
        """The local time of day; the number itself where no calendar has it."""
        try:
            return datetime.fromtimestamp(self.at / 1000).astimezone().strftime("%H:%M:%S")
        except (OverflowError, ValueError, OSError):
            return str(self.at)


class TranscriptRenderer:
    """Renders records one after the other; keeps only where the conversation is and the arguments of open calls."""

    def __init__(self, *, thoughts: bool = False) -> None:
        """Begin; with `thoughts` what agents wrote for themselves is shown too."""
        self._thoughts = thoughts
        self._calls: dict[tuple[str, str], str] = {}
        self._partner = ""
        """The agent or workflow that it is with, where there are no phases."""
        self._mission = ""
        self._node = ""

    def follow(self, state: State) -> None:
        """Go on in this state: the records that led to it are not rendered."""
        activity = activity_of(state)
        self._partner = partner(glance_of(state).place)
        mission = next((share.view for share in activity.shares if share.name == "mission"), {})
        self._mission = mission.get("workflow", "")
        self._node = mission.get("node", "")
        self._calls = {(run.id, call.id): _fields(call.arguments) for run in activity.runs for call in run.open_calls}

    def render(self, record: r.Record) -> Iterator[Line]:
        """The lines of a record; none for what only the machinery needs."""
        for tone, head, text, *event in self._rows(record):
            yield Line(tone, head, text, record.at, *event)

    def _rows(self, record: r.Record) -> Iterator[tuple[Any, ...]]:  # noqa: C901 one case a record: flat, and complete
        match record:
            case r.ConversationStarted():
                self._partner = record.agent
            case w.WorkflowOpened():
                self._partner = record.workflow
                yield "phase", f"🗣 {record.name}", f"{', '.join(record.participants)}"
            case w.ContextSet():
                given = [f"{key} = {value!r}" for key, value in record.set_.items()]
                changes = ", ".join([*given, *(f"no {key}" for key in record.delete)])
                yield "dim", "variable", f"{changes} (by {record.by})"
            case m.MissionOpened():
                self._mission = record.workflow
                if record.pubkey:
                    self._partner = record.workflow
                yield "phase", f"🧭 {record.workflow}", f"begun by {record.by}"
            case m.MissionRefused():
                yield "notice", record.workflow, "could not begin"
            case m.NodeEntered():
                self._node = record.node
                yield "turn", f"{self._mission} · {record.node}", _fields(record.data)
            case m.StepCompleted():
                shown = _value(record.result) if record.ok else f"{record.kind}: {record.message}"
                yield "tool" if record.ok else "refused", f"{self._node} · {record.step}", shown
            case m.NodeRetryScheduled(limit=""):
                yield "dim", self._node, f"is tried again: {record.kind}: {record.message}"
            case m.NodeCompleted() if record.kind:
                yield "error", record.node, f"{record.kind}: {record.message}"
            case m.NodeRetryDue() if record.by:
                yield "dim", self._node, f"goes on: {record.by} lets it"
            case m.MissionPaused():
                yield "notice", "paused", f"{record.reason} (by {record.by})"
            case m.MissionEnded():
                yield "phase", f"🧭 {record.outcome}", record.message or _value(record.result)
            case w.ExpectationMissed():
                yield "notice", "late", f"{record.expectation}: {record.action}"
            case r.MessageRecorded():
                yield "person", record.name, record.text
            case r.CommandGiven():
                yield "person", record.name, f"/{record.command} {record.argument}".rstrip()
            case r.CycleStarted() if record.cycle > 1:
                yield "turn", f"cycle {record.cycle}", record.reason
            case r.PhaseTransition():
                yield "phase", f"{PHASES[record.to].icon} {record.from_} → {record.to}", record.reason
            case r.TurnOpened():
                agents = ", ".join(record.agents)
                yield "turn", f"{record.turn_id} · {self._partner or record.phase}", f"{agents} — {record.reason}"
            case r.RunStarted():
                if record.parent is not None:
                    yield "tool", f"{run_agent(record.parent)} calls {record.agent}", ""
            case r.AgentPhaseChanged():
                yield "phase", record.agent, f"{record.source} → {record.target}"
            case r.ConditionFailed():
                edge = f"{record.source} → {record.target or 'any'}"
                yield "error", record.agent, f"a condition of {edge} failed: {record.error}"
            case r.ModelResponded():
                self._calls.update({(record.run, one.id): _fields(one.arguments) for one in record.step.calls})
                if self._thoughts:
                    yield from _thought(run_agent(record.run), record.step)
            case r.ToolCallCompleted():
                yield self._called(record.run, record.call, record.tool, record.content, ok=record.ok)
            case r.ToolCallRejected():
                yield self._called(record.run, record.call, record.tool, record.sentence, ok=False)
            case r.MessageSent(purpose="announcement"):
                pass  # the transition has shown the same already
            case r.MessageSent():
                tone = {"completion": "agent", "question": "agent", "error": "error"}.get(record.purpose, "notice")
                yield tone, record.name, record.text, record.events[0].id if record.events else ""
            case r.QuestionAnswered():
                yield "dim", "answered", f"{run_agent(record.run)} goes on"
            case r.RouteRejected():
                yield "refused", "routing refused", record.sentence
            case r.RunEnded() if record.outcome != "finished":
                yield "error", run_agent(record.run), f"{record.outcome.replace('_', ' ')}: {record.error}"
            case p.Waived():
                yield "notice", "waived", f"{', '.join(record.phases)} by {record.name}: “{record.quote}”"
            case p.PlanApproved():
                yield "notice", "approved", f"the plan of {record.turn_id} by {record.name}"
            case r.RetryScheduled(limit=""):
                yield "dim", "model", f"{worker_of(record.run)} is tried again: {record.message}"
            case r.ProcessRestarted():
                yield "dim", "restart", "the daemon goes on with this conversation"
            case r.ClockAdjusted():
                yield "dim", "clock", f"it was set {'on' if record.by > 0 else 'back'} by {abs(record.by) // 1000} s"
            case StateSnapshot():
                self.follow(record.state)
            case RolledBack():
                self.follow(record.state)
                yield "turn", f"back to record {record.to}", record.reason or f"{record.by} asked for it"
            case ConversationForked():
                self.follow(record.state)
                yield "turn", f"fork of {record.origin[:12]}", f"as of its record {record.at_seq}"
            case r.JournalRebuilt():
                lost = "; ".join(record.missing) or "nothing known"
                yield "notice", f"recovered from {record.source}", f"Lost: {lost}"
            case r.ConversationImported():
                yield "notice", "imported", "what is above was not written here: it can be read, and decides nothing"
            case r.Waiting():
                yield "dim", "waiting", {"user": "for you"}.get(record.reason, f"for you ({record.reason})")
            case r.Ended():
                yield "end", "END", record.reason
            case _:
                pass

    def _called(self, run: RunId, call: str, tool: str, content: str, *, ok: bool) -> tuple[Any, ...]:
        arguments = shorten(self._calls.pop((run, call), ""), 2 * ARGUMENT_CHARACTERS)
        head = f"{run_agent(run)} · {tool}({arguments})"
        return ("tool" if ok else "refused"), head, shorten(content)


def _thought(agent: str, step: ModelStep) -> Iterator[tuple[Any, ...]]:
    """What an agent wrote for itself: by its states, or as its model gave it."""
    from tenex.output_states.history import REASONED, planned

    for state, text in planned(step) or ([(REASONED, step.thinking)] if step.thinking else []):
        yield "dim", f"{agent} · {state}", text


def _value(value: Any) -> str:
    return "" if value is None else shorten(value if isinstance(value, str) else _json(value))


def _fields(data: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={shorten(value, ARGUMENT_CHARACTERS)}" for name, value in data.items())


def shorten(value: object, limit: int = RESULT_CHARACTERS) -> str:
    """A value as text on one line, cut to fit."""
    words = " ".join(str(value).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"
