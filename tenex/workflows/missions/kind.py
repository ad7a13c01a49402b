"""Missions as a kind of conversation: its nodes decide what is next, and no router does."""

from collections.abc import Iterator, Mapping

from tenex.core import records as r
from tenex.core.config import Agent, Policy
from tenex.core.delivery.outgoing import notify
from tenex.core.effects import Effect, Key, Timer, Work
from tenex.core.ids import Slug
from tenex.core.inbox.command import SlashCommand
from tenex.core.inbox.commands import end_cycle, stop
from tenex.core.inbox.decide import record_message
from tenex.core.kind import Kind
from tenex.core.kind_format import KindShare
from tenex.core.people.decider import Decider, person
from tenex.core.people.trust import least_trusted
from tenex.core.record import Record
from tenex.core.signals import MessageReceived, Signal
from tenex.core.state import State
from tenex.core.text.amounts import count
from tenex.core.text.lines import Place, Row
from tenex.core.transaction import Transaction
from tenex.core.work import holds
from tenex.core.work.run import Wait
from tenex.workflows.missions import records as m
from tenex.workflows.missions.config import NAME, missions_of
from tenex.workflows.missions.state import Mission, MissionPart, mission_of

from . import decide
from .effects import NodeRun
from .reducers import MISSIONS
from .view import mission_condition, name_in_words, place_of, rows_of, share_of


