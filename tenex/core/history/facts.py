"""Facts: what each record says, in the terms in which readers speak of a conversation.

A transcript, a page, sums, metrics, durations, spans and the evaluation of a scenario ask the same of a record: what it
is about, what became of that, whose it is, what it cost, and in which words a person reads it. The answer is here,
once: a new record that readers show needs a function here, or beside its kind of conversation, and no change in them.

`facts_of` reads the record alone. What needs the state before it, such as the arguments of a call or how long it took,
is the reader's: it has the state, or keeps the little that it needs.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar

from tenex.core import records as r
from tenex.core.approvals.message import ENDINGS
from tenex.core.ids import CallId, RunId
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.people.decider import Decider, person
from tenex.core.phases import PHASES, Phase
from tenex.core.rollback.whole import ConversationForked, RolledBack
from tenex.core.text.lines import Tone
from tenex.core.text.state_words import waits_for
from tenex.core.totals.costs import cost_of, model_of, run_agent, spender_of, worker_of

FactKind = Literal[
    "conversation",
    "message",
    "command",
    "cycle",
    "phase",
    "agent phase",
    "turn",
    "run",
    "route",
    "model",
    "tool",
    "ask",
    "permission",
    "said",
    "wait",
    "limit",
    "stop",
    "continue",
    "restart",
    "clock",
]
"""What a fact is about. `route` and `model` are requests to models, `ask` a question of an agent, `said` a message of
ours; a fact of the kind `run` is about an agent's part in a turn."""


class Fact(NamedTuple):
    """What a record says of one thing."""

    kind: FactKind
    outcome: str
    """What became of it:

    conversation  started, forked, went back, rebuilt, imported    message  received      command  given
    cycle, turn   began, ended                                     phase         entered
    agent phase   entered, failed (a condition could not be evaluated)
    run           began, called (by another), and those of `RunEnded`
    route         accepted, superseded, rejected, stale, unavailable, postponed, cancelled
    model         answered, refused, unavailable, postponed, cancelled
    tool          began, ok, failed, refused                       ask      answered
    permission    asked, withdrawn, revoked, and those of `ApprovalAnswered`
    said          the purpose of the message                       wait, limit  which
    stop, continue  asked                                          restart, clock  was
    """
    run: RunId | None = None
    call: CallId | None = None
    tool: str = ""
    phase: Phase | None = None
    agents: tuple[str, ...] = ()
    """Who begins to work."""
    decider: Decider | None = None
    """Who decided it; None where that is not recorded."""
    reason: str = ""
    usage: Usage = NO_USAGE
    """What it cost."""
    model: str = ""
    """Which model was paid; "" where that is not known."""
    spender: str = ""
    """For whom, as `spender_of` names them."""
    tone: Tone | None = None
    """How a transcript shows it; None where it shows nothing."""
    head: str = ""
    """The beginning of its line in a transcript."""
    text: str = ""
    """The words of a message, the result of a call, or what happened; whole."""
    is_published: bool = False
    """Whether a message of ours is for people, and not for other agents alone."""
    event: str = ""
    """The id of its first event; "" where it has none."""


_TONES: Final[Mapping[str, Tone]] = {"completion": "agent", "question": "agent", "error": "error"}

_FACTS: Final[dict[type[r.Record], Callable[[Any], tuple[Fact, ...]]]] = {}


def facts_of(record: r.Record) -> tuple[Fact, ...]:
    """What a record says; empty for what only the machinery needs."""
    read = _FACTS.get(type(record))
    return read(record) if read is not None else ()


def add_facts(kind: type[r.Record], read: Callable[[Any], tuple[Fact, ...]]) -> None:
    """Have a class of record say these facts; the classes of a kind of conversation are added beside it.

    Raises:
        ValueError: the class has its facts already.
    """
    if kind in _FACTS:
        raise ValueError(f"the facts of {kind.__name__} are known already")
    _FACTS[kind] = read


R = TypeVar("R", bound=r.Record)


def _on(kind: type[R]) -> Callable[[Callable[[R], Fact]], Callable[[R], Fact]]:
    """Register a function that gives the one fact of a class of record."""

    def register(read: Callable[[R], Fact]) -> Callable[[R], Fact]:
        add_facts(kind, lambda record: (read(record),))
        return read

    return register


def paid(kind: FactKind, outcome: str, record: r.Record, **more: Any) -> Fact:
    """A fact of something that models were paid for."""
    return Fact(kind, outcome, usage=cost_of(record), model=model_of(record), spender=str(spender_of(record)), **more)


def decider_of(record: r.Routed) -> Decider:
    """Who decided; older journals say only whether it was the rule, and otherwise a name."""
    if record.decided_by is not None:
        return record.decided_by
    if record.by == "rule":
        return Decider(kind="rule")
    if record.model or record.usage.calls:
        return Decider(kind="router", name=record.by, model=record.model)
    return person(record.by)


# ---- conversations ---------------------------------------------------------------------------------------------------


@_on(r.ConversationStarted)
def _started(_: r.ConversationStarted) -> Fact:
    return Fact("conversation", "started")


