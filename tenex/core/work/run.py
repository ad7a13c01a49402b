"""A run as a value: one agent's work in one turn, and what each fact does to it.

A run is in exactly one of these states, all derived from its fields:

    wants a model step ──ModelResponded──► has calls ──all done──► wants a model step ...
         ▲    │
         │    └──RetryScheduled──► waits ──RetryDue──┐
         └───────────────────────────────────────────┘
    RunEnded closes it from anywhere.

A call waits its turn, is permitted, parked (ask), unapproved (a person may allow it), queued (a sub-agent is busy),
linked (one works at it), or done.

Its deadline counts its work: not the time it waits for a user, a sub-agent, another try, or a busy provider.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from tenex.core.config import Replay
from tenex.core.ids import CallId, Millis, PublicKey, RunId, Slug
from tenex.core.messages import NO_USAGE, CallRequest, CallResult, Entry, ModelStep, Note, Usage, UserText, cut
from tenex.core.phases import Phase
from tenex.core.values import replace

from .records import ModelReprompted, RetryScheduled

MODELS: Final = 8
"""Names of models by which the costs of a run are kept apart."""
MODEL_CHARACTERS: Final = 100
OTHER_MODELS: Final = "others"
ASK: Final = "ask"
"""The tool that asks a person and does nothing else."""
CALLS_KEPT = 30
"""Calls that are remembered of a run that was not finished, the newest."""
ARGUMENTS: Final = 120
"""Characters of a call's arguments."""
CALL_LINE: Final = 240
"""Characters of the line of a call."""
CALL_READ: Final = 600
"""Characters that are read for the line of a call."""


def choices_of(request: CallRequest) -> tuple[str, ...]:
    """What a call of `ask` gives a person to choose from; () for every other tool."""
    options = request.arguments.get("options") if request.tool == ASK else None
    return tuple(str(option) for option in options) if isinstance(options, list) else ()


class CallState(StrEnum):
    """How far a call has come."""

    ASKED = "asked"
    PERMITTED = "permitted"
    PARKED = "parked"
    UNAPPROVED = "unapproved"
    QUEUED = "queued"
    LINKED = "linked"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call of the current step."""

    request: CallRequest
    state: CallState = CallState.ASKED
    seq: int = 0
    """Of the record that permitted, parked or linked it."""
    replay: Replay = Replay.ONCE
    result: CallResult | None = None
    began: int | None = None
    """`Totals.working` when it was let through; for readers."""
    asked_of: PublicKey = PublicKey("")
    """Of a question: who was asked; "" in older journals, for who began the cycle."""
    approved: str = ""
    """The digest of the call that a person has allowed (`core/approvals`); "" where no one was asked."""
    question: str = ""
    """What its tool asks a person while it is parked, where that is not `ask`, whose question is an argument."""
    asked_at: Millis = Millis(0)
    """When a person was asked that."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The files of the workspace that it names, with their digests as they were looked at last."""
    changed: tuple[str, ...] = ()
    """Those of them that changed after a person had been asked about it."""
    unchanged: Mapping[str, str] | None = None
    """The digests that its files must have when it begins; None where nobody was asked about them."""
    form: Mapping[str, Any] = field(default_factory=dict)
    """The fields of that question (`core.forms`)."""

    @property
    def has_begun(self) -> bool:
        """Whether it was let through: not one that waits its turn, or for a sub-agent who is busy."""
        return self.state not in (CallState.ASKED, CallState.QUEUED)

    @property
    def waits_for_user(self) -> bool:
        """Whether a user has to answer it, or to allow it."""
        return self.state in (CallState.PARKED, CallState.UNAPPROVED)

    @property
    def waits_for_subagent(self) -> bool:
        """Whether a sub-agent works at it, or will when they are free."""
        return self.state in (CallState.QUEUED, CallState.LINKED)


