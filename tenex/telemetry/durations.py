"""Durations: how long things took that the state of a conversation shows as open.

    routed   a user's message -> the routing decision          reply   a user's message -> the first answer
    route    a request to the router -> its answer             turn    opened -> closed, time of users included
    run      an agent's part in a turn                         model   a model step is wanted -> it is answered
    tool     a started call -> its result                      ask     a question to a user -> their answer

What is open after one append and no longer after the next has ended with a record of the latter. Times are those of the
records, so a restart needs nothing else; repeated work starts at `ProcessRestarted`.
"""

from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any, Final, Literal, NamedTuple

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.history.facts import Fact, facts_of
from tenex.core.ids import ConversationId, Millis, RunId, Slug
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.phases import Phase
from tenex.core.projection import run_began
from tenex.core.rollback.whole import RolledBack
from tenex.core.totals.costs import cost_of
from tenex.core.work.run import Call, Run

Stage = Literal["routed", "reply", "route", "turn", "run", "model", "tool", "ask"]

WAITS: Final[tuple[Stage, ...]] = ("routed", "reply")
"""What a user waits for; the state does not show it."""

REPEATED: Final[tuple[Stage, ...]] = ("route", "model", "tool")
"""What a process begins again after a restart."""

FOLLOWED: Final = 10_000
"""Conversations followed at a time, about 100 MB; the one without a record for longest is evicted."""

WORST: Final = ("stopped", "over_limit", "timed_out", "failed")
"""Outcomes of runs, the one that names the outcome of their turn first."""


class Interval(NamedTuple):
    """Something that is open or, with `ending`, has ended."""

    stage: Stage
    key: str
    """Unique in its conversation, and the same after a restart."""
    conversation: ConversationId
    cycle: int
    phase: Phase
    began: Millis
    parent: str = ""
    """The key of its parent: a turn for a run, a run for its calls, a call for a sub-agent's run."""
    agent: Slug = Slug("")
    """Whose run it is or belongs to; empty for turns and the router."""
    owner: RunId | None = None
    """That run."""
    usage: Usage = NO_USAGE
    """Of model calls, and of runs."""
    run: Run | None = None
    """Of a run, what it was before its end, if that is in memory."""
    call: Call | None = None
    """The call of a tool or a question."""
    ended: Millis = Millis(0)
    outcome: str = ""
    """route: accepted, rejected, unavailable, superseded, stopped. model: answered, refused, unavailable, timed_out,
    stopped. tool: ok, failed. ask: answered, closed. run and turn: finished, failed, timed_out, over_limit,
    stopped. Else empty."""
    ending: r.Record | None = None
    """The record that ended it."""

    @property
    def seconds(self) -> float:
        """The duration; 0 if the clock was set back."""
        return max(0, self.ended - self.began) / 1000

    @property
    def tool(self) -> str:
        """The tool that was called."""
        return "" if self.call is None else self.call.request.tool


Open = dict[tuple[Stage, str], Interval]
"""What is open in a conversation, by stage and key, a parent before its parts."""

Parts = tuple[object, object, object]
"""The parts of the state that show what is open: if none has been replaced, nothing has changed."""

_OF_RUNS: Final = frozenset({r.ModelResponded, r.ToolCallStarted, r.ToolCallCompleted, r.RunStarted, r.RunEnded})
"""The most frequent records, which are about no message of a user: they are skipped early."""

UNKNOWN: Final[Parts] = (None, None, None)


class Intervals:
    """Follows all active conversations."""

    def __init__(self) -> None:
        self._followed: dict[ConversationId, tuple[Open, Parts]] = {}

    def __len__(self) -> int:
        """The number of conversations with open work."""
        return len(self._followed)

    def on_records(self, c: Conversation, records: Sequence[r.Record]) -> list[Interval]:
        """Return what ended with these records; `c` is the state after them.

        Nothing can end with the first records of a conversation that was not followed (after a restart, an eviction).
        """
        known, before = self._followed.pop(c.id, ({}, UNKNOWN))
        found = list(_follow(known, c, records))
        parts: Parts = (
            c.work.runs,
            c.work.turn,
            c.router.question,
        )  # whatever changes in these is replaced by another value
        if not all(map(is_, parts, before)):
            now = _open_work(known, c, records)
            gone = [known[name] for name in reversed(known) if name not in now]
            found += filter(None, (_ended(interval, c, records) for interval in gone))
            known = now
            if c.work.asks and c.work.is_parked:  # its state may leave memory: keep none of it
                known = {name: one._replace(run=None) for name, one in now.items()}
                parts = UNKNOWN
        if known:
            self._followed[c.id] = known, parts
            if len(self._followed) > FOLLOWED:
                del self._followed[next(iter(self._followed))]
        return found


