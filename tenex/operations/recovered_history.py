"""Reads what a readable file shows of a conversation's past: transitions, turns, runs, calls, decisions and cycles.

It comes back as values that only readers are shown, marked with the file they are from: no gate is met, waived or
approved by them. An entry that cannot be understood is named among what is lost; texts are cut. (ADR 51.)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from tenex.core.cycle.records import PhaseTransition
from tenex.core.decider import Decider, DeciderKind
from tenex.core.history.state import (
    BLOCK,
    CYCLE_CHECKS,
    CYCLE_PATHS,
    PATHS,
    CallOutcome,
    CallSummary,
    CycleSummary,
    DecisionKind,
    DecisionSummary,
    History,
    HistoryRecovered,
    MessagePlace,
    RunSummary,
    cut_arguments,
)
from tenex.core.ids import CallId, EventId, Millis, PublicKey, RunId, Slug, TurnId
from tenex.core.messages import Usage, cut
from tenex.core.phases import Phase
from tenex.core.records import Outcome, Record, WorkVerdict
from tenex.core.state import State
from tenex.core.work.evidence import RAN
from tenex.core.work.run import MODELS
from tenex.core.work.turn import Completion, OrchestratorTurn, ProgramRun
from tenex.nostr.threading.base import is_hex64
from tenex.store.view_reader import entries

TEXT_CHARACTERS: Final = 8_000
NAME_CHARACTERS: Final = 200
AGENTS: Final = 50
"""Of a turn."""
MOST: Final = 2**53
"""Of a count."""

M = TypeVar("M", bound="_Entry")
_TIME: Final = TypeAdapter(datetime)


def _millis(value: Any) -> Any:
    """Milliseconds since 1970 of ISO 8601, or of a number of seconds or ms."""
    return round(_TIME.validate_python(value).timestamp() * 1000)


def _phase(value: Any) -> Any:
    return (Phase.parse(value) if isinstance(value, str) else None) or value


Time = Annotated[int, BeforeValidator(_millis)]
Words = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
Text = Annotated[Words, AfterValidator(lambda value: cut(value, TEXT_CHARACTERS))]
Name = Annotated[Words, AfterValidator(lambda value: value[:NAME_CHARACTERS])]
Key = Annotated[Words, AfterValidator(lambda value: value if is_hex64(value) else "")]
Count = Annotated[int, Field(ge=0, le=MOST)]
Paths = Annotated[list[Name], BeforeValidator(lambda value: value or []), AfterValidator(lambda paths: paths[:PATHS])]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="ignore", alias_generator=to_camel)


class _Usage(_Entry):
    calls: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_usd: Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)] | None = None
    estimated_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0

    def value(self) -> Usage:
        return Usage(
            calls=self.calls,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost_usd=self.cost_usd,
            estimated=self.estimated_tokens,
            cache_read_tokens=self.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens,
        )


Models = Annotated[dict[Name, _Usage], BeforeValidator(lambda value: value or {})]


def _costs(models: Mapping[str, _Usage]) -> dict[str, Usage]:
    return {name: usage.value() for name, usage in list(models.items())[:MODELS]}


class _Decider(_Entry):
    kind: DeciderKind
    name: Name = ""
    pubkey: Key = ""
    model: Name = ""


def _by(decider: _Decider | None) -> Decider | None:
    if decider is None:
        return None
    return Decider(kind=decider.kind, name=decider.name, pubkey=PublicKey(decider.pubkey), model=decider.model)


class _Transition(_Entry):
    from_: Annotated[Phase, BeforeValidator(_phase)] = Field(alias="from")
    to: Annotated[Phase, BeforeValidator(_phase)]
    time: Time | None = None
    timestamp: Time
    """ms; small numbers could be seconds, so that `time` counts where it is there."""
    message: Text = ""
    cycle: Count = 0
    decided_by: _Decider | None = None
    agent_pubkey: Key = ""
    agent_name: Name = ""
    reason: Text = ""
    summary: Text = ""
    request: Name = ""

    def value(self, source: str) -> PhaseTransition:
        at = Millis(self.time if self.time is not None else self.timestamp)
        return PhaseTransition(
            seq=0,
            at=at,
            from_=self.from_,
            to=self.to,
            message=self.message,
            agent_pubkey=PublicKey(self.agent_pubkey),
            agent_name=self.agent_name,
            reason=self.reason,
            summary=self.summary,
            decided_by=_by(self.decided_by),
            cycle=self.cycle,
            request=EventId(self.request),
            source=source,
        )


class _Completion(_Entry):
    agent: Name
    outcome: Annotated[str, BeforeValidator(lambda value: value if value in get_args(Outcome) else "finished")] = (
        "finished"
    )
    text: Text = ""
    message: Text = ""
    """Of an older program."""
    summary: Text = ""
    verdict: WorkVerdict = ""
    untried: Text = ""
    error: Text = ""
    time: Time | None = None
    timestamp: Time | None = None

    def value(self, at: int) -> Completion:
        outcome: Outcome = TypeAdapter(Outcome).validate_python(self.outcome)
        return Completion(
            agent=Slug(self.agent),
            outcome=outcome,
            text=self.text or self.message,
            summary=self.summary,
            verdict=self.verdict,
            untried=self.untried,
            error=self.error,
            at=Millis(self.time or self.timestamp or at),
        )


class _ProgramRun(_Entry):
    agent: Name
    command: Text = ""
    exit_status: int | None = 0

    def value(self) -> ProgramRun:
        """The run for readers."""
        return ProgramRun(agent=Slug(self.agent), command=self.command, status=self.exit_status or 0)


class _Turn(_Entry):
    turn_id: Name = ""
    time: Time | None = None
    timestamp: Time | None = None
    phase: Annotated[Phase, BeforeValidator(_phase)]
    agents: list[Name] = []
    reason: Text = ""
    completions: list[_Completion] = []
    is_completed: bool = False
    cycle: Count = 0
    decided_by: _Decider | None = None
    models: Models = {}
    working_ms: Count | None = None
    changed_files: Paths = []
    ran: list[_ProgramRun] = []

    def value(self, source: str) -> OrchestratorTurn:
        times = [done.time or done.timestamp for done in self.completions]
        at = self.time or self.timestamp or min((time for time in times if time), default=0)
        return OrchestratorTurn(
            turn_id=TurnId(self.turn_id),
            seq=0,
            timestamp=Millis(at),
            phase=self.phase,
            agents=tuple(map(Slug, (self.agents or [done.agent for done in self.completions])[:AGENTS])),
            reason=self.reason,
            completions=tuple(done.value(at) for done in self.completions[:AGENTS]),
            is_completed=self.is_completed,
            cycle=self.cycle,
            decided_by=_by(self.decided_by),
            models=_costs(self.models),
            working=self.working_ms,
            changed=tuple(self.changed_files),
            ran=tuple(one.value() for one in self.ran[:RAN] if one.exit_status is not None),
            source=source,
        )


class _Run(_Entry):
    cycle: Count = 0
    run: Name
    agent: Name
    name: Name = ""
    pubkey: Key = ""
    called_by: Name | None = None
    started_at: Time | None = None
    ended_at: Time
    working_ms: Count = 0
    outcome: Outcome
    error: Text = ""
    steps: Count = 0
    tool_calls: Count = 0
    models: Models = {}

    def value(self, source: str) -> RunSummary:
        return RunSummary(
            cycle=self.cycle,
            run=RunId(self.run),
            agent=Slug(self.agent),
            name=self.name,
            pubkey=PublicKey(self.pubkey),
            started=Millis(self.started_at or 0),
            ended=Millis(self.ended_at),
            working=self.working_ms,
            outcome=self.outcome,
            error=self.error,
            steps=self.steps,
            calls=self.tool_calls,
            models=_costs(self.models),
            caller=RunId(self.called_by) if self.called_by else None,
            source=source,
        )


class _Call(_Entry):
    time: Time
    cycle: Count = 0
    run: Name
    call: Name
    tool: Name
    arguments: dict[str, Any] = {}
    outcome: CallOutcome
    exit_status: Annotated[int, Field(ge=-MOST, le=MOST)] | None = None
    result: Text = ""
    working_ms: Count | None = None
    waited_ms: Count | None = None
    changed_files: Paths = []
    reverted_files: Paths = []

    def value(self, source: str) -> CallSummary:
        return CallSummary(
            seq=0,
            at=Millis(self.time),
            cycle=self.cycle,
            run=RunId(self.run),
            call=CallId(self.call),
            tool=self.tool,
            arguments=cut_arguments(self.arguments),
            outcome=self.outcome,
            exit_status=self.exit_status,
            result=self.result,
            duration=self.working_ms,
            waited=self.waited_ms,
            changed=tuple(self.changed_files),
            reverted=tuple(self.reverted_files),
            source=source,
        )


class _Decision(_Entry):
    time: Time
    cycle: Count = 0
    kind: DecisionKind
    by: _Decider | None = None
    agents: list[Name] = []
    phase: Name = ""
    reason: Text = ""
    refused_answer: Text = ""
    usage: _Usage = _Usage()

    def value(self, source: str) -> DecisionSummary:
        by = _by(self.by)
        return DecisionSummary(
            seq=0,
            at=Millis(self.time),
            cycle=self.cycle,
            kind=self.kind,
            by=by,
            reason=self.reason,
            agents=tuple(self.agents[:AGENTS]),
            phase=self.phase,
            answer=self.refused_answer,
            model=by.model if by is not None else "",
            usage=self.usage.value(),
            source=source,
        )


class _Cycle(_Entry):
    cycle: Count
    started_at: Time | None = None
    started_because: Text = ""
    started_by: _Decider | None = None
    ended_at: Time | None = None
    ended_because: Text = ""
    ended_by: _Decider | None = None
    working_ms: Count = 0
    turns: Count = 0
    usage: _Usage = _Usage()
    changed_files: list[Name] = []
    changed_files_count: Count = 0
    checks: list[Text] = []

    def value(self, source: str) -> CycleSummary:
        return CycleSummary(
            cycle=self.cycle,
            at=Millis(self.started_at or 0),
            began_because=self.started_because,
            begun_by=_by(self.started_by),
            ended_at=Millis(self.ended_at) if self.ended_at is not None else None,
            ended_because=self.ended_because,
            ended_by=_by(self.ended_by),
            working=self.working_ms,
            usage=self.usage.value(),
            turns=self.turns,
            changed=tuple(self.changed_files[:CYCLE_PATHS]),
            changed_count=max(self.changed_files_count, len(self.changed_files)),
            checks=tuple(self.checks[:CYCLE_CHECKS]),
            source=source,
        )


def history_of_view(view: dict[str, Any], source: str, lost: list[str]) -> HistoryRecovered:
    """The past as a file shows it, oldest first; what cannot be understood is added to `lost`."""

    def read(name: str, what: str, model: type[M], value: Callable[[M], Any]) -> tuple[Any, ...]:
        found = []
        given = entries(view, name)
        if name == "orchestratorTurns" and isinstance(view.get("openTurn"), dict):
            given = [*given, view["openTurn"]]
        for number, entry in enumerate(given, start=1):
            try:
                found.append(value(model.model_validate(entry)))
            except (ValueError, OverflowError):
                lost.append(f"{what} {number} of {len(given)}, which could not be understood")
        return tuple(found)

    return HistoryRecovered(
        seq=0,
        at=Millis(0),
        source=source,
        transitions=read("phaseTransitions", "transition", _Transition, lambda one: one.value(source)),
        turns=read("orchestratorTurns", "turn", _Turn, lambda one: one.value(source)),
        runs=read("runs", "run", _Run, lambda one: one.value(source)),
        calls=read("toolCalls", "tool call", _Call, lambda one: one.value(source)),
        decisions=read("decisions", "decision", _Decision, lambda one: one.value(source)),
        cycles=read("cycles", "cycle", _Cycle, lambda one: one.value(source)),
    )


class _Place(_Entry):
    time: Time
    text: str
    cycle: Count
    phase: Annotated[Phase | None, BeforeValidator(_phase)] = None
    turn: Name = ""
    event_id: Key = ""
    role: Name = ""

    def value(self) -> MessagePlace:
        event = EventId(self.event_id) if self.event_id and self.role == "agent" else None
        turn = TurnId(self.turn) if self.turn else None
        return MessagePlace(message=0, cycle=self.cycle, phase=self.phase, turn=turn, event=event)


def places_of_view(view: dict[str, Any]) -> dict[tuple[Millis, str], MessagePlace]:
    """Cycle, turn and event of the messages that a file names them for, by time and text."""
    found: dict[tuple[Millis, str], MessagePlace] = {}
    for entry in entries(view, "messages"):
        with suppress(ValueError, OverflowError):
            place = _Place.model_validate(entry)
            found[Millis(place.time), place.text] = place.value()
    return found


LISTS: Final = ("transitions", "turns", "runs", "calls", "decisions", "cycles")


def newer_history(recovered: HistoryRecovered, records: Sequence[Record], state: State) -> dict[str, tuple[Any, ...]]:
    """The entries, by list, that the good records of a journal do not have: all of them where there are none."""
    history = state.history or History()
    since = state.identity.updated_at if records else None
    found: dict[str, tuple[Any, ...]] = {}
    for name in LISTS:
        known = {_identity(one) for one in getattr(history, name)}
        if name == "turns" and state.work.turn is not None:  # the journal closes it, as stopped
            known |= {
                (one.turn_id,)
                for one in recovered.turns
                if one.turn_id == state.work.turn.turn_id and not one.is_completed
            }
        items = [one for one in getattr(recovered, name) if since is None or _time(one) >= since]
        if kept := tuple(one for one in items if _identity(one) not in known):
            found[name] = kept
    return found


def batches(past: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, tuple[Any, ...]]]:
    """The lists in parts of at most `BLOCK` entries each, as a record holds them."""
    for start in range(0, max(map(len, past.values()), default=0), BLOCK):
        yield {name: items[start : start + BLOCK] for name, items in past.items() if items[start : start + BLOCK]}


def _time(entry: Any) -> int:
    match entry:
        case OrchestratorTurn():
            return max((done.at for done in entry.completions), default=entry.timestamp)
        case RunSummary():
            return entry.ended
        case CycleSummary():
            return entry.ended_at or 0
        case _:
            return int(entry.at)


def _identity(entry: Any) -> tuple[Any, ...]:
    match entry:
        case PhaseTransition():
            return entry.at, entry.from_, entry.to
        case OrchestratorTurn():
            return (entry.turn_id,)
        case RunSummary():
            return (entry.run,)
        case CallSummary():
            return entry.run, entry.call
        case DecisionSummary():
            return entry.at, entry.kind, entry.reason
        case _:
            return (entry.cycle,)
