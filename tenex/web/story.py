"""What happened in a conversation, entry by entry, as a page shows it.

The lines are those of `tenex conversations show` (`operations.transcript`). A page can fold things away, so this adds
what a call was given and gave, what a model wrote for itself, the refused answers of the router, and what a turn took.
It also says where each entry belongs: a call to a run, a run to a turn. `talk.py` makes messages and trees of that.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
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
from tenex.core.rollback.whole import ConversationForked, RolledBack
from tenex.core.text.amounts import count, dollars
from tenex.core.text.lines import Tone, fields
from tenex.core.totals.costs import run_agent
from tenex.core.work.run import Call
from tenex.core.work.turn import OrchestratorTurn
from tenex.operations.transcript import TranscriptRenderer
from tenex.telemetry.durations import Interval, Intervals
from tenex.workflows.missions import records as m
from tenex.workflows.phases import records as p
from tenex.workflows.phases.checks import outcome_of
from tenex.workflows.speakers import records as w

LONGEST: Final = 20_000
"""Characters of a text on a page; the journal has all of it."""

_DECIDERS: Final[Mapping[str, str]] = {"router": "the orchestrator", "rule": "a rule"}

Role = Literal["message", "mark", "turn", "run", "model", "call", "check", "line"]
"""What an entry is on a page: a message of the conversation, a mark between messages (an end, a decision of a person),
or a part of the work that is folded between two messages."""
Result = Literal["", "failed", "refused"]

_MARKS: Final = (
    r.Ended,
    r.CycleStarted,
    r.JournalRebuilt,
    r.ConversationImported,
    r.ApprovalAnswered,
    r.ApprovalWithdrawn,
    r.PermissionsRevoked,
    RolledBack,
    ConversationForked,
    p.Waived,
    p.PlanApproved,
    m.MissionOpened,
    m.MissionEnded,
    w.WorkflowOpened,
)
"""Records whose lines stand between messages, where a reader sees them without opening the work."""


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
    role: Role = "line"
    node: int = 0
    """The entry that this one brings up to date: the beginning of the run or the turn that ends here; 0 for none."""
    under: tuple[int, ...] = ()
    """The entries that this one belongs to, the nearest first: a run, the run that called it, a turn."""
    who: str = ""
    """The name of the agent at work."""
    label: str = ""
    """The line's beginning where it is under that agent; "" for the head."""
    result: Result = ""
    took: int | None = None
    """ms."""
    usage: Usage = NO_USAGE
    """Of a run and of a turn all that its parts have cost."""
    paid: float = 0.0
    """Dollars of all records since the entry before."""
    changed: tuple[str, ...] = ()
    """Files."""
    check: str = ""
    """How a check on the present files ended."""

    @property
    def is_message(self) -> bool:
        """Whether the text is a message, which may be Markdown."""
        return self.role == "message"

    @property
    def is_work(self) -> bool:
        """Whether it is folded away between two messages."""
        return self.role not in ("message", "mark")

    @property
    def is_failure(self) -> bool:
        """Whether something was refused or did not succeed."""
        return bool(self.result) or self.tone in ("error", "refused")

    def has(self, words: str) -> bool:
        """Whether the entry holds these words, which are in lower case."""
        texts = (self.head, self.text, *self.facts, *(text for part in self.parts for text in (part.title, part.text)))
        return any(words in text.lower() for text in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Details:
    """What an entry has beside its line; with a head it is one where the transcript has no line."""

    head: str = ""
    text: str = ""
    facts: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    run: str = ""
    change: int = 0
    role: Role = "line"
    node: int = 0
    label: str = ""
    result: Result = ""
    took: int | None = None
    usage: Usage = NO_USAGE
    changed: tuple[str, ...] = ()
    check: str = ""


_NOTHING: Final = _Details()


class Story:
    """Turns the records of a conversation into entries, one after the other; the first is its first, or a snapshot."""

    def __init__(self, conversation: ConversationId, *, is_private: bool = True) -> None:
        """Begin; unless `is_private` it leaves out what `show` leaves out: what models wrote for themselves."""
        self.state = new_conversation(conversation)
        self.ways: Counter[tuple[str, str]] = Counter()
        """How often a mission or a workflow of speakers went from one node to another, in the records taken."""
        self._transcript = TranscriptRenderer()
        self._intervals = Intervals()
        self._is_private = is_private
        self._begun: dict[str, Entry] = {}
        """The first entries of open turns and runs, by id."""
        self._paid = 0.0
        """Dollars since the last entry."""

    def take(self, record: r.Record) -> list[Entry]:
        """The entries of the next record; none for what only the machinery needs."""
        lines = list(self._transcript.render(record))
        call = self._call_of(record)
        run = str(getattr(record, "run", None) or "")
        open_run = self.state.work.runs.get(RunId(run))
        turn = self.state.work.turn
        self.state.apply(record)
        self._note_way(record)
        self._paid += sum(fact.usage.cost_usd or 0.0 for fact in facts_of(record))

        ended = self._intervals.on_records(self.state, [record])
        details = self._details(record, call, ended)
        if not lines and not details.head:
            return []

        turn = self.state.work.turn or turn
        open_run = self.state.work.runs.get(RunId(run)) or open_run
        entry = Entry(
            seq=record.seq,
            at=record.at,
            tone=lines[0].tone if lines else "model",
            head=lines[0].head if lines else details.head,
            text=shortened(lines[0].text if lines else details.text),
            facts=details.facts,
            parts=details.parts,
            run=details.run,
            change=details.change,
            role=_role_of(record, details),
            node=details.node,
            under=self._under(run, str(turn.turn_id) if turn is not None else ""),
            who=open_run.name if open_run is not None else str(run_agent(RunId(run))),
            label=details.label,
            result=details.result,
            took=details.took,
            usage=details.usage,
            paid=self._paid,
            changed=details.changed,
            check=details.check,
        )
        self._paid = 0.0
        entry = self._followed(record, entry)
        others = (
            Entry(seq=record.seq, at=record.at, tone=line.tone, head=line.head, text=shortened(line.text))
            for line in lines[1:]
        )
        return [entry, *others]

    def _under(self, run: str, turn: str) -> tuple[int, ...]:
        """The first entries of a run, of those that called it, and of the turn."""
        begun = self._begun.get(run) if run else None
        if begun is not None:
            return (begun.seq, *begun.under)
        open_turn = self._begun.get(turn) if run else None
        return (open_turn.seq,) if open_turn is not None else ()

    def _followed(self, record: r.Record, entry: Entry) -> Entry:
        """The entry, where it begins or ends a turn or a run as one that belongs to its beginning."""
        match record:
            case r.TurnOpened():
                self._begun[record.turn_id] = entry
            case r.RunStarted():
                parent = self._begun.get(record.parent or "")
                if parent is not None:
                    entry = replace(entry, under=(parent.seq, *parent.under))
                self._begun[record.run] = entry
            case r.TurnClosed() | r.RunEnded():
                begun = self._begun.pop(record.turn_id if isinstance(record, r.TurnClosed) else record.run, None)
                if begun is not None:
                    label = entry.label or begun.label or begun.head
                    entry = replace(entry, node=begun.seq, under=begun.under, label=label)
        return entry

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

    def _details(self, record: r.Record, call: Call | None, ended: Iterable[Interval]) -> _Details:
        took = {interval.stage: max(0, interval.ended - interval.began) for interval in ended}
        match record:
            case r.RunStarted():
                run = record.run if self._is_private else ""
                return _Details(head=f"{record.agent} begins", run=run, role="run", label=record.agent_name)
            case r.ModelResponded():
                return self._of_step(record, took.get("model"))
            case r.Routed() if record.usage.calls:
                return _Details(
                    head=f"orchestrator · {record.model or 'model'}",
                    facts=amounts(record.usage),
                    role="model",
                    took=took.get("route"),
                )
            case r.RouteRejected():
                parts = _parts({"The answer that was refused": record.answer})
                return _Details(facts=_causes(record), parts=parts, result="refused", took=took.get("route"))
            case r.ToolCallCompleted() | r.ToolCallRejected():
                return _of_call(record, call, took.get("tool"))
            case r.PhaseTransition():
                texts = {"What was done before": record.summary, "Message": record.message}
                return _Details(facts=_causes(record), parts=_parts(texts))
            case r.TurnOpened() | r.CycleStarted() | r.Ended():
                return _Details(facts=_causes(record))
            case r.TurnClosed():
                return _of_turn(self._turn(record))
            case r.RunEnded():
                return self._of_run(record)
            case p.CheckEnded():
                return _of_check(record)
            case r.MessageSent() if not record.is_published:
                return _Details(parts=_parts({"Message to the other agents": record.text}))
            case _:
                return _NOTHING

    def _of_step(self, record: r.ModelResponded, took: int | None) -> _Details:
        step = record.step
        texts = {"What it wrote for itself": step.thinking} if self._is_private else {}
        if step.calls and self._is_private:
            texts["What it wrote beside its calls"] = step.text
        model = step.model or "model"
        return _Details(
            head=f"{run_agent(record.run)} · {model}",
            facts=_causes(record),
            parts=_parts(texts),
            role="model",
            label=model,
            took=took,
        )

    def _of_run(self, record: r.RunEnded) -> _Details:
        verdict = (f"verdict: {record.verdict}",) if record.verdict else ()
        runs = (self.state.history or History()).runs
        summary = next((run for run in reversed(runs) if run.run == record.run), None)
        return _Details(
            head=f"{run_agent(record.run)} is done",
            facts=(*verdict, *_causes(record)),
            role="run",
            label=summary.name if summary is not None else "",
            result="" if record.outcome == "finished" else "failed",
            took=summary.working if summary is not None else None,
            usage=sum(summary.models.values(), NO_USAGE) if summary is not None else NO_USAGE,
        )

    def _turn(self, record: r.TurnClosed) -> OrchestratorTurn | None:
        turns = (self.state.history or History()).turns
        return next((turn for turn in reversed(turns) if turn.turn_id == record.turn_id), None)


def _role_of(record: r.Record, details: _Details) -> Role:
    """What an entry is on a page. A message that only other agents are shown is a part of the work."""
    match record:
        case r.MessageRecorded() | r.CommandGiven():
            return "message"
        case r.MessageSent():
            return "message" if record.is_published else "line"
        case r.TurnOpened():
            return "turn"
        case _:
            return "mark" if isinstance(record, _MARKS) else details.role


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


def _of_call(record: r.ToolCallCompleted | r.ToolCallRejected, call: Call | None, took: int | None) -> _Details:
    arguments = {} if call is None else call.request.arguments
    texts = {f"given: {name}": _as_text(value) for name, value in arguments.items()}
    label = f"{record.tool}({fields(arguments)})"
    if isinstance(record, r.ToolCallRejected):
        return _Details(parts=_parts(texts), role="call", label=label, result="refused")
    texts["Result"] = record.content
    texts["Changed files"] = "\n".join(record.touched)
    texts["Not kept, because the phase does not permit the change"] = "\n".join(record.reverted)
    status = (f"exit status {record.exit_status}",) if record.exit_status is not None else ()
    changed = (count(len(record.touched), "changed file"),) if record.touched else ()
    return _Details(
        facts=(*status, *changed),
        parts=_parts(texts),
        change=call.seq if call is not None and record.touched else 0,
        role="call",
        label=label,
        result="" if record.ok else "failed",
        took=took,
        changed=record.touched,
    )


def _of_check(record: p.CheckEnded) -> _Details:
    result = record.result
    has_failed = result.has_run and not result.is_success and not record.is_earlier
    return _Details(
        facts=("before the work",) if record.is_earlier else (),
        parts=_parts({"Command": result.command, "Failed": "\n".join(result.failed), "Output": result.last_lines}),
        role="check",
        result="failed" if has_failed else "",
        took=round(result.seconds * 1000),
        check="" if record.is_earlier or not result.has_run else outcome_of(result),
    )


def _of_turn(turn: OrchestratorTurn | None) -> _Details:
    if turn is None:
        return _NOTHING
    usage = sum(turn.models.values(), NO_USAGE)
    parts = _parts({"Changed files": "\n".join(turn.changed)})
    return _Details(
        head=f"{turn.turn_id} is over",
        text=f"{', '.join(turn.agents)} — {turn.reason}",
        facts=amounts(usage),
        parts=parts,
        role="turn",
        took=turn.working,
        usage=usage,
    )


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