@_on(ConversationForked)
def _forked(record: ConversationForked) -> Fact:
    head = f"fork of {record.origin[:12]}"
    return Fact("conversation", "forked", tone="turn", head=head, text=f"as of its record {record.at_seq}")


@_on(RolledBack)
def _went_back(record: RolledBack) -> Fact:
    text = record.reason or f"{record.by} asked for it"
    return Fact("conversation", "went back", tone="turn", head=f"back to record {record.to}", text=text)


@_on(r.JournalRebuilt)
def _rebuilt(record: r.JournalRebuilt) -> Fact:
    lost = "; ".join(record.missing) or "nothing known"
    head = f"recovered from {record.source}"
    return Fact("conversation", "rebuilt", tone="notice", head=head, text=f"Lost: {lost}")


@_on(r.ConversationImported)
def _imported(_: r.ConversationImported) -> Fact:
    text = "what is above was not written here: it can be read, and decides nothing"
    return Fact("conversation", "imported", tone="notice", head="imported", text=text)


@_on(r.ProcessRestarted)
def _restarted(_: r.ProcessRestarted) -> Fact:
    return Fact("restart", "was", tone="dim", head="restart", text="the daemon goes on with this conversation")


@_on(r.ClockAdjusted)
def _clock_set(record: r.ClockAdjusted) -> Fact:
    way = "on" if record.by > 0 else "back"
    return Fact("clock", "was", tone="dim", head="clock", text=f"it was set {way} by {abs(record.by) // 1000} s")


# ---- users -----------------------------------------------------------------------------------------------------------


@_on(r.MessageRecorded)
def _received(record: r.MessageRecorded) -> Fact:
    return Fact("message", "received", tone="person", head=record.name, text=record.text)


@_on(r.CommandGiven)
def _command(record: r.CommandGiven) -> Fact:
    words = f"/{record.command} {record.argument}".rstrip()
    by = person(record.name, record.author)
    return Fact("command", "given", decider=by, reason=words, tone="person", head=record.name, text=words)


@_on(r.Stopped)
def _stopped(record: r.Stopped) -> Fact:
    return Fact("stop", "asked", decider=person(record.name))


@_on(r.Continued)
def _continued(record: r.Continued) -> Fact:
    return Fact("continue", "asked", decider=person(record.name))


@_on(r.QuestionAnswered)
def _question_answered(record: r.QuestionAnswered) -> Fact:
    text = f"{run_agent(record.run)} goes on"
    return Fact("ask", "answered", run=record.run, call=record.call, tone="dim", head="answered", text=text)


@_on(r.ApprovalRequested)
def _permission_asked(record: r.ApprovalRequested) -> Fact:
    return Fact("permission", "asked", run=record.run)


@_on(r.ApprovalAnswered)
def _permission_answered(record: r.ApprovalAnswered) -> Fact:
    by = f" by {record.name}" if record.name else ""
    return Fact(
        "permission",
        record.outcome,
        run=record.run,
        decider=person(record.name, record.by) if record.name else Decider(kind="rule"),
        reason=record.reason,
        tone="notice",
        head="permission",
        text=f"{ENDINGS[record.outcome]}{by}",
    )


@_on(r.ApprovalWithdrawn)
def _permission_withdrawn(record: r.ApprovalWithdrawn) -> Fact:
    by = person(record.name, record.by)
    text = f"{record.name} has deleted the answer"
    return Fact("permission", "withdrawn", run=record.run, decider=by, tone="notice", head="permission", text=text)


@_on(r.PermissionsRevoked)
def _permission_revoked(record: r.PermissionsRevoked) -> Fact:
    by = person(record.name, record.by)
    return Fact("permission", "revoked", decider=by, tone="notice", head="permission", text=f"revoked by {record.name}")


@_on(r.MessageSent)
def _said(record: r.MessageSent) -> Fact:
    is_shown = record.purpose != "announcement"  # the transition has shown the same already
    return Fact(
        "said",
        record.purpose,
        run=record.run,
        phase=record.phase,
        tone=_TONES.get(record.purpose, "notice") if is_shown else None,
        head=record.name,
        text=record.text,
        is_published=record.is_published,
        event=record.events[0].id if record.events else "",
    )


# ---- cycles, phases, the router --------------------------------------------------------------------------------------


@_on(r.CycleStarted)
def _cycle_began(record: r.CycleStarted) -> Fact:
    return Fact(
        "cycle",
        "began",
        decider=record.decided_by,
        reason=record.reason,
        tone="turn" if record.cycle > 1 else None,
        head=f"cycle {record.cycle}",
        text=record.reason,
    )


@_on(r.Ended)
def _cycle_ended(record: r.Ended) -> Fact:
    by = record.decided_by
    return Fact("cycle", "ended", decider=by, reason=record.reason, tone="end", head="END", text=record.reason)


@_on(r.Waiting)
def _waits(record: r.Waiting) -> Fact:
    return Fact("wait", record.reason, tone="dim", head="waiting", text=waits_for(record.reason))


@_on(r.LimitReached)
def _limit_reached(record: r.LimitReached) -> Fact:
    return Fact("limit", record.limit, decider=Decider(kind="rule"), reason=record.sentence)


