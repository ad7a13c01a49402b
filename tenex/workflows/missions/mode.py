"""Missions as a kind of conversation: its nodes decide what is next, and no router does."""

from tenex.core import records as r
from tenex.core.commands import end_cycle, stop
from tenex.core.config import Agent, Policy
from tenex.core.decide import holds
from tenex.core.decide.messages import record_message
from tenex.core.decide.outgoing import notify
from tenex.core.decide.transaction import Transaction
from tenex.core.decider import Decider, person
from tenex.core.effects import Key
from tenex.core.ids import Slug
from tenex.core.mode import Mode
from tenex.core.records import mission as m
from tenex.core.signals import MessageReceived, Signal
from tenex.core.state.conversation import State
from tenex.core.state.mission import Mission

from . import decide


class MissionsMode(Mode):
    """A conversation while a mission is open in it, and afterwards where the mission is all there is."""

    waits_when_idle = False

    def owns(self, state: State) -> bool:
        """Whether a mission is open, or was begun by a message."""
        return state.mission is not None and (state.mission.is_open or state.mission.is_alone)

    def begins(self, policy: Policy, slug: Slug) -> bool:
        """Whether the name is of a mission that a message may begin."""
        mission = policy.missions.get(slug)
        return mission is not None and mission.begin is not None

    def begin_cycle(self, draft: Transaction, reason: str, decider: Decider) -> None:
        """Begin none: what has ended is over."""

    def on_message(self, draft: Transaction, signal: MessageReceived, called: Slug) -> None:
        """Begin the mission, or report what it does: it does not read what is written beside it."""
        record_message(draft, signal)
        mission = draft.state.mission
        if mission is None or not self.owns(draft.state):
            decide.begin(draft, called, signal.message.text, signal.name)
        elif not mission.is_open:
            notify(draft, decide.over(mission))
            draft.add(r.Ended, reason=f"the mission {mission.workflow} {mission.outcome}")
        elif mission.is_paused:
            notify(draft, f"{decide.status_line(mission)} `/continue` lets it go on, `/new` ends it.")
            draft.add(r.Waiting, reason="mission")
        else:
            does = "It does not read what is written here; `/stop` and `/pause` stop it."
            notify(draft, f"{decide.status_line(mission)} {does}")

    def on_signal(self, draft: Transaction, signal: Signal) -> bool:
        """Handle the signals of nodes and of the program that drives a mission."""
        return decide.on_signal(draft, signal)

    def on_timer(self, draft: Transaction, key: Key) -> bool:
        """Handle a node's deadline or retry."""
        return decide.timer(draft, key)

    def on_opened(self, draft: Transaction) -> None:
        """Give steps that may not run twice an unknown outcome."""
        decide.opened(draft)

    def retry_on_hold(self, draft: Transaction) -> None:
        """Run the node again that a daily limit or a refused key holds back."""
        mission = draft.state.mission
        if mission is not None and mission.wait is not None and mission.wait.on_hold:
            draft.add(m.NodeRetryDue)

    def command(self, draft: Transaction, name: str, argument: str, signal: MessageReceived) -> bool:
        """Execute `/pause`, `/new`, `/continue` and `/retry`."""
        del argument
        mission = draft.state.mission
        if mission is None or name not in ("pause", "new", "continue", "retry"):
            return False
        if name == "pause":
            if mission.is_open:
                decide.pause(draft, mission, signal.name)
            return mission.is_open
        if not mission.is_open:
            notify(draft, decide.over(mission))
        elif name == "new":
            stop(draft, signal.name, quiet=True)
            decide.drop(draft, signal.name)
            if not mission.is_alone:
                end_cycle(draft, person(signal.name, signal.message.author))
        else:
            self._resume(draft, mission, signal.name)
        return True

    def _resume(self, draft: Transaction, mission: Mission, name: str) -> None:
        if sentence := holds.refusal(draft.state):
            notify(draft, sentence)
        elif not decide.continue_mission(draft, name):
            notify(draft, decide.status_line(mission))
        elif (now := draft.state.mission) is not None and not now.is_paused:  # else it has reported why
            notify(draft, "The mission goes on.")

    def on_stop(self, draft: Transaction, name: str) -> str:
        """Pause the mission at once."""
        mission = draft.state.mission
        if mission is None or not mission.is_open or mission.is_paused:
            return ""
        decide.halt(draft, name, f"stopped by {name}.")
        return f"the mission {mission.workflow}"

    def status(self, draft: Transaction) -> list[str]:
        """Where the mission is."""
        return [decide.status_line(draft.state.mission)] if draft.state.mission is not None else []

    def position(self, state: State) -> str:
        """The node, where the conversation is the mission's own."""
        mission = state.mission
        if mission is None or not mission.is_alone:
            return super().position(state)
        return f"{mission.workflow} at {mission.node}" + ("" if mission.is_open else f", {mission.outcome}")

    def sender(self, state: State) -> Agent | None:
        """The mission, where the conversation is its own."""
        mission = state.mission
        if mission is None or not mission.is_alone:
            return None
        return Agent(slug=Slug(mission.workflow), name=mission.workflow, pubkey=mission.pubkey)
