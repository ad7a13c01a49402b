"""Renders a conversation: records in, lines for a terminal out; live in the demo, afterwards in `show`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

import tenex.workflows  # noqa: F401 - registers the kinds of conversation, each with what it shows
from tenex.core import records as r
from tenex.core.history.facts import Fact, facts_of
from tenex.core.ids import ConversationId
from tenex.core.kind import all_kinds
from tenex.core.messages import ModelStep
from tenex.core.projection import activity_of, glance_of, partner
from tenex.core.rollback.whole import ConversationForked, RolledBack
from tenex.core.snapshot import StateSnapshot
from tenex.core.state import State
from tenex.core.text.lines import ARGUMENT_CHARACTERS, PARTNER, Place, Row, Tone, fields, shorten
from tenex.core.totals.costs import run_agent
from tenex.store.conversations import Conversations
from tenex.store.repository import NEWEST


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

    def _rows(self, record: r.Record) -> Iterator[Row]:
        match record:
            case r.ConversationStarted():
                self._place[PARTNER] = record.agent
            case StateSnapshot() | RolledBack() | ConversationForked():
                self.follow(record.state)
            case r.ModelResponded():
                self._calls.update({(record.run, one.id): fields(one.arguments) for one in record.step.calls})
                if self._thoughts:
                    yield from _thought(run_agent(record.run), record.step)
            case _:
                pass
        for fact in facts_of(record):
            if fact.tone is not None:
                yield self._row(fact, fact.tone)

    def _row(self, fact: Fact, tone: Tone) -> Row:
        """The line of a fact, with what only a reader knows who has read the records before."""
        match fact.kind:
            case "turn":
                return Row(tone, f"{fact.head} · {self._place.get(PARTNER) or fact.phase}", fact.text)
            case "tool" if fact.run is not None and fact.call is not None:
                arguments = shorten(self._calls.pop((fact.run, fact.call), ""), 2 * ARGUMENT_CHARACTERS)
                return Row(tone, f"{fact.head}({arguments})", shorten(fact.text))
            case _:
                return Row(tone, fact.head, fact.text, fact.event)


def _thought(agent: str, step: ModelStep) -> Iterator[Row]:
    """What an agent wrote for itself: by its states, or as its model gave it."""
    from tenex.output_states.history import REASONED, planned

    for state, text in planned(step) or ([(REASONED, step.thinking)] if step.thinking else []):
        yield Row("dim", f"{agent} · {state}", text)
