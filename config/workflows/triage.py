"""Sorts a request and hands it to whom it concerns: mention @triage in a new note to begin.

A workflow in Python can have conditions and targets of its own; registered, they are written down and found again.
"""

from dataclasses import dataclass
from typing import ClassVar

from tenex import (
    AgentTarget,
    Envelope,
    FromSpeaker,
    TerminateTarget,
    ToolCalled,
    Transition,
    TransitionGraph,
    Workflow,
    WorkflowState,
    register_condition,
)


@register_condition
@dataclass(frozen=True, slots=True)
class Mentions:
    """Fires when the first round's text holds a word."""

    word: str
    name: ClassVar[str] = "mentions"

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        """Whether the word is there, in any case."""
        return state.turn_count == 1 and self.word.lower() in envelope.text.lower()


workflow = Workflow(
    name="Triage",
    about="Sorts a request and hands it to whom it concerns.",
    graph=TransitionGraph(
        initial_speaker="project-manager",
        transitions=[
            # a tool that only a rule names is offered to the speaker, and calling it only counts for the rule
            Transition(ToolCalled("escalate_to_security"), AgentTarget("security-expert")),
            Transition(Mentions("plan"), AgentTarget("planner"), priority=1),
            Transition(FromSpeaker("security-expert"), TerminateTarget("advised"), priority=-1),
        ],
        default_target=TerminateTarget("triage_complete"),
        max_turns=6,
    ),
    participants=["project-manager", "security-expert", "planner"],
)