class MissionsKind(Kind):
    """A conversation while a mission is open in it, and afterwards where the mission is all there is."""

    name = NAME
    state = MissionPart
    records = (
        m.MissionOpened,
        m.MissionRefused,
        m.NodeEntered,
        m.StepStarted,
        m.StepCompleted,
        m.MissionUsageRecorded,
        m.NodeRetryScheduled,
        m.NodeRetryDue,
        m.NodeCompleted,
        m.MissionPauseRequested,
        m.MissionPaused,
        m.MissionEnded,
    )
    reducers = MISSIONS
    commands = (
        SlashCommand(
            name="pause",
            help="let a mission finish its step, and wait",
            elsewhere="Only a mission that is under way can be paused; `/stop` ends what is running.",
            counts_as_last_line=True,
        ),
    )
    waits_when_idle = False

    def owns(self, state: State) -> bool:
        """Whether a mission is open, or was begun by a message."""
        mission = mission_of(state)
        return mission is not None and (mission.is_open or mission.is_alone)

    def begins(self, policy: Policy, slug: Slug) -> bool:
        """Whether the name is of a mission that a message may begin."""
        mission = missions_of(policy).get(slug)
        return mission is not None and mission.begin is not None

    def begin_cycle(self, transaction: Transaction, reason: str, decider: Decider) -> None:
        """Begin none: what has ended is over."""

    def on_message(self, transaction: Transaction, signal: MessageReceived, called: Slug) -> None:
        """Begin the mission, or report what it does: it does not read what is written beside it."""
        record_message(transaction, signal)
        mission = mission_of(transaction.state)
        if mission is None or not self.owns(transaction.state):
            decide.begin(transaction, called, signal.message.text, signal.name)
        elif not mission.is_open:
            notify(transaction, decide.over(mission))
            transaction.add(r.Ended, reason=f"{name_in_words(mission)} {mission.outcome}")
        elif mission.is_paused:
            notify(transaction, f"{decide.status_line(mission)} `/continue` lets it go on, `/new` ends it.")
            transaction.add(r.Waiting, reason="mission")
        else:
            does = "It does not read what is written here; `/stop` and `/pause` stop it."
            notify(transaction, f"{decide.status_line(mission)} {does}")

    def on_signal(self, transaction: Transaction, signal: Signal) -> bool:
        """Handle the signals of nodes and of the program that drives a mission."""
        return decide.on_signal(transaction, signal)

    def on_timer(self, transaction: Transaction, key: Key) -> bool:
        """Handle a node's deadline or retry."""
        return decide.timer(transaction, key)

    def on_opened(self, transaction: Transaction) -> None:
        """Give steps that may not run twice an unknown outcome."""
        decide.opened(transaction)

    def effects(self, state: State) -> Iterator[Effect]:
        """The node's run with its deadline, or the wait for its next try."""
        mission = mission_of(state)
        if mission is None:
            return
        if mission.wait is not None:
            yield Timer(key=Key(Work.TIMER, mission.wait.seq, "node-retry"), due=mission.wait.due)
        elif mission.wants is not None:
            person = least_trusted(state)
            yield NodeRun(
                key=Key(Work.NODE, mission.wants),
                conversation=state.id,
                workflow=mission.workflow,
                node=mission.node,
                data=mission.data,
                state=mission.entry,
                steps=mission.steps,
                attempt=mission.attempt,
                author=person.author or None if person else None,
                role=person.role if person else None,
            )
            if mission.close_at:
                yield Timer(key=Key(Work.TIMER, mission.armed, "node-close"), due=mission.close_at)

    def waits(self, state: State) -> Iterator[Wait]:
        """The wait of the node."""
        mission = mission_of(state)
        if mission is not None and mission.wait is not None:
            yield mission.wait

    def held_timers(self, state: State) -> Iterator[Key]:
        """That of a wait which is more than the time between two tries."""
        mission = mission_of(state)
        if mission is not None and mission.wait is not None and mission.wait.on_hold:
            yield Key(Work.TIMER, mission.wait.seq, "node-retry")

    def is_between(self, state: State) -> bool:
        """Whether one node has been left and the next not entered."""
        mission = mission_of(state)
        if mission is None or not mission.is_open:
            return False
        return mission.wants is None and mission.wait is None and not mission.is_paused

    def retry_on_hold(self, transaction: Transaction) -> None:
        """Run the node again that a daily limit or a refused key holds back."""
        mission = mission_of(transaction.state)
        if mission is not None and mission.wait is not None and mission.wait.on_hold:
            transaction.add(m.NodeRetryDue)

    def share(self, state: State) -> KindShare | None:
        """The node that the mission is at, and what it does there."""
        return share_of(state)

    def place(self, state: State) -> Place:
        """The mission and its node."""
        return place_of(state)

    def rows(self, record: Record, place: Place) -> Iterator[Row]:
        """The mission, its nodes and their steps."""
        return rows_of(record, place)

    def conditions(self, state: State) -> Iterator[str]:
        """What the mission does."""
        mission = mission_of(state)
        if mission is not None:
            yield mission_condition(mission)

    def counts(self, record: Record) -> Mapping[str, int]:
        """Nodes entered, steps that returned, and those of them that failed."""
        match record:
            case m.NodeEntered():
                return {"nodes": 1, "steps": 0, "stepFailures": 0}
            case m.StepCompleted(ok=ok):
                return {"nodes": 0, "steps": 1, "stepFailures": int(not ok)}
            case _:
                return {}

    def counts_in_words(self, counts: Mapping[str, int]) -> str:
        """The sums in a line."""
        nodes = count(counts["nodes"], "node")
        steps = count(counts["steps"], "step")
        return f"{nodes} of missions entered, {steps}, {counts['stepFailures']} failed"

    def command(self, transaction: Transaction, name: str, argument: str, signal: MessageReceived) -> bool:
        """Execute `/pause`, `/new`, `/continue` and `/retry`."""
        del argument
        mission = mission_of(transaction.state)
        if mission is None or name not in ("pause", "new", "continue", "retry"):
            return False
        if name == "pause":
            if mission.is_open:
                decide.pause(transaction, mission, signal.name)
            return mission.is_open
        if not mission.is_open:
            notify(transaction, decide.over(mission))
        elif name == "new":
            stop(transaction, signal.name, quiet=True)
            decide.drop(transaction, signal.name)
            if not mission.is_alone:
                end_cycle(transaction, person(signal.name, signal.message.author))
        else:
            self._resume(transaction, mission, signal.name)
        return True

    def _resume(self, transaction: Transaction, mission: Mission, name: str) -> None:
        if sentence := holds.refusal(transaction.state):
            notify(transaction, sentence)
        elif not decide.continue_mission(transaction, name):
            notify(transaction, decide.status_line(mission))
        elif (now := mission_of(transaction.state)) is not None and not now.is_paused:  # else it has reported why
            notify(transaction, "The mission goes on.")

    def on_stop(self, transaction: Transaction, name: str) -> str:
        """Pause the mission at once."""
        mission = mission_of(transaction.state)
        if mission is None or not mission.is_open or mission.is_paused:
            return ""
        decide.halt(transaction, name, f"stopped by {name}.")
        return f"the mission {mission.workflow}"

    def status(self, transaction: Transaction) -> list[str]:
        """Where the mission is."""
        return [decide.status_line(mission) for mission in [mission_of(transaction.state)] if mission is not None]

    def position(self, state: State) -> str:
        """The node, where the conversation is the mission's own."""
        mission = mission_of(state)
        if mission is None or not mission.is_alone:
            return super().position(state)
        return f"{mission.workflow} at {mission.node}" + ("" if mission.is_open else f", {mission.outcome}")

    def sender(self, state: State) -> Agent | None:
        """The mission, where the conversation is its own."""
        mission = mission_of(state)
        if mission is None or not mission.is_alone:
            return None
        return Agent(slug=Slug(mission.workflow), name=mission.workflow, pubkey=mission.pubkey)
