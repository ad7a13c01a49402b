"""What happened in a conversation, entry by entry, as a page shows it.

The lines are those of `tenex conversations show` (`operations.transcript`). A page can fold things away, so this adds
what a call was given and gave, what a model wrote for itself, the refused answers of the router, and what a turn took.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import tenex.workflows  # noqa: F401 registers the kinds of conversation
from tenex.core import records as r
from tenex.core.conversation import new_conversation
from tenex.core.graph import END
from tenex.core.history.facts import facts_of
from tenex.core.history.state import History
from tenex.core.ids import ConversationId, Millis, RunId
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.people.decider import Decider
from tenex.core.text.amounts import count, dollars, duration
from tenex.core.text.lines import Tone
from tenex.core.totals.costs import run_agent
from tenex.core.work.run import Call
from tenex.core.work.turn import OrchestratorTurn
from tenex.operations.transcript import TranscriptRenderer
from tenex.workflows.missions import records as m
from tenex.workflows.speakers import records as w

LONGEST: Final = 20_000
"""Characters of a text on a page; the journal has all of it."""

_DECIDERS: Final[Mapping[str, str]] = {"router": "the orchestrator", "rule": "a rule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Something of an entry that is folded away."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something that happened."""

    seq: int
    """Of the record that holds it."""
    at: Millis
    tone: Tone | Literal["model"]
    """As of a transcript's line; `model` is a step of a model, which a transcript leaves out."""
    head: str
    text: str = ""
    facts: tuple[str, ...] = ()
    """Amounts and causes, a few words each."""
    parts: tuple[Part, ...] = ()
    run: str = ""
    """The run that begins here: what it was sent can be shown."""
    change: int = 0
    """The record that began the call whose changes of files can be shown; 0 where there are none."""

    @property
    def is_message(self) -> bool:
        """Whether the text is a message, which may be Markdown."""
        return self.tone in ("person", "agent", "notice", "error") and bool(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Details:
    """What an entry has beside its line; with a head it is one where the transcript has no line."""

    head: str = ""
    facts: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    run: str = ""
    change: int = 0


_NOTHING: Final = _Details()


class Story:
    """Turns the records of a conversation into entries, one after the other; the first is its first, or a snapshot."""

    def __init__(self, conversation: ConversationId, *, is_private: bool = True) -> None:
        """Begin; unless `is_private` it leaves out what `show` leaves out: what models wrote for themselves."""
        self.state = new_conversation(conversation)
        self.ways: Counter[tuple[str, str]] = Counter()
        """How often a mission or a workflow of speakers went from one node to another, in the records taken."""
        self._transcript = TranscriptRenderer()
        self._is_private = is_private

    def take(self, record: r.Record) -> list[Entry]:
        """The entries of the next record; none for what only the machinery needs."""
        lines = list(self._transcript.render(record))
        call = self._call_of(record)
        self.state.apply(record)
        self._note_way(record)
        details = self._details(record, call)
        if not lines:
            return [_entry(record, details, "model", details.head)] if details.head else []
        first, *others = lines
        entries = [_entry(record, details, first.tone, first.head, first.text)]
        entries.extend(_entry(record, _NOTHING, line.tone, line.head, line.text) for line in others)
        return entries

    def _note_way(self, record: r.Record) -> None:
        match record:
            case m.MissionOpened() | w.WorkflowOpened():
                self.ways.clear()
            case m.NodeCompleted():
                self.ways[record.node, record.to] += 1
            case w.RoundClosed():
                self.ways[str(record.speaker), str(record.next) or END] += 1
            case _:
                pass

    def _call_of(self, record: r.Record) -> Call | None:
        """The open call that a record ends."""
        if not isinstance(record, r.ToolCallCompleted | r.ToolCallRejected):
            return None
        run = self.state.work.runs.get(record.run)
        return run.find(record.call) if run is not None else None

    def _details(self, record: r.Record, call: Call | None) -> _Details:
        match record:
            case r.RunStarted():
                return _Details(head=f"{record.agent} begins", run=record.run if self._is_private else "")
            case r.ModelResponded():
                return self._of_step(record)
            case r.Routed() if record.usage.calls:
                return _Details(head=f"orchestrator · {record.model or 'model'}", facts=amounts(record.usage))
            case r.RouteRejected():
                return _Details(facts=_causes(record), parts=_parts({"The answer that was refused": record.answer}))
            case r.ToolCallCompleted() | r.ToolCallRejected():
                return _of_call(record, call)
            case r.PhaseTransition():
                texts = {"What was done before": record.summary, "Message": record.message}
                return _Details(facts=_causes(record), parts=_parts(texts))
            case r.TurnOpened() | r.CycleStarted() | r.Ended():
                return _Details(facts=_causes(record))
            case r.TurnClosed():
                return _of_turn(self._turn(record))
            case r.RunEnded():
                verdict = (f"verdict: {record.verdict}",) if record.verdict else ()
                return _Details(head=f"{run_agent(record.run)} is done", facts=(*verdict, *_causes(record)))
            case _:
                return _NOTHING

    def _of_step(self, record: r.ModelResponded) -> _Details:
        step = record.step
        texts = {"What it wrote for itself": step.thinking} if self._is_private else {}
        if step.calls and self._is_private:
            texts["What it wrote beside its calls"] = step.text
        head = f"{run_agent(record.run)} · {step.model or 'model'}"
        return _Details(head=head, facts=_causes(record), parts=_parts(texts))

    def _turn(self, record: r.TurnClosed) -> OrchestratorTurn | None:
        turns = (self.state.history or History()).turns
        return next((turn for turn in reversed(turns) if turn.turn_id == record.turn_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a run was sent and answered."""

    agent: str
    system: str
    entries: tuple[Any, ...]
    """As `core.messages.Entry`."""


def sent_to(conversation: ConversationId, records: Iterable[r.Record], run: str) -> Sent | None:
    """What a run was sent, as far as it has come in these records; None where it is not among them."""
    state = new_conversation(conversation)
    sent: Sent | None = None
    for record in records:
        is_end = isinstance(record, r.RunEnded) and record.run == run
        if is_end and sent is not None:
            return sent
        state.apply(record)
        open_run = state.work.runs.get(RunId(run))
        if open_run is not None:
            sent = Sent(agent=open_run.agent, system=open_run.system, entries=open_run.entries)
    return sent


def amounts(usage: Usage) -> tuple[str, ...]:
    """What model calls took, in words."""
    if not usage.calls:
        return ()
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    cached = f"{usage.cache_read_tokens:,} cached" if usage.cache_read_tokens else ""
    return tuple(filter(None, (tokens, cached, dollars(usage.cost_usd))))


def shortened(text: str) -> str:
    """A text as a page holds it."""
    left = len(text) - LONGEST
    return text if left <= 0 else f"{text[:LONGEST]}\n… {left:,} more characters are in the journal"


def _entry(record: r.Record, details: _Details, tone: Any, head: str, text: str = "") -> Entry:
    return Entry(
        seq=record.seq,
        at=record.at,
        tone=tone,
        head=head,
        text=shortened(text),
        facts=details.facts,
        parts=details.parts,
        run=details.run,
        change=details.change,
    )


def _of_call(record: r.ToolCallCompleted | r.ToolCallRejected, call: Call | None) -> _Details:
    arguments = {} if call is None else call.request.arguments
    texts = {f"given: {name}": _as_text(value) for name, value in arguments.items()}
    if isinstance(record, r.ToolCallRejected):
        return _Details(parts=_parts(texts))
    texts["Result"] = record.content
    texts["Changed files"] = "\n".join(record.touched)
    texts["Not kept, because the phase does not permit the change"] = "\n".join(record.reverted)
    status = (f"exit status {record.exit_status}",) if record.exit_status is not None else ()
    changed = (count(len(record.touched), "changed file"),) if record.touched else ()
    change = call.seq if call is not None and record.touched else 0
    return _Details(facts=(*status, *changed), parts=_parts(texts), change=change)


def _of_turn(turn: OrchestratorTurn | None) -> _Details:
    if turn is None:
        return _NOTHING
    usage = sum(turn.models.values(), NO_USAGE)
    work = (f"{duration(turn.working / 1000)} at work",) if turn.working else ()
    parts = _parts({"Changed files": "\n".join(turn.changed)})
    return _Details(head=f"{turn.turn_id} is over", facts=(*work, *amounts(usage)), parts=parts)


def _causes(record: r.Record) -> tuple[str, ...]:
    """Who decided what a record says, and what that took."""
    return tuple(words for fact in facts_of(record) for words in (*_by(fact.decider), *amounts(fact.usage)))


def _by(decider: Decider | None) -> tuple[str, ...]:
    if decider is None:
        return ()
    model = f" ({decider.model})" if decider.model else ""
    return (f"decided by {_DECIDERS.get(decider.kind, decider.name)}{model}",)


def _parts(texts: Mapping[str, str]) -> tuple[Part, ...]:
    return tuple(Part(title=title, text=shortened(text)) for title, text in texts.items() if text.strip())


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
