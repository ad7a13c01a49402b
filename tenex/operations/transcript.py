"""Renders a conversation: records in, lines for a terminal out; live in the demo, afterwards in `show`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

import tenex.workflows  # noqa: F401 - registers the kinds of conversation, each with what it shows
from tenex.core import records as r
from tenex.core.approvals.message import ENDINGS
from tenex.core.ids import ConversationId, RunId
from tenex.core.kind import all_kinds
from tenex.core.lines import ARGUMENT_CHARACTERS, PARTNER, Place, Row, Tone, fields, shorten
from tenex.core.messages import ModelStep
from tenex.core.phases import PHASES
from tenex.core.projection import activity_of, glance_of, partner, worker_of
from tenex.core.rollback.whole import ConversationForked, RolledBack
from tenex.core.snapshot import StateSnapshot
from tenex.core.state import State
from tenex.core.totals.costs import run_agent
from tenex.store.conversations import Conversations
from tenex.store.repository import NEWEST

_TONES: Final[Mapping[str, Tone]] = {"completion": "agent", "question": "agent", "error": "error"}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The lines of a conversation, all or the newest."""

    lines: Sequence[Line]
    has_earlier: bool
    """Whether lines before them were left out."""
    missing: str
    """What of its past is lost, as a sentence; empty where nothing is, or where it was not read so far."""


async def read_transcript(
    folder: Conversations, name: ConversationId, last: int | None, *, thoughts: bool = False
) -> Transcript:
    """Read the last lines of a conversation, or all where `last` is None.

    As many of the newest files are read as hold those lines, so the end of a long conversation costs as much as that
    of a short one.

    Raises:
        StoreDamaged: the journal holds what we did not write.
        UsageError: there is no such conversation.
    """
    since = 0 if last is None else NEWEST
    while True:
        records, missing = await folder.read_left(name, since)
        renderer = TranscriptRenderer(thoughts=thoughts)
        lines = [line for record in records for line in renderer.render(record)]
        if last is not None and len(lines) > last:
            return Transcript(lines=lines[-last:], has_earlier=True, missing=missing)
        first = next(iter(records), None)
        if missing or not isinstance(first, StateSnapshot):
            return Transcript(lines=lines, has_earlier=False, missing=missing)
        since = first.seq - 1