@_on(r.PhaseTransition)
def _phase_entered(record: r.PhaseTransition) -> Fact:
    head = f"{PHASES[record.to].icon} {record.from_} → {record.to}"
    return Fact(
        "phase",
        "entered",
        phase=record.to,
        decider=record.decided_by,
        reason=record.reason,
        tone="phase",
        head=head,
        text=record.reason,
    )


@_on(r.Routed)
def _routed(record: r.Routed) -> Fact:
    # a user who mentions an agent decides without the router, which may be in a call at that moment
    outcome = "accepted" if record.usage.calls or record.model else "superseded"
    by = decider_of(record)
    return paid("route", outcome, record, phase=record.phase, agents=record.agents, decider=by, reason=record.reason)


@_on(r.RouteRejected)
def _route_rejected(record: r.RouteRejected) -> Fact:
    return paid(
        "route",
        "rejected" if record.counted else "stale",
        record,
        decider=record.decided_by,
        reason=record.sentence,
        tone="refused",
        head="routing refused",
        text=record.sentence,
    )


# ---- turns, runs, calls ----------------------------------------------------------------------------------------------


@_on(r.TurnOpened)
def _turn_began(record: r.TurnOpened) -> Fact:
    return Fact(
        "turn",
        "began",
        phase=record.phase,
        agents=record.agents,
        decider=record.decided_by,
        reason=record.reason,
        tone="turn",
        head=record.turn_id,
        text=f"{', '.join(record.agents)} — {record.reason}",
    )


@_on(r.TurnClosed)
def _turn_ended(record: r.TurnClosed) -> Fact:
    return Fact("turn", "ended", head=record.turn_id, text=record.summary)


@_on(r.RunStarted)
def _run_began(record: r.RunStarted) -> Fact:
    if record.parent is None:
        return Fact("run", "began", run=record.run, agents=(record.agent,))
    head = f"{run_agent(record.parent)} calls {record.agent}"
    return Fact("run", "called", run=record.run, agents=(record.agent,), tone="tool", head=head)


def _run_ended(record: r.RunEnded) -> tuple[Fact, ...]:
    """The end of the run, and of a last call of its model that gave no answer."""
    is_well = record.outcome == "finished"
    run = Fact(
        "run",
        record.outcome,
        run=record.run,
        reason=record.error,
        tone=None if is_well else "error",
        head=str(run_agent(record.run)),
        text=f"{record.outcome.replace('_', ' ')}: {record.error}",
    )
    if not record.usage.calls:
        return (run,)
    return (run, paid("model", "refused", record, run=record.run))


add_facts(r.RunEnded, _run_ended)


@_on(r.AgentPhaseChanged)
def _agent_phase_entered(record: r.AgentPhaseChanged) -> Fact:
    text = f"{record.source} → {record.target}"
    return Fact("agent phase", "entered", tone="phase", head=record.agent, text=text)


@_on(r.ConditionFailed)
def _condition_failed(record: r.ConditionFailed) -> Fact:
    edge = f"{record.source} → {record.target or 'any'}"
    text = f"a condition of {edge} failed: {record.error}"
    return Fact("agent phase", "failed", tone="error", head=record.agent, text=text)


@_on(r.ModelResponded)
def _model_answered(record: r.ModelResponded) -> Fact:
    return paid("model", "answered", record, run=record.run)


@_on(r.ModelReprompted)
def _model_refused(record: r.ModelReprompted) -> Fact:
    return paid("model", "refused", record, run=record.run, reason=record.text)


@_on(r.ModelCallCancelled)
def _model_cancelled(record: r.ModelCallCancelled) -> Fact:
    return paid("route" if record.run is None else "model", "cancelled", record, run=record.run)


@_on(r.RetryScheduled)
def _model_unavailable(record: r.RetryScheduled) -> Fact:
    kind: FactKind = "route" if record.run is None else "model"
    if record.limit:  # no model was called
        return paid(kind, "postponed", record, run=record.run)
    return paid(
        kind,
        "unavailable",
        record,
        run=record.run,
        reason=record.message,
        tone="dim",
        head="model",
        text=f"{worker_of(record.run)} is tried again: {record.message}",
    )


@_on(r.ToolCallStarted)
def _call_began(record: r.ToolCallStarted) -> Fact:
    return Fact("tool", "began", run=record.run, call=record.call, tool=record.tool, phase=record.phase)


@_on(r.ToolCallCompleted)
def _call_ended(record: r.ToolCallCompleted) -> Fact:
    return _call(record, "ok" if record.ok else "failed", record.content)


@_on(r.ToolCallRejected)
def _call_refused(record: r.ToolCallRejected) -> Fact:
    return _call(record, "refused", record.sentence)


def _call(record: r.ToolCallCompleted | r.ToolCallRejected, outcome: str, result: str) -> Fact:
    return Fact(
        "tool",
        outcome,
        run=record.run,
        call=record.call,
        tool=record.tool,
        tone="tool" if outcome == "ok" else "refused",
        head=f"{run_agent(record.run)} · {record.tool}",
        text=result,
    )
