"""The form of `conversation.json`: what `view_json` writes, what is read of a file, and what its schema says.

They are typed dictionaries, in the words of the file: writing one costs what its dictionary costs, and pydantic reads
and describes it. A field that is `NotRequired` is left out where it says nothing. Other fields may follow in later
versions, and a kind of conversation adds one under its own name.
"""

# ruff: noqa: N815 - the fields have the names of the file

from typing import Annotated, Any, NotRequired

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, with_config
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict

from tenex.core.cycle.state import Status
from tenex.core.history.state import CallOutcome, DecisionKind
from tenex.core.people.decider import DeciderKind
from tenex.core.projection.fates import FateKind
from tenex.core.records import Outcome, WorkVerdict


def _as_text(value: Any) -> Any:
    """A number of seconds or ms, as older programs wrote times, as text; anything else as it is."""
    return str(value) if type(value) in (int, float) else value


Count = Annotated[int, Field(ge=0, le=2**53)]
"""As many as JSON can count everywhere."""

Moment = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str)]
"""ISO 8601 in UTC, with ms; the ms since 1970 where no calendar has that time."""


class UsageJson(TypedDict):
    """What calls of models have taken. Counts that few servers report are there only where they are not 0."""

    calls: Count
    inputTokens: Count
    outputTokens: Count
    costUsd: float | None
    """Null where no price is known."""
    estimatedTokens: NotRequired[Count]
    """Of the tokens, those that no server reported."""
    cacheReadTokens: NotRequired[Count]
    cacheWriteTokens: NotRequired[Count]


class DeciderJson(TypedDict):
    """Who decided."""

    kind: DeciderKind
    name: NotRequired[str]
    pubkey: NotRequired[str]
    """Of the agent or the person; of the project where the router or a rule decided."""
    model: NotRequired[str]
    """The model that was asked."""


_From = TypedDict("_From", {"from": Annotated[str, Field(description="The phase before.")]})


class TransitionJson(_From):
    """A change of the phase."""

    to: str
    message: str
    """What the agents of the new phase were told."""
    timestamp: int
    """The same as `time`, in ms since 1970."""
    time: Moment
    cycle: Count
    decidedBy: DeciderJson | None
    request: NotRequired[str]
    """The `eventId` of the message for which the work is done."""
    agentPubkey: str
    """Of the agent that handed over, else the project's, as `agentName`."""
    agentName: str
    reason: str
    summary: str
    """Of the turn before."""
    source: NotRequired[str]
    """The file that alone shows it, after a rebuild or an import."""


class CompletionJson(TypedDict):
    """What became of one agent's part in a turn."""

    agent: NotRequired[str]
    outcome: NotRequired[Outcome]
    text: NotRequired[str]
    summary: NotRequired[str]
    verdict: NotRequired[WorkVerdict]
    """What a verifier says of the work."""
    untried: NotRequired[str]
    """Why the work could not be tried."""
    error: NotRequired[str]
    time: NotRequired[Moment]


class ProgramJson(TypedDict):
    """A program that an agent ran."""

    agent: str
    command: str
    exitStatus: int | None
    """Null where a pipe hides that of a trial; negative where a signal ended it."""


class TurnJson(TypedDict):
    """Agents that were set to work, why, and what came of it."""

    turnId: str
    timestamp: int
    time: Moment
    cycle: Count
    phase: str
    agents: list[str]
    decidedBy: DeciderJson | None
    reason: str
    completions: list[CompletionJson]
    ran: NotRequired[list[ProgramJson]]
    """The newest programs that were run."""
    isCompleted: bool
    workingMs: int | None
    usage: UsageJson
    """With the router's part."""
    models: dict[str, UsageJson]
    changedFiles: list[str]
    """20 at most."""
    source: NotRequired[str]


class RunJson(TypedDict):
    """One agent's part in a turn, or a sub-agent's."""

    cycle: Count
    turn: NotRequired[str]
    run: NotRequired[str]
    agent: NotRequired[str]
    pubkey: NotRequired[str]
    calledBy: NotRequired[str | None]
    """The run that called a sub-agent."""
    startedAt: NotRequired[Moment | None]
    endedAt: NotRequired[Moment]
    workingMs: int
    outcome: NotRequired[Outcome]
    error: NotRequired[str]
    steps: Count
    toolCalls: Count
    models: dict[str, UsageJson]
    source: NotRequired[str]


class CallJson(TypedDict):
    """A tool call that has ended or was refused."""

    time: Moment
    cycle: Count
    turn: str
    agent: str
    run: str
    call: str
    tool: str
    arguments: dict[str, Any]
    """Each cut, and at most six."""
    outcome: CallOutcome
    exitStatus: NotRequired[int | None]
    """Of the program that it ran."""
    result: str
    """Cut; of a question its answer."""
    workingMs: NotRequired[int | None]
    waitedMs: NotRequired[int | None]
    """Until a person answered."""
    changedFiles: NotRequired[list[str]]
    revertedFiles: NotRequired[list[str]]
    source: NotRequired[str]


class DecisionJson(TypedDict):
    """What was decided or refused."""

    time: NotRequired[Moment]
    cycle: NotRequired[Count]
    kind: DecisionKind
    by: NotRequired[DeciderJson | None]
    agents: NotRequired[list[str]]
    phase: NotRequired[str]
    reason: NotRequired[str]
    refusedAnswer: NotRequired[str]
    """What the router answered, where that was refused."""
    usage: NotRequired[UsageJson | None]
    """What asking the router took."""
    source: NotRequired[str]


