"""Where a workflow conversation is, and what each fact does to it.

What is expected is watched: a watch is a time and the record that set it, and `pending` makes a timer of each. A watch
goes when what was expected has come, or when it has fired.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from tenex.core.ids import Millis, PublicKey, Slug
from tenex.core.state import KindState, State
from tenex.core.text.json_values import plain
from tenex.core.values import replace
from tenex.core.work.routes import Route
from tenex.workflows.speakers import records as w
from tenex.workflows.speakers.config import (
    ACKS_WITHIN,
    MAX_SILENCE,
    NAME,
    PERSON,
    REPLY_WITHIN,
    TTL,
    TURN_WITHIN,
    View,
    Within,
)
from tenex.workflows.speakers.rounds import RULE_FAILED, UNKNOWN_SPEAKER, WorkflowState


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A time by which something is expected; `seq` is the record that set it."""

    seq: int
    due: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSession(KindState):
    """A workflow that was opened; `why` is how it came to the speaker who is expected."""

    has_phases: ClassVar[bool] = False
    watches_runs: ClassVar[bool] = True
    reads_messages: ClassVar[bool] = True

    slug: Slug
    name: str
    pubkey: PublicKey
    speakers: WorkflowState
    person: PublicKey
    view: View
    expectations: Mapping[str, Within]
    routing_tools: Mapping[str, tuple[Slug, ...]]
    acked: frozenset[Slug] = frozenset()
    called: frozenset[str] = frozenset()
    """Calls of the open round that were let through; what was refused decides nothing."""
    routes: Mapping[str, Route] = field(default_factory=dict)
    """What results of the open round's calls ask for."""
    watches: Mapping[str, Watch] = field(default_factory=dict)
    """By `<expectation>.warn` and `<expectation>.close`."""
    why: str = ""
    close_reason: str = ""
    error: str = ""
    """What failed in the rules after the last round, as sentences."""

    @property
    def has_begun(self) -> bool:
        """Always: it is opened once."""
        return True

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and the conversation with it."""
        return self.is_closed

    @property
    def location_label(self) -> str:
        """The workflow."""
        return f"@{self.slug}"

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        return bool(self.close_reason)

    @property
    def expected(self) -> Slug | None:
        """Who is to speak."""
        return None if self.speakers.expected_next_speaker is None else Slug(self.speakers.expected_next_speaker)

    @property
    def agents(self) -> tuple[Slug, ...]:
        """The agents who take part, in order."""
        return tuple(Slug(name) for name in self.speakers.participant_order if name != PERSON)

    @property
    def missing(self) -> tuple[Slug, ...]:
        """Those who have not acknowledged."""
        return tuple(Slug(name) for name in self.speakers.participant_order if name not in self.acked)

    def watching(self, seq: int, at: Millis, *names: str) -> "WorkflowSession":
        """These are expected from now on, counted again."""
        watches = dict(self.disarmed(*names).watches)
        for name in names:
            within = self.expectations.get(name, Within())
            for action, after in (("warn", within.warn), ("close", within.close)):
                if after:
                    watches[f"{name}.{action}"] = Watch(seq=seq, due=Millis(at + after))
        return replace(self, watches=watches)

    def disarmed(self, *names: str) -> "WorkflowSession":
        """These have come, or are expected no more."""
        kept = {key: watch for key, watch in self.watches.items() if key.partition(".")[0] not in names}
        return replace(self, watches=kept)

    def without_open_work(self, then: State, at: Millis, seq: int) -> "WorkflowSession":
        """It as one to go on from, after going back or in a fork: nothing is open, and time counts again."""
        del then
        if self.is_closed:
            return self
        names = [TTL, MAX_SILENCE]
        if self.missing:
            names.append(ACKS_WITHIN)
        if self.expected == PERSON:
            names.append(REPLY_WITHIN)
        return replace(self, watches={}, called=frozenset(), routes={}).watching(seq, at, *names)

    def moved(self, by: int, *, but: str = "") -> "WorkflowSession":
        """Every time is this many ms later, but those of one expectation."""
        watches = {
            key: watch if key.partition(".")[0] == but else replace(watch, due=Millis(watch.due + by))
            for key, watch in self.watches.items()
        }
        return replace(self, watches=watches)

    # ---- facts of a workflow -----------------------------------------------------------------------------------------

    def acknowledged(self, record: w.InviteAcknowledged) -> "WorkflowSession":
        """Someone is there; with the last one no one is waited for."""
        session = replace(self, acked=self.acked | {record.participant})
        return session if session.missing else session.disarmed(ACKS_WITHIN)

    def changed(self, record: w.ContextSet) -> "WorkflowSession":
        """Variables were deleted, then set."""
        kept = {key: value for key, value in self.speakers.context_vars.items() if key not in record.delete}
        return replace(self, speakers=replace(self.speakers, context_vars={**kept, **plain(record.set_)}))

    def advanced(self, record: w.RoundClosed, turn: str) -> "WorkflowSession":
        """A round counts; the next speaker is expected."""
        speakers = replace(
            self.speakers,
            last_speaker_id=record.speaker,
            last_envelope_id=turn or None,
            turn_count=record.turn_count,
            expected_next_speaker=record.next or None,
            pending_close_reason=record.close_reason,
        )
        has_failed = record.close_reason in (RULE_FAILED, UNKNOWN_SPEAKER)
        session = replace(
            self,
            speakers=speakers,
            called=frozenset(),
            routes={},
            why=_why(record),
            error=" ".join(record.sentences) if has_failed else "",
        ).disarmed(REPLY_WITHIN)
        names = (MAX_SILENCE, REPLY_WITHIN) if record.next == PERSON else (MAX_SILENCE,)
        return session.watching(record.seq, record.at, *names)

    def missed(self, record: w.ExpectationMissed) -> "WorkflowSession":
        """One watch has fired; it does not fire again."""
        key = f"{record.expectation}.{record.action}"
        return replace(self, watches={name: watch for name, watch in self.watches.items() if name != key})

    def closed(self, record: w.WorkflowClosed) -> "WorkflowSession":
        """It has ended."""
        speakers = replace(self.speakers, expected_next_speaker=None, pending_close_reason=record.reason)
        return replace(self, speakers=speakers, close_reason=record.reason, watches={}, called=frozenset(), routes={})

    # ---- facts of any conversation -----------------------------------------------------------------------------------

    def turn_opened(self, seq: int, at: Millis) -> "WorkflowSession":
        """A speaker's round began."""
        return replace(self, called=frozenset(), routes={}).disarmed(REPLY_WITHIN).watching(seq, at, TURN_WITHIN)

    def turn_closed(self) -> "WorkflowSession":
        """The speaker is done, or was stopped."""
        return self.disarmed(TURN_WITHIN, REPLY_WITHIN)

    def asked(self, seq: int, at: Millis) -> "WorkflowSession":
        """The speaker waits for a user, who has been asked: its own deadline is suspended."""
        return self.disarmed(TURN_WITHIN).watching(seq, at, REPLY_WITHIN, MAX_SILENCE)

    def answered(self, seq: int, at: Millis, *, is_parked: bool) -> "WorkflowSession":
        """The user answered: the speaker has all its time again, or they have for another question that is open."""
        if is_parked:
            return self.watching(seq, at, REPLY_WITHIN)
        return self.disarmed(REPLY_WITHIN).watching(seq, at, TURN_WITHIN)

    def let_through(self, call: str) -> "WorkflowSession":
        """A call of the open round was permitted, or put to a user: it counts."""
        return replace(self, called=self.called | {call})

    def routed(self, call: str, route: Route) -> "WorkflowSession":
        """The result of a call of the open round asks for this."""
        return replace(self, routes={**self.routes, call: route})

    def message_received(self, seq: int, at: Millis) -> "WorkflowSession":
        """A user wrote."""
        return self if self.is_closed else self.watching(seq, at, MAX_SILENCE)


def opened(record: w.WorkflowOpened) -> WorkflowSession:
    """A workflow as it begins."""
    speakers = WorkflowState(
        participant_order=record.participants,
        expected_next_speaker=record.initial,
        creator_id=record.creator,
        graph_data=plain(record.graph),
        context_vars=plain(record.context),
    )
    session = WorkflowSession(
        slug=record.workflow,
        name=record.name,
        pubkey=record.pubkey,
        speakers=speakers,
        person=record.person,
        view=record.view,
        expectations=record.expectations,
        routing_tools=record.routing_tools,
        why=f"{record.name} begins",
    )
    return session.watching(record.seq, record.at, TTL, MAX_SILENCE, ACKS_WITHIN)


def session_of(state: State) -> WorkflowSession | None:
    """The workflow that a conversation is of."""
    session = state.kinds.get(NAME)
    return session if isinstance(session, WorkflowSession) else None


def _why(record: w.RoundClosed) -> str:
    if record.handoff:
        reason = f": {record.reason}" if record.reason else ""
        return f"{record.speaker} handed over to {record.handoff}{reason}"
    return f"{record.speaker} called {record.tool}" if record.tool else f"it follows {record.speaker}"
