"""What is under way in a conversation, and what it waits for.

A run is in the first of these states that holds:

    parked     its open calls are questions, and a user has not answered
    calling    it waits for sub-agents whom it has called
    limited    a daily limit holds its next model call back, until 00:00 UTC
    held       its model cannot be reached, and users know; it is tried every five minutes, or when somebody has acted
    retrying   a model call has failed, and is tried again within seconds
    model      its model is asked
    tools      its calls run, or wait their turn

The router and the work of a kind are limited, held or retrying in the same way. The condition of the whole conversation
is held or limited as soon as one part is: the others may go on, but an operator has to look, or the day has to end,
before the turn can close. It is parked only if every run waits for an answer and the router is not asked: else
something happens without a user. In all other cases it is the status. A parked conversation has the status `waiting`
for readers, and `active` for the rules, because its turn is open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tenex.core.conversation import Conversation
from tenex.core.cycle.state import Status
from tenex.core.ids import Millis, PublicKey, RunId, Slug
from tenex.core.kind_format import KindShare
from tenex.core.messages import CallRequest, Usage
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.state import State
from tenex.core.totals.costs import run_agent
from tenex.core.work.run import Call, CallState, Retry, Run
from tenex.core.work.turn import OrchestratorTurn

from .glance import shown_status
from .kinds import kind_conditions, kind_shares

RetryState = Literal["retrying", "held", "limited"]
RunState = Literal["model", "tools", "parked", "calling", "retrying", "held", "limited"]
"""What a run does: it waits for its model, for tools, for a user's answer, for sub-agents; for the next try of a model
call, for a model that cannot be reached, or for the end of a day whose limit is reached."""

Condition = Literal["held", "limited", "parked"] | Status

STUCK: Final[tuple[Condition, ...]] = ("held", "limited")
"""States of a part that are the condition of the whole: an operator has to look, or another day has to begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunActivity:
    """An agent at work."""

    id: RunId
    agent: Slug
    name: str
    pubkey: PublicKey
    phase: Phase
    parent: RunId | None
    """The run that called it, if it is a sub-agent's."""
    state: RunState
    began: Millis
    since: Millis
    """Since when it waits; where it works, `began`."""
    steps: int
    model: str
    """The one that answered last."""
    models: Mapping[str, Usage]
    closes_at: Millis
    open_calls: tuple[CallRequest, ...]
    """All that have no result."""
    tools: tuple[str, ...]
    """As `tools_of`."""
    questions: tuple[str, ...]
    """To users, that are not answered."""
    asks_permission: bool
    """Whether a user has to allow a call."""
    background: Mapping[str, str]
    """Its commands that went on in the background when it last looked, by their ids."""
    retry: Retry | None

    @property
    def caller(self) -> Slug | None:
        """The agent that called it, if it is a sub-agent."""
        return run_agent(self.parent) if self.parent is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterActivity:
    """The router is asked who is next."""

    attempt: int
    state: Literal["model"] | RetryState
    retry: Retry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What is under way in a conversation."""

    condition: Condition
    """`held` or `limited` where a part of the work is; `parked` where only a user's answer is waited for."""
    turn: OrchestratorTurn | None
    """The open one."""
    runs: tuple[RunActivity, ...]
    router: RouterActivity | None
    shares: tuple[KindShare, ...]
    """What its kind adds."""
    undelivered: Mapping[str, int]
    """The number of events by relay."""

    @property
    def undelivered_count(self) -> int:
        """The same for all relays."""
        return sum(self.undelivered.values())

    def called_by(self, run: RunActivity) -> tuple[RunActivity, ...]:
        """The sub-agents that work for a run."""
        return tuple(other for other in self.runs if other.parent == run.id)


def activity_of(state: State) -> Activity:
    """What is under way in a conversation."""
    runs = tuple(_run(state, run) for run in state.work.runs.values())
    router = router_of(state)
    return Activity(
        condition=_condition(state, [run.state for run in runs], router),
        turn=state.work.turn,
        runs=runs,
        router=router,
        shares=kind_shares(state),
        undelivered=undelivered(state),
    )


def condition_of(state: State) -> Condition:
    """`Activity.condition` alone."""
    return _condition(state, [run_state(run) for run in state.work.runs.values()], router_of(state))