def _follow(known: Open, c: Conversation, records: Sequence[r.Record]) -> Iterator[Interval]:
    """Begin and end waits of users, and begin repeated work again."""
    for record in records:
        if type(record) in _OF_RUNS:
            continue
        answered: Stage | None = None
        match record:
            case r.ProcessRestarted() | r.ClockAdjusted():  # no duration mixes two clocks
                again = REPEATED if isinstance(record, r.ProcessRestarted) else REPEATED + WAITS
                known |= {name: one._replace(began=record.at) for name, one in known.items() if one.stage in again}
            case r.MessageRecorded():
                for wait in WAITS:
                    began = Interval(wait, f"{wait} {record.seq}", c.id, c.cycle.number, c.cycle.phase, record.at)
                    known.setdefault((wait, ""), began)
            case r.Waiting() | r.Ended() | RolledBack():
                for name in [name for name in known if name[0] in WAITS]:
                    del known[name]
            case r.Routed():
                answered = "routed"
            case r.MessageSent(purpose="completion" | "question" | "error", is_published=True):
                answered = "reply"
        if answered is not None and (answered, "") in known:
            one = known.pop((answered, ""))
            yield one._replace(ended=max(one.began, record.at), ending=record)


def _open_work(known: Open, c: Conversation, records: Sequence[r.Record]) -> Open:
    """What is open in the state, and the waits; what is `known` keeps its beginning."""
    times: dict[object, Millis] = {}
    for record in records:
        times[record.seq] = record.at
        if isinstance(record, r.RunStarted):
            times[record.run] = record.at
    now = {name: one for name, one in known.items() if name[0] in WAITS}

    def add(stage: Stage, key: str, since: object, otherwise: Millis | None, parent: str = "", *run: Any) -> None:
        """Add what began with the record `since`, or at `otherwise` if that was written earlier."""
        before = known.get((stage, key))
        began = times.get(since, otherwise or c.identity.updated_at) if before is None else before.began
        now[stage, key] = Interval(stage, key, c.id, c.cycle.number, c.cycle.phase, began, parent, *run)

    if c.work.turn is not None:
        add("turn", c.work.turn.turn_id, c.work.turn.seq, c.work.turn.timestamp)
    for run in c.work.runs.values():
        parent = run.id.partition(".")[0] if run.parent is None else f"{run.parent} {run.call}"
        who = run.agent, run.id
        add("run", run.id, run.id, run_began(c, run), parent, *who, run.usage, run)
        if run.wants is not None:
            add("model", f"{run.id} {run.wants}", run.wants, None, run.id, *who)
        for call in run.open_calls:
            if call.waits_for_user:
                add("ask", f"{run.id} {call.request.id}", call.seq, run.parked_at, run.id, *who, NO_USAGE, None, call)
            elif call.has_begun:
                add("tool", f"{run.id} {call.request.id}", call.seq, None, run.id, *who, NO_USAGE, None, call)
    if c.router.question is not None and c.router.question.retry is None:
        add("route", f"route {c.router.question.seq}", c.router.question.seq, None)
    return now


def _ended(one: Interval, c: Conversation, records: Sequence[r.Record]) -> Interval | None:
    """The interval with its end; None if no record ended it, as after a rollback."""
    run = one.owner
    call = one.call and one.call.request.id
    own = [rec for rec in records if getattr(rec, "run", None) == run and getattr(rec, "call", call) == call]
    for record in own:
        outcome = next(filter(None, (_outcome(one.stage, fact, c) for fact in facts_of(record))), None)
        if outcome is None:
            continue
        usage = cost_of(record)
        if one.stage == "run":
            paid = (cost_of(each) for each in own if not isinstance(each, r.ModelCallCancelled))
            usage = sum(paid, one.usage)
        return one._replace(ended=max(one.began, record.at), outcome=outcome, usage=usage, ending=record)
    return None


def _outcome(stage: Stage, fact: Fact, c: Conversation) -> str | None:
    """How a fact ended work of this stage that its record names; None if it did not."""
    match stage, fact.kind, fact.outcome:
        case "route", "route", "stale":
            return "rejected"
        case ("route", "route", outcome) | ("model", "model", outcome) if outcome not in ("postponed", "cancelled"):
            return outcome
        case "route", "stop", _:
            return "stopped"
        case "tool", "tool", "refused":
            return "failed"
        case "tool", "tool", ("ok" | "failed") as outcome:
            return outcome
        case "ask", "tool", "ok" | "failed" | "refused":
            return "closed"
        case ("ask", "ask", "answered") | ("ask", "permission", "yes" | "no" | "expired" | "unattended"):
            return "answered"
        case "model", "run", "failed":
            return "refused"
        case "model" | "run", "run", outcome if outcome not in ("began", "called"):
            return outcome
        case "turn", "turn", "ended":
            turn = next((turn for turn in reversed(c.cycle.turns) if turn.turn_id == fact.head), None)
            outcomes = {done.outcome for done in turn.completions} if turn is not None else ()
            return next((outcome for outcome in WORST if outcome in outcomes), "finished")
    return None