class CycleJson(TypedDict):
    """A request and the work for it."""

    cycle: Count
    startedAt: Moment | None
    startedBecause: str
    startedBy: DeciderJson | None
    endedAt: Moment | None
    endedBecause: str | None
    endedBy: DeciderJson | None
    workingMs: int
    turns: Count
    usage: UsageJson
    changedFiles: list[str]
    """200 at most."""
    changedFilesCount: NotRequired[Count]
    """Where there are more."""
    checks: NotRequired[list[str]]
    """How each check of the project ended, here and before."""
    source: NotRequired[str]


class FateJson(TypedDict):
    """What became of a person's message."""

    kind: FateKind
    turn: NotRequired[str | None]
    words: NotRequired[str]
    """Those it rests on."""


_FromAuthor = TypedDict(
    "_FromAuthor", {"from": NotRequired[Annotated[str, Field(description="The name of its author.")]]}
)


class MessageJson(_FromAuthor):
    """A message of a person or an agent."""

    time: NotRequired[Moment]
    cycle: NotRequired[Count]
    turn: NotRequired[str]
    """The turn in which it was written, or the first one after it."""
    role: NotRequired[str]
    """Of a person; `agent` for one of ours."""
    author: NotRequired[str]
    phase: NotRequired[str]
    text: NotRequired[str]
    eventId: NotRequired[str]
    cameInCycle: NotRequired[Count]
    """Where a later cycle began with it."""
    fate: NotRequired[FateJson | None]


class MoveJson(TypedDict("_FromOwnPhase", {"from": str})):
    """A change of an agent's own phase."""

    to: str
    at: Moment


class AgentJson(TypedDict):
    """An agent with phases or a state of its own."""

    phase: str | None
    state: dict[str, Any]
    history: list[MoveJson]


class OriginJson(TypedDict):
    """Where a fork branched off."""

    id: str
    seq: Count
    title: str


class RollbackJson(TypedDict):
    """The conversation went back."""

    at: int
    """The number of the record that says so."""
    time: Moment
    to: int
    """The record after which it went on."""
    by: str
    reason: str
    undone: list[str]
    """The turns that count no more."""


class RefusalJson(TypedDict):
    """A relay refused an event for good."""

    time: Moment
    relay: str
    reason: str
    eventId: str
    isDelivered: bool
    """Another relay has accepted what was written."""


class RunningJson(TypedDict):
    """An agent at work."""

    run: str
    agent: str
    name: str
    pubkey: str
    steps: Count
    parked: bool
    openCalls: list[str]
    closesAt: Moment
    models: dict[str, UsageJson]


class WaiverJson(TypedDict):
    """Quality gates that a person gave up."""

    phases: list[str]
    by: str
    quote: str
    untried: NotRequired[str]
    """Why the work could not be tried."""
    messageId: str
    at: Moment


class MetricsJson(TypedDict):
    """What a phase has taken since the beginning."""

    visits: Count
    durationMs: int
    """From entering it to leaving it."""
    workingMs: int
    """Of that, the part in which an agent or the router worked."""
    usage: UsageJson


class MetadataJson(TypedDict):
    """What the open cycle has read and changed, and where its thread is."""

    readFiles: dict[str, str]
    changedFiles: list[str]
    address: dict[str, Any]


class HeadJson(TypedDict):
    """What a view begins with."""

    id: str
    title: str
    status: Status
    waitingFor: str | None
    statusReason: str | None
    """Why it waits or has ended."""
    phase: NotRequired[str | None]
    """Not in a conversation without phases."""
    phaseStartedAt: NotRequired[int]
    """In ms since 1970."""
    cycle: Count
    createdAt: Moment
    updatedAt: Moment
    seq: Count
    """The newest record that it covers."""
    imported: NotRequired[bool]
    agent: NotRequired[str]
    """The agent that answers alone."""
    forkedFrom: NotRequired[OriginJson | None]
    agents: NotRequired[dict[str, AgentJson]]
    """Those with phases or a state of their own."""
    rollbacks: NotRequired[list[RollbackJson]]
    refusals: NotRequired[list[RefusalJson]]


class ListsJson(TypedDict):
    """The lists of a view: each holds the newest 100 to 199 entries, and names the files of older ones."""

    earlierPhaseTransitions: NotRequired[list[str]]
    phaseTransitions: list[TransitionJson]
    earlierOrchestratorTurns: NotRequired[list[str]]
    orchestratorTurns: list[TurnJson]
    earlierRuns: NotRequired[list[str]]
    runs: list[RunJson]
    earlierToolCalls: NotRequired[list[str]]
    toolCalls: list[CallJson]
    earlierDecisions: NotRequired[list[str]]
    decisions: list[DecisionJson]
    earlierCycles: NotRequired[list[str]]
    cycles: list[CycleJson]
    messages: list[MessageJson]
    """The newest of them."""


class TailJson(TypedDict):
    """What a view ends with."""

    openCycle: CycleJson | None
    openTurn: TurnJson | None
    running: list[RunningJson]
    openGates: list[str]
    participants: list[str]
    waivers: list[WaiverJson]
    metadata: MetadataJson
    undelivered: Count
    """Messages that no relay has taken yet."""
    phaseMetrics: dict[str, MetricsJson]
    workingMs: int
    usage: UsageJson


@with_config(ConfigDict(use_attribute_docstrings=True))
class ViewJson(HeadJson, ListsJson, TailJson):
    """A conversation as a user wants to read it."""


class _WithoutTitles(GenerateJsonSchema):
    """A schema that does not repeat the names of fields as titles."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - for all of them
        return False


def schema() -> dict[str, Any]:
    """The JSON schema of `conversation.json`."""
    described = TypeAdapter(ViewJson).json_schema(schema_generator=_WithoutTitles)
    described["title"] = "conversation.json"
    return {"$schema": _WithoutTitles.schema_dialect, **described}