class Wait(Protocol):
    """A wait before another try, of a model call or of the work of a kind."""

    @property
    def message(self) -> str:
        """Why the last try failed."""

    @property
    def limit(self) -> str:
        """The limit of a day that is waited for; "" for none."""

    @property
    def on_hold(self) -> bool:
        """Whether it is more than the time between two tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A wait before the next try of a model call."""

    seq: int
    attempt: int
    due: Millis
    on_hold: bool
    since: Millis
    message: str = ""
    """Why the last try failed."""
    limit: str = ""
    """The limit of a day that is waited for."""
    needs_operator: bool = False
    """It waits until somebody has acted."""

    def shifted(self, by: int) -> "Retry":
        """The clock was set by so many ms."""
        return replace(self, due=Millis(self.due + by), since=Millis(self.since + by))

    @classmethod
    def of(cls, record: RetryScheduled) -> "Retry":
        """The wait a record began."""
        return cls(
            seq=record.seq,
            attempt=record.attempt,
            due=record.due,
            on_hold=record.on_hold,
            since=record.at,
            message=record.message,
            limit=record.limit,
            needs_operator=record.needs_operator,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One agent's work in one turn, while it is open.

    `parent` and `call` are the run that called it and the call that did, None for an agent of the turn.
    """

    id: RunId
    agent: Slug
    name: str
    pubkey: PublicKey
    phase: Phase
    system: str
    entries: tuple[Entry, ...]
    calls: tuple[Call, ...] = ()
    wants: int | None = None
    """The seq of the record that made a model step wanted."""
    attempt: int = 0
    """Tries of the current model call that failed in transport."""
    outage_reported: bool = False
    """Whether the user was informed that its model cannot be reached."""
    retry: Retry | None = None
    urgent: int = 0
    """The newest `wants` that a user asked for: that call goes through a pause of its provider."""
    warn_at: Millis
    close_at: Millis
    armed: int
    """The seq of the record that set the deadlines."""
    warned: bool = False
    parked_at: Millis | None = None
    """Since when it has waited for a user or a sub-agent."""
    steps: int = 0
    reprompts: int = 0
    unseen: tuple[UserText, ...] = ()
    received: int = 0
    """The seq of the newest message that has reached the run."""
    shown: int = 0
    """The seq of the newest message its model has been shown."""
    read: Mapping[str, str] = field(default_factory=dict)
    usage: Usage = NO_USAGE
    model: str = ""
    failed_edges: frozenset[tuple[str, str]] = frozenset()
    """Edges of the agent's own graph, as (source, target), whose condition raised: each is reported once."""
    changed: int = 0
    """The place in `entries` of the step that last changed something: files by a call not made before, or its state."""
    is_stale: bool = False
    """Whether its agent's state has changed since its prompt was rendered."""
    parent: RunId | None = None
    call: CallId | None = None
    is_shared: bool = False
    started: Millis = Millis(0)
    """This and what follows are for readers."""
    budget: int = 0
    """ms from its start to its first deadline: that moves by what is no work."""
    models: Mapping[str, Usage] = field(default_factory=dict)
    """What its calls have cost by model, cancelled ones included."""
    call_count: int = 0
    """Calls that have their result."""
    refused: tuple[str, ...] = ()
    """The digests of calls that were not allowed: none is asked about again."""
    refusals: int = 0
    """Requests to a person that went without a yes."""
    background: Mapping[str, str] = field(default_factory=dict)
    """Its commands that went on in the background after the last call that knew of them, by their ids."""

    @property
    def state_key(self) -> str:
        """The key of its agent's state: the agent's own, or the run's where each call begins again."""
        return self.agent if self.parent is None or self.is_shared else self.id

    @property
    def open_calls(self) -> tuple[Call, ...]:
        """The calls that have no result yet, in the model's order."""
        return tuple(call for call in self.calls if call.state is not CallState.DONE)

    @property
    def is_parked(self) -> bool:
        """Whether nothing of it can go on before a user has answered."""
        return self.has_parked and all(call.state is not CallState.PERMITTED for call in self.calls)

    @property
    def is_held(self) -> bool:
        """Whether it waits for a model that cannot be reached, and the user knows."""
        return self.retry is not None and self.retry.on_hold and not self.retry.limit

    @property
    def has_parked(self) -> bool:
        """Whether a user has to answer a question of its, or to allow a call."""
        return any(call.waits_for_user for call in self.calls)

    @property
    def has_question(self) -> bool:
        """Whether a question of its is open."""
        return any(call.state is CallState.PARKED for call in self.calls)

    @property
    def has_linked(self) -> bool:
        """Whether a sub-agent works at a call of its, or will when they are free."""
        return any(call.waits_for_subagent for call in self.calls)

    @property
    def is_waiting(self) -> bool:
        """Whether it can do nothing itself before a user or a sub-agent has answered: its deadline is suspended."""
        waits = self.has_parked or self.has_linked
        return waits and all(call.state is not CallState.PERMITTED for call in self.calls)

    def called(self) -> tuple[str, ...]:
        """Its newest calls in a line each, with how they ended where that was not well."""
        results = {entry.id: entry for entry in self.entries if isinstance(entry, CallResult)}
        requests = [call for entry in self.entries if isinstance(entry, ModelStep) for call in entry.calls]
        lines = []
        for request in requests:
            result = results.get(request.id)
            if result is None:
                ended = " was cut off"
            elif result.ok:
                ended = ""
            else:
                ended = f" failed: {result.content}"
            arguments = ", ".join(f"{name}={str(value)[:ARGUMENTS]}" for name, value in request.arguments.items())
            line = f"{request.tool}({cut(arguments, ARGUMENTS)}){ended}"
            lines.append(cut(" ".join(line[:CALL_READ].split()), CALL_LINE))

        left = len(lines) - CALLS_KEPT
        return (f"({left} calls before these)", *lines[-CALLS_KEPT:]) if left > 0 else tuple(lines)

    def find(self, call: CallId) -> Call | None:
        """The open call of that id."""
        return next((other for other in self.open_calls if other.request.id == call), None)

    def tool_of(self, call: CallId) -> str:
        """The tool of an open call that asks a person; `ask` where it is not known."""
        asking = self.find(call)
        return asking.request.tool if asking is not None else ASK

    def answered_call(self, call: CallId) -> CallRequest | None:
        """The call whose question was answered with this id, while no call like it has been made since; else None."""
        requests = [request for entry in self.entries if isinstance(entry, ModelStep) for request in entry.calls]
        asked = next((request for request in requests if request.id == call), None)
        results = [entry for entry in self.entries if isinstance(entry, CallResult)]
        results += [other.result for other in self.calls if other.result is not None]
        is_answered = any(result.id == call and result.question for result in results)
        if asked is None or not is_answered:
            return None

        waiting = {other.request.id for other in self.calls if not other.has_begun}
        for later in requests[requests.index(asked) + 1 :]:
            is_same = later.tool == asked.tool and later.arguments == asked.arguments
            if is_same and later.id not in waiting:
                return None
        return asked

    def receives(self, text: UserText, seq: int) -> "Run":
        """A user wrote while it works: it will see that before its next step."""
        return replace(self, unseen=(*self.unseen, text), received=seq)

    def without_unseen(self, text: str, key: str) -> "Run":
        """A text that it has not been shown was deleted by its author."""
        unseen = tuple(note for note in self.unseen if (note.text, note.key) != (text, key))
        return self if len(unseen) == len(self.unseen) else replace(self, unseen=unseen)

    def stepped(self, step: ModelStep, seq: int, files: Sequence[Mapping[str, str]] = ()) -> "Run":
        """Its model answered; the calls, if any, wait for the gate. `files` are those that each of them names."""
        calls: list[Call] = []
        for place, request in enumerate(step.calls):
            named = files[place] if place < len(files) else {}
            calls.append(Call(request=request, files=named))
        return replace(
            self.delayed(step.queued, seq),
            entries=(*self.entries, step),
            calls=tuple(calls),
            wants=None,
            retry=None,
            attempt=0,
            outage_reported=False,
            steps=self.steps + 1,
            usage=self.usage + step.usage,
            model=step.model or self.model,
            models=paid_by_model(self.models, step.model, step.usage),
        )

    def permitted(
        self,
        call: CallId,
        seq: int,
        replay: Replay,
        at: Millis,
        began: int,
        unchanged: Mapping[str, str] | None = None,
    ) -> "Run":
        """The gate let a call through; one who waited until now is given the time back."""
        run = self.resumed(at, seq) if self.is_waiting else self
        return run._with(call, state=CallState.PERMITTED, seq=seq, replay=replay, began=began, unchanged=unchanged)

    def outdated(self, call: CallId, files: Mapping[str, str], changed: tuple[str, ...]) -> "Run":
        """Files that a call names are others than a person was asked about: it has not begun, and waits its turn."""
        return self._with(
            call, state=CallState.ASKED, approved="", files=files, changed=changed, unchanged=None, began=None
        )

    def suspended(self, call: CallId, state: CallState, seq: int, at: Millis, began: int | None = None) -> "Run":
        """A call waits: for a user (parked), for a sub-agent who is busy (queued) or works at it (linked)."""
        run = self._with(call, state=state, seq=seq, began=began)
        return replace(run, parked_at=run.parked_at if run.parked_at is not None else at)

    def parked(
        self, call: CallId, seq: int, at: Millis, asked_of: PublicKey, question: str, form: Mapping[str, Any]
    ) -> "Run":
        """A call waits for the answer of a user."""
        run = self.suspended(call, CallState.PARKED, seq, at)._with(call, asked_of=asked_of)
        return run if self.tool_of(call) == ASK else run._with(call, question=question, asked_at=at, form=form)

    def asking(self, calls: Mapping[CallId, Replay], seq: int, at: Millis) -> "Run":
        """Calls wait until a person allows them."""
        run = self
        for call, replay in calls.items():
            run = run.suspended(call, CallState.UNAPPROVED, seq, at)._with(call, replay=replay)
        return run

    def allowed(self, calls: Mapping[CallId, str]) -> "Run":
        """A person has allowed calls, by their digests: they wait their turn again."""
        run = self
        for call, digest in calls.items():
            run = run._with(call, state=CallState.ASKED, approved=digest)
        return run

    def not_allowed(self, digests: tuple[str, ...], *, is_whole: bool) -> "Run":
        """No one has allowed calls: they wait for their result; `is_whole` if their request got no yes at all."""
        refused = tuple(dict.fromkeys((*self.refused, *digests)))
        return replace(self, refused=refused, refusals=self.refusals + is_whole)

    def resumed(self, at: Millis, seq: int) -> "Run":
        """A sub-agent it waited for is done: its deadlines are later by the wait, and its clock runs again."""
        waited = at - self.parked_at if self.parked_at is not None else 0
        return replace(self.delayed(waited, seq), parked_at=at if self.has_parked or self.has_linked else None)

    def progressed(self) -> "Run":
        """Its newest step changed something."""
        return replace(self, changed=max(0, len(self.entries) - 1))

    def returned(self, result: CallResult, seq: int) -> "Run":
        """A call has its result; after the last one the model is wanted again."""
        run = replace(self._with(result.id, state=CallState.DONE, result=result), call_count=self.call_count + 1)
        return run if run.open_calls else run.wanting(seq)

    def corrected(self, call: CallId, content: str) -> "Run":
        """A call whose question was answered has another answer."""

        def corrected(result: CallResult) -> CallResult:
            return replace(result, content=content) if result.id == call else result

        return replace(
            self,
            entries=tuple(corrected(entry) if isinstance(entry, CallResult) else entry for entry in self.entries),
            calls=tuple(replace(other, result=other.result and corrected(other.result)) for other in self.calls),
        )

    def wanting(self, seq: int) -> "Run":
        """A model step is wanted: the results, in the order of the calls, and what users wrote, are shown now."""
        results = tuple(call.result for call in self.calls if call.result is not None)
        return replace(
            self,
            entries=(*self.entries, *results, *self.unseen),
            calls=(),
            unseen=(),
            shown=max(self.shown, self.received),
            wants=seq,
            retry=None,
        )

    def nudged(self, record: ModelReprompted) -> "Run":
        """Its model reads what was missing, after the results of the calls it made."""
        run = self.delayed(record.queued, record.seq).wanting(record.seq).spent(record.usage, record.model)
        note = Note(title="Reminder", text=record.text)
        return replace(run, entries=(*run.entries, note), reprompts=run.reprompts + 1, attempt=0, outage_reported=False)

    def retrying(self, record: RetryScheduled) -> "Run":
        """Its model call waits."""
        run = self.moved(record.queued).spent(record.usage, record.model)
        reported = self.outage_reported or (record.on_hold and not record.limit)
        return replace(run, wants=None, retry=Retry.of(record), attempt=record.attempt, outage_reported=reported)

    def spent(self, usage: Usage, model: str) -> "Run":
        """A call that gave no step cost something all the same."""
        if not usage.calls:
            return self
        paid = self.paid(usage, model)
        return replace(paid, usage=self.usage + usage, model=model or self.model)

    def paid(self, usage: Usage, model: str) -> "Run":
        """A call cost something that counts against no limit of the run."""
        return replace(self, models=paid_by_model(self.models, model, usage)) if usage.calls else self

    def worked(self, at: Millis) -> int:
        """The ms it has worked until now: without the time it waited for a user, a sub-agent or a busy provider."""
        waits = at - self.parked_at if self.parked_at is not None else 0
        return max(0, self.budget - (self.close_at - at) - waits) if self.budget else 0

    def moved(self, by: int) -> "Run":
        """Its deadlines are this many ms later."""
        return replace(self, warn_at=Millis(self.warn_at + by), close_at=Millis(self.close_at + by))

    def shifted(self, by: int) -> "Run":
        """The clock was set: every time that it waits for, or counts from, is this many ms later."""
        parked_at = None if self.parked_at is None else Millis(self.parked_at + by)
        return replace(self.moved(by), parked_at=parked_at, retry=self.retry and self.retry.shifted(by))

    def clock_set(self, by: int) -> "Run":
        """The clock was set: also the answers of users are dated by the new one."""
        calls = tuple(
            replace(call, asked_at=Millis(call.asked_at + by)) if call.asked_at else call for call in self.calls
        )
        return replace(self.shifted(by), calls=calls)

    def spared(self, by: int) -> "Run":
        """No process ran for so many ms: its deadlines are later, and a wait has been that much shorter."""
        shifted = self.shifted(by)
        return replace(shifted, retry=shifted.retry and self.retry and replace(shifted.retry, due=self.retry.due))

    def delayed(self, by: int, seq: int) -> "Run":
        """Its deadlines are later by a wait that is over; the timers that run are replaced."""
        return replace(self.moved(by), armed=seq) if by > 0 else self

    def answered(self, seq: int, warn_at: Millis, close_at: Millis) -> "Run":
        """The user answered: the clock runs again."""
        return replace(self, warn_at=warn_at, close_at=close_at, armed=seq, parked_at=None)

    def _with(self, call: CallId, **changes: Any) -> "Run":
        """The run with these changes of its open call of that id."""
        calls: list[Call] = []
        for other in self.calls:
            is_meant = other.request.id == call and other.state is not CallState.DONE
            calls.append(replace(other, **changes) if is_meant else other)
        return replace(self, calls=tuple(calls))


def paid_by_model(models: Mapping[str, Usage], model: str, usage: Usage) -> Mapping[str, Usage]:
    """The sums by model with one more; beyond `MODELS` names, which a server may make up, they are added to one."""
    if not usage.calls:
        return models
    name = model[:MODEL_CHARACTERS]
    if name not in models and len(models) >= MODELS:
        name = OTHER_MODELS
    return {**models, name: models.get(name, NO_USAGE) + usage}
