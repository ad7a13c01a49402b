"""A run within a decision, always as the records of the decision so far have left it."""

from dataclasses import dataclass

from tenex.core.config import Agent
from tenex.core.ids import RunId
from tenex.core.transaction import Transaction

from .run import Run


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run that is named rather than held: a `Run` in a variable is out of date after the next record."""

    transaction: Transaction
    id: RunId

    @property
    def now(self) -> Run:
        """The run after the records so far; read it again after each record, and only while the run is open."""
        return self.transaction.state.work.runs[self.id]

    @property
    def has_ended(self) -> bool:
        """Whether the run is over, so that there is no `now`."""
        return self.id not in self.transaction.state.work.runs

    @property
    def agent(self) -> Agent:
        """Its agent; one that may do nothing where it has left the roster."""
        run = self.now
        in_roster = self.transaction.policy.roster.get(run.agent)
        return in_roster or Agent(slug=run.agent, name=run.name, pubkey=run.pubkey)
