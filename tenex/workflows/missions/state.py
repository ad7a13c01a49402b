"""A mission as a value: where it is, what its node has done, and what each fact does to it.

    NodeEntered ─► wants its node run ──NodeCompleted──► NodeEntered ... MissionEnded
                     ▲  │      │
                     │  │      └─NodeRetryScheduled─► waits ──┐
                     │  └─MissionPaused─► is paused ────┤
                     └──────────NodeRetryDue─────────────┘

A node that runs again is given the state it was entered with and the steps that have returned; so it comes to where it
was, by its own code, with no effect twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tenex.core.config import Replay
from tenex.core.ids import Millis, PublicKey
from tenex.core.state import KindState, State
from tenex.core.values import replace
from tenex.workflows.missions import records as m
from tenex.workflows.missions.config import NAME

UNKNOWN_KIND = "OutcomeUnknown"
"""The kind of a failed step of which no one knows what it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of the current node; `seq` is the record that permitted it, and never changes when it runs again."""

    id: str
    replay: Replay
    seq: int
    is_done: bool = False
    ok: bool = False
    result: Any = None
    kind: str = ""
    message: str = ""
    retryable: bool = False
    needs_operator: bool = False
    changed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The time before another try."""

    seq: int
    due: Millis
    since: Millis
    message: str = ""
    limit: str = ""
    """The limit of a day that is waited for."""
    needs_operator: bool = False
    """It waits until somebody has acted."""

    @property
    def on_hold(self) -> bool:
        """Whether a start or a reload may end it."""
        return bool(self.limit) or self.needs_operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Mission:
    """A mission, from its beginning on; it stays when it is over, so that its result can be read."""

    workflow: str
    seq: int
    by: str
    pubkey: PublicKey = PublicKey("")
    """What it speaks with; "" where a program began it in a conversation of the project's."""
    entry: Mapping[str, Any]
    """The state as the current node was entered with, JSON."""
    node: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    wants: int | None = None
    """The seq of the record that made the node's run wanted."""
    armed: int = 0
    """The seq of the record that set the deadline."""
    close_at: Millis = Millis(0)
    attempt: int = 0
    wait: Wait | None = None
    steps: Mapping[str, Step] = field(default_factory=dict)
    """Of the current node: those that returned, in that order, then those under way."""
    pausing: str = ""
    """Why a pause is wanted while a step is under way."""
    pausing_by: str = ""
    paused: str = ""
    """Why it is paused."""
    paused_at: Millis | None = None
    visits: int = 0
    """Nodes entered since a user last continued it."""
    outcome: m.MissionOutcome | None = None
    result: Any = None
    kind: str = ""
    message: str = ""

    @property
    def is_alone(self) -> bool:
        """Whether the conversation is its own: it speaks there, and nothing else follows it."""
        return bool(self.pubkey)

    @property
    def is_open(self) -> bool:
        """Whether it is not over."""
        return self.outcome is None

    @property
    def is_paused(self) -> bool:
        """Whether it goes on only when a user continues it."""
        return self.is_open and bool(self.paused)

    @property
    def state(self) -> dict[str, Any]:
        """The state as last recorded."""
        state = dict(self.entry)
        for step in self.steps.values():
            state |= step.changed
        return state

    @property
    def open_steps(self) -> tuple[Step, ...]:
        """The steps under way."""
        return tuple(step for step in self.steps.values() if not step.is_done)

    # ---- what each fact does ----

    def entered(self, record: m.NodeEntered) -> "Mission":
        """A node is to run."""
        return replace(
            self,
            node=record.node,
            data=record.data,
            entry={**self.state, **record.changed},
            steps={},
            wants=record.seq,
            armed=record.seq,
            close_at=record.close_at,
            attempt=0,
            wait=None,
            visits=self.visits + 1,
        )

    def permitted(self, record: m.StepStarted) -> "Mission":
        """A step may have its effect."""
        step = Step(id=record.step, replay=record.replay, seq=record.seq)
        return replace(self, steps={**self.steps, record.step: step})

    def returned(self, record: m.StepCompleted) -> "Mission":
        """A step has its result; the second one counts for nothing."""
        step = self.steps.get(record.step)
        if step is None or step.is_done:
            return self
        done = replace(
            step,
            is_done=True,
            ok=record.ok,
            result=record.result,
            kind=record.kind,
            message=record.message,
            retryable=record.retryable,
            needs_operator=record.needs_operator,
            changed=record.changed,
        )
        # in the order in which they returned: so the newest value of a field of the state is the last
        finished = {key: other for key, other in self.steps.items() if other.is_done}
        rest = {key: other for key, other in self.steps.items() if not other.is_done and key != record.step}
        return replace(self, steps={**finished, record.step: done, **rest})

    def retrying(self, record: m.NodeRetryScheduled) -> "Mission":
        """The node waits for another try: steps that failed and may run again are forgotten."""
        kept = {key: step for key, step in self.steps.items() if not _runs_again(step)}
        wait = Wait(
            seq=record.seq,
            due=record.due,
            since=record.at,
            message=record.message,
            limit=record.limit,
            needs_operator=record.needs_operator,
        )
        return replace(self, wants=None, wait=wait, attempt=record.attempt, steps=kept)

    def resumed(self, record: m.NodeRetryDue) -> "Mission":
        """The node runs again; the time it was paused does not count."""
        since = self.paused_at if self.paused_at is not None else self.wait.since if self.wait else record.at
        still = max(0, record.at - since)
        close_at = Millis(self.close_at + still) if self.close_at else self.close_at
        return replace(
            self,
            wants=record.seq,
            armed=record.seq,
            close_at=close_at,
            wait=None,
            paused="",
            paused_at=None,
            pausing="",
            attempt=0 if record.by else self.attempt,
            visits=0 if record.by else self.visits,
        )

    def wants_pause(self, record: m.MissionPauseRequested) -> "Mission":
        """Steps under way may return; then it pauses."""
        return replace(self, pausing=record.reason or "a pause", pausing_by=record.by)

    def stopped(self, reason: str, at: Millis) -> "Mission":
        """It is paused; a wait for another try is part of the pause."""
        since = self.paused_at if self.paused_at is not None else self.wait.since if self.wait else at
        return replace(self, wants=None, wait=None, pausing="", paused=reason, paused_at=since)

    def left(self, record: m.NodeCompleted) -> "Mission":
        """The node is done."""
        return replace(
            self,
            entry={**self.state, **record.changed},
            steps={},
            wants=None,
            wait=None,
            armed=0,
            close_at=Millis(0),
            attempt=0,
        )

    def ended(self, record: m.MissionEnded) -> "Mission":
        """It is over."""
        return replace(
            self,
            entry=self.state,
            steps={},
            wants=None,
            wait=None,
            pausing="",
            paused="",
            paused_at=None,
            outcome=record.outcome,
            result=record.result,
            kind=record.kind,
            message=record.message,
        )

    def moved(self, by: int) -> "Mission":
        """Every time it waits for, or counts from, is this many ms later."""
        wait = self.wait and replace(self.wait, due=Millis(self.wait.due + by), since=Millis(self.wait.since + by))
        paused_at = None if self.paused_at is None else Millis(self.paused_at + by)
        close_at = Millis(self.close_at + by) if self.close_at else self.close_at
        return replace(self, close_at=close_at, wait=wait, paused_at=paused_at)

    def spared(self, by: int) -> "Mission":
        """No process ran for so many ms: its deadline is later, a wait or a pause has been that much shorter."""
        moved = self.moved(by)
        return replace(moved, wait=moved.wait and self.wait and replace(moved.wait, due=self.wait.due))

    def forked(self) -> "Mission":
        """The mission in a fork: what was under way is wanted again, since another journal's seqs make no keys."""
        return replace(self, steps={key: step for key, step in self.steps.items() if step.is_done})

    def without_open_work(self, at: Millis) -> "Mission":
        """It as one to go on from later: paused, with what was under way and may not run again unknown."""
        if not self.is_open:
            return self
        steps = {
            key: replace(step, is_done=True, kind=UNKNOWN_KIND, message="the mission went on from before it returned")
            if not step.is_done and step.replay is Replay.ONCE
            else step
            for key, step in self.steps.items()
        }
        return replace(self.stopped(self.paused or "it goes on from an earlier record", at), steps=steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionPart(KindState):
    """What missions keep of a conversation."""

    mission: Mission | None = None
    """The current mission, or the last one."""
    refused: str = ""
    """The mission that what was written here could not begin yet; "" for none."""

    @property
    def is_open(self) -> bool:
        """Whether a mission is open, running or paused: while it is, its nodes decide what is next."""
        return self.mission is not None and self.mission.is_open

    @property
    def has_begun(self) -> bool:
        """Whether there is or was a mission."""
        return self.mission is not None

    @property
    def refused_name(self) -> str:
        """The mission that what was written could not begin."""
        return self.refused

    @property
    def refused_noun(self) -> str:
        """A mission."""
        return "mission"

    @property
    def location_label(self) -> str:
        """The mission, where the conversation is its own."""
        return f"@{self.mission.workflow}" if self.mission is not None and self.mission.is_alone else ""

    def without_open_work(self, then: State, at: Millis, seq: int) -> "MissionPart":
        """It with its mission paused."""
        del then, seq
        return replace(self, mission=self.mission and self.mission.without_open_work(at))

    def forked(self, records: int) -> "MissionPart":
        """It as a fork begins with it."""
        del records
        return replace(self, mission=self.mission and self.mission.forked())


def mission_of(state: State) -> Mission | None:
    """The current mission of a conversation, or its last one."""
    part = state.kinds.get(NAME)
    return part.mission if isinstance(part, MissionPart) else None


def _runs_again(step: Step) -> bool:
    return step.is_done and not step.ok and (step.replay is not Replay.ONCE or step.retryable)
