"""The graph of speakers as users make it: rules that can be checked as a whole, and run."""

from collections.abc import Mapping, Sequence
from typing import Any

from tenex.core.config import Limits
from tenex.core.ports import Clock, Journals, Model
from tenex.workflows.agents.base import BaseAgent

from .checks import Findings, checked
from .rules import SpeakerRules
from .runner import WorkflowResult, run_workflow


class TransitionGraph(SpeakerRules):
    """A graph of speakers by AG2's name; its fields, factories and forms as text are those of `SpeakerRules`."""

    __slots__ = ()

    def validate(self, participants: Sequence[str] | None = None) -> Findings:
        """Everything wrong and everything doubtful with it, at once; with participants, also who is missing."""
        return checked(self, participants)

    async def run(
        self,
        message: str | None,
        *,
        agents: Mapping[str, BaseAgent | str],
        model: Model | None = None,
        context: Mapping[str, Any] | None = None,
        participants: Sequence[str] = (),
        journal: Journals | None = None,
        thread: str | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
    ) -> WorkflowResult:
        """Run the workflow in this process, without a daemon, to its end or until it waits for `person`.

        Args:
            message: what begins it, or the person's answer; None only goes on.
            agents: who takes part, by name: agents in Python, or the instructions of one.
            model: of the agents that have none of their own.
            context: the variables it begins with.
            participants: the order of a round robin; by default all whom the graph name.
            journal: where it is recorded, and where a later process goes on; else it is gone afterwards.
            thread: its name in the journal; without one each run is a workflow of its own.
            limits: tries and bounds; the daemon's own by default.
            clock: time, for tests that own it.

        Raises:
            ConfigurationError: the graph has faults.
            UsageError: somebody who takes part is no agent, or has no model.
            ModelUnavailable: a model cannot be reached; run it again with the same thread to go on.
        """
        return await run_workflow(
            self,
            message,
            agents,
            participants,
            context,
            model=model,
            journal=journal,
            thread=thread,
            limits=limits,
            clock=clock,
        )