class TranscriptRenderer:
    """Renders records one after the other; keeps only where the conversation is and the arguments of open calls."""

    def __init__(self, *, thoughts: bool = False) -> None:
        """Begin; with `thoughts` what agents wrote for themselves is shown too."""
        self._thoughts = thoughts
        self._calls: dict[tuple[str, str], str] = {}
        self._place: Place = {}

    def follow(self, state: State) -> None:
        """Go on in this state: the records that led to it are not rendered."""
        activity = activity_of(state)
        self._place = {PARTNER: partner(glance_of(state).place)}
        for kind in all_kinds():
            self._place |= kind.place(state)
        self._calls = {(run.id, call.id): fields(call.arguments) for run in activity.runs for call in run.open_calls}

    def render(self, record: r.Record) -> Iterator[Line]:
        """The lines of a record; none for what only the machinery needs."""
        for row in chain(self._rows(record), *(kind.rows(record, self._place) for kind in all_kinds())):
            yield Line(row.tone, row.head, row.text, record.at, row.event)

    def _rows(self, record: r.Record) -> Iterator[Row]:  # noqa: C901 one case a record: flat, and complete
        match record:
            case r.ConversationStarted():
                self._place[PARTNER] = record.agent
            case r.MessageRecorded():
                yield Row("person", record.name, record.text)
            case r.CommandGiven():
                yield Row("person", record.name, f"/{record.command} {record.argument}".rstrip())
            case r.CycleStarted() if record.cycle > 1:
                yield Row("turn", f"cycle {record.cycle}", record.reason)
            case r.PhaseTransition():
                yield Row("phase", f"{PHASES[record.to].icon} {record.from_} → {record.to}", record.reason)
            case r.TurnOpened():
                agents = ", ".join(record.agents)
                yield Row(
                    "turn",
                    f"{record.turn_id} · {self._place.get(PARTNER) or record.phase}",
                    f"{agents} — {record.reason}",
                )
            case r.RunStarted():
                if record.parent is not None:
                    yield Row("tool", f"{run_agent(record.parent)} calls {record.agent}", "")
            case r.AgentPhaseChanged():
                yield Row("phase", record.agent, f"{record.source} → {record.target}")
            case r.ConditionFailed():
                edge = f"{record.source} → {record.target or 'any'}"
                yield Row("error", record.agent, f"a condition of {edge} failed: {record.error}")
            case r.ModelResponded():
                self._calls.update({(record.run, one.id): fields(one.arguments) for one in record.step.calls})
                if self._thoughts:
                    yield from _thought(run_agent(record.run), record.step)
            case r.ToolCallCompleted():
                yield self._called(record.run, record.call, record.tool, record.content, ok=record.ok)
            case r.ToolCallRejected():
                yield self._called(record.run, record.call, record.tool, record.sentence, ok=False)
            case r.MessageSent(purpose="announcement"):
                pass  # the transition has shown the same already
            case r.MessageSent():
                tone = _TONES.get(record.purpose, "notice")
                yield Row(tone, record.name, record.text, record.events[0].id if record.events else "")
            case r.QuestionAnswered():
                yield Row("dim", "answered", f"{run_agent(record.run)} goes on")
            case r.ApprovalAnswered():
                by = f" by {record.name}" if record.name else ""
                yield Row("notice", "permission", f"{ENDINGS[record.outcome]}{by}")
            case r.ApprovalWithdrawn():
                yield Row("notice", "permission", f"{record.name} has deleted the answer")
            case r.PermissionsRevoked():
                yield Row("notice", "permission", f"revoked by {record.name}")
            case r.RouteRejected():
                yield Row("refused", "routing refused", record.sentence)
            case r.RunEnded() if record.outcome != "finished":
                yield Row("error", run_agent(record.run), f"{record.outcome.replace('_', ' ')}: {record.error}")
            case r.RetryScheduled(limit=""):
                yield Row("dim", "model", f"{worker_of(record.run)} is tried again: {record.message}")
            case r.ProcessRestarted():
                yield Row("dim", "restart", "the daemon goes on with this conversation")
            case r.ClockAdjusted():
                yield Row(
                    "dim", "clock", f"it was set {'on' if record.by > 0 else 'back'} by {abs(record.by) // 1000} s"
                )
            case StateSnapshot():
                self.follow(record.state)
            case RolledBack():
                self.follow(record.state)
                yield Row("turn", f"back to record {record.to}", record.reason or f"{record.by} asked for it")
            case ConversationForked():
                self.follow(record.state)
                yield Row("turn", f"fork of {record.origin[:12]}", f"as of its record {record.at_seq}")
            case r.JournalRebuilt():
                lost = "; ".join(record.missing) or "nothing known"
                yield Row("notice", f"recovered from {record.source}", f"Lost: {lost}")
            case r.ConversationImported():
                yield Row(
                    "notice", "imported", "what is above was not written here: it can be read, and decides nothing"
                )
            case r.Waiting():
                yield Row("dim", "waiting", {"user": "for you"}.get(record.reason, f"for you ({record.reason})"))
            case r.Ended():
                yield Row("end", "END", record.reason)
            case _:
                pass

    def _called(self, run: RunId, call: str, tool: str, content: str, *, ok: bool) -> Row:
        arguments = shorten(self._calls.pop((run, call), ""), 2 * ARGUMENT_CHARACTERS)
        head = f"{run_agent(run)} · {tool}({arguments})"
        return Row("tool" if ok else "refused", head, shorten(content))


def _thought(agent: str, step: ModelStep) -> Iterator[Row]:
    """What an agent wrote for itself: by its states, or as its model gave it."""
    from tenex.output_states.history import REASONED, planned

    for state, text in planned(step) or ([(REASONED, step.thinking)] if step.thinking else []):
        yield Row("dim", f"{agent} · {state}", text)