def status_of(state: State) -> str:
    """The status for a list: `held` and `limited` come before it, since nothing goes on by itself."""
    condition = condition_of(state)
    return condition if condition in STUCK else shown_status(state)


def why_stuck(activity: Activity) -> tuple[str, ...]:
    """Why the parts that are held or limited do not go on, each reason once."""
    parts = (*activity.runs, *((activity.router,) if activity.router is not None else ()))
    retries = (part.retry for part in parts if part.state in STUCK and part.retry is not None)
    return tuple(dict.fromkeys(retry.message for retry in retries if retry.message))


def undelivered(state: State) -> Mapping[str, int]:
    """By relay the number of events that it has neither accepted nor refused for good."""
    counts: dict[str, int] = {}
    for row in state.delivery.outbox.values():
        for _, relay in row.ready:
            counts[relay] = counts.get(relay, 0) + 1
    return counts


def run_state(run: Run) -> RunState:
    """What a run does or waits for."""
    if run.is_parked:
        return "parked"
    if run.is_waiting:
        return "calling"
    if run.retry is not None:
        return _retry_state(run.retry)
    return "model" if run.wants is not None else "tools"


def tools_of(run: Run) -> tuple[str, ...]:
    """The tools of a run that work now, in the order of its calls."""
    return tuple(call.request.tool for call in run.calls if call.state is CallState.PERMITTED)


def router_of(state: State) -> RouterActivity | None:
    """What the router does or waits for; None where it is not asked."""
    question = state.router.question
    if question is None:
        return None
    retry = question.retry
    return RouterActivity(
        attempt=question.attempt, state="model" if retry is None else _retry_state(retry), retry=retry
    )


def run_began(state: State, run: Run) -> Millis:
    """When a run began; with its turn, where the state is of a program that did not keep it."""
    if run.started:
        return run.started
    return state.work.turn.timestamp if state.work.turn is not None else state.identity.updated_at


def is_idle(state: State) -> bool:
    """Whether nothing happens before a user writes, or a model can be reached again."""
    is_held = any(run.is_held for run in state.work.runs.values())
    return state.cycle.status in ("waiting", "ended") or state.work.is_parked or is_held


def is_settled(conversation: Conversation) -> bool:
    """Whether nothing is in flight, no turn waits for an answer, and every message was delivered."""
    return conversation.cycle.status in ("waiting", "ended") and not pending(conversation)


def _run(state: State, run: Run) -> RunActivity:
    what = run_state(run)
    began = run_began(state, run)
    since = began
    if what in ("parked", "calling"):
        since = run.parked_at or began
    elif what not in ("model", "tools") and run.retry is not None:
        since = run.retry.since
    open_calls = run.open_calls
    return RunActivity(
        id=run.id,
        agent=run.agent,
        name=run.name,
        pubkey=run.pubkey,
        phase=run.phase,
        parent=run.parent,
        state=what,
        began=began,
        since=since,
        steps=run.steps,
        model=run.model,
        models=run.models,
        closes_at=run.close_at,
        open_calls=tuple(call.request for call in open_calls),
        tools=tools_of(run),
        questions=tuple(_question(state, run, call) for call in open_calls if call.waits_for_user),
        asks_permission=any(call.state is CallState.UNAPPROVED for call in open_calls),
        background=run.background,
        retry=run.retry,
    )


def _question(state: State, run: Run, call: Call) -> str:
    """What a user is asked by a call; of a server's tool in an older journal only its name is known."""
    if call.state is CallState.PARKED:
        return str(call.question or call.request.arguments.get("question") or call.request.tool)
    asked = state.approvals.asked(run.id, call.request.id)
    return f"may I run {asked.line}?" if asked is not None else ""


def _retry_state(retry: Retry) -> RetryState:
    if retry.limit:
        return "limited"
    return "held" if retry.on_hold else "retrying"


def _condition(state: State, runs: Sequence[RunState], router: RouterActivity | None) -> Condition:
    """The most pressing state of a part; else the status, but for a conversation that waits for an answer."""
    parts = {*runs, *kind_conditions(state)}
    if router is not None:
        parts.add(router.state)
    for condition in STUCK:
        if condition in parts:
            return condition
    is_parked = router is None and bool(runs) and all(what in ("parked", "calling") for what in runs)
    return "parked" if is_parked else state.cycle.status
