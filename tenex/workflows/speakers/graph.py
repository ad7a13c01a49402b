"""`TransitionGraph` for authors of a workflow of speakers: AG2's class, validated, compiled to the one graph."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tenex.core import graph as one
from tenex.core.config import Limits
from tenex.core.errors import ConfigurationError
from tenex.core.ports import Clock, Journals, Model
from tenex.core.workflow.conditions import (
    AgentTarget,
    AllOf,
    Always,
    ContextEquals,
    FromSpeaker,
    RoundRobinTarget,
    TerminateTarget,
    ToolCalled,
    TransitionTarget,
)
from tenex.core.workflow.rounds import WorkflowState
from tenex.core.workflow.speakers import begin
from tenex.core.workflow.transitions import Transition, compiled
from tenex.workflows.time_limit import in_time

from . import dicts, toml
from .checks import Findings, checked
from .registry import TransitionRegistry

if TYPE_CHECKING:
    from tenex.workflows.agents.base import BaseAgent

    from .runner import WorkflowResult


@dataclass(frozen=True, slots=True)
class TransitionGraph:
    """Who speaks first, the rules, what follows where none fires, and how many turns there may be at most."""

    initial_speaker: str
    transitions: Sequence[Transition] = ()
    default_target: TransitionTarget = field(default_factory=TerminateTarget)
    max_turns: int | None = None
    participants: Sequence[str] = ()
    """Who takes part, in the order of a round robin, where the rules do not name everybody."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "transitions", tuple(self.transitions))
        object.__setattr__(self, "participants", tuple(self.participants))

    # ---- to use it ---------------------------------------------------------------------------------------------------

    def validate(
        self, participants: Sequence[str] | None = None, registry: TransitionRegistry | None = None
    ) -> Findings:
        """Everything wrong and everything doubtful with it, at once; with participants, also who is missing."""
        return checked(self, participants, registry or TransitionRegistry.default())

    def compile(self, participants: Sequence[str] = ()) -> one.TransitionGraph:
        """The rules as the one graph, over those who take part, else over all whom the rules name."""
        return compiled(
            self.initial_speaker, self.transitions, self.default_target, self.max_turns, participants, in_time
        )

    def begin(
        self,
        participants: Sequence[str],
        creator_id: str = "",
        context_vars: Mapping[str, Any] | None = None,
        registry: TransitionRegistry | None = None,
    ) -> tuple[one.TransitionGraph, WorkflowState]:
        """The compiled graph and the state in which the initial speaker is to speak.

        The creator takes part, as the first where not listed. Raises ConfigurationError with every fault.
        """
        order = [creator_id, *participants] if creator_id and creator_id not in participants else list(participants)
        graph = self.compile(order)
        return graph, begin(graph, order, creator_id, context_vars, self.to_dict(registry))

    def mermaid(self, participants: Sequence[str] = ()) -> str:
        """The rules as a Mermaid state diagram."""
        return self.compile(participants).mermaid()

    async def run(
        self,
        message: str | None,
        *,
        agents: "Mapping[str, BaseAgent | str]",
        model: Model | None = None,
        context: Mapping[str, Any] | None = None,
        participants: Sequence[str] = (),
        journal: Journals | None = None,
        thread: str | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
    ) -> "WorkflowResult":
        """Run the workflow in this process, without a daemon, to its end or until it waits for `person`.

        Args:
            message: what begins it, or the person's answer; None only goes on.
            agents: who takes part, by name: agents in Python, or the instructions of one.
            model: of the agents that have none of their own.
            context: the variables it begins with.
            participants: the order of a round robin; by default everybody whom the graph names.
            journal: where it is recorded, and where a later process goes on; else it is gone afterwards.
            thread: its name in the journal; without one each run is a workflow of its own.
            limits: tries and bounds; the daemon's own by default.
            clock: time, for tests that own it.

        Raises:
            ConfigurationError: the graph has faults.
            UsageError: somebody who takes part is no agent, or has no model.
            ModelUnavailable: a model cannot be reached; run it again with the same thread to go on.
        """
        from .definitions import Workflow
        from .runner import run_workflow

        workflow = Workflow(graph=self, participants=participants, context=context or {})
        return await run_workflow(
            workflow, message, agents, model=model, journal=journal, thread=thread, limits=limits, clock=clock
        )

    # ---- to write it down --------------------------------------------------------------------------------------------

    def to_dict(self, registry: TransitionRegistry | None = None) -> dict[str, Any]:
        """The graph as values JSON can hold; raises ConfigurationError where a part cannot be written down."""
        return dicts.to_dict(self, registry or TransitionRegistry.default())

    @classmethod
    def from_dict(cls, data: object, registry: TransitionRegistry | None = None) -> "TransitionGraph":
        """Inverse of `to_dict`, and of AG2's; raises ConfigurationError with every fault and where it is."""
        known = registry or TransitionRegistry.default()
        written = dicts.of_factory(data) if isinstance(data, Mapping) else None
        if written is not None:
            name, args, named = written
            try:
                data = getattr(cls, name)(*args, **named).to_dict(known)
            except (TypeError, AttributeError, KeyError) as fault:
                raise ConfigurationError([f"{name} cannot be made of that: {fault}."]) from fault
        return cls(**dicts.from_dict(data, known))

    def dumps(self, registry: TransitionRegistry | None = None) -> str:
        """The graph as JSON."""
        return json.dumps(self.to_dict(registry), sort_keys=True, ensure_ascii=False)

    @classmethod
    def loads(cls, data: str | Mapping[str, Any], *, registry: TransitionRegistry | None = None) -> "TransitionGraph":
        """Inverse of `dumps` and of `to_dict`; raises ConfigurationError with every fault and where it is."""
        return cls.from_dict(dicts.parsed_json(data) if isinstance(data, str) else data, registry)

    def to_toml(self, registry: TransitionRegistry | None = None) -> str:
        """The graph as TOML."""
        return toml.written(self.to_dict(registry))

    @classmethod
    def from_toml(cls, text: str, *, registry: TransitionRegistry | None = None) -> "TransitionGraph":
        """Inverse of `to_toml`; raises ConfigurationError with every fault and where it is."""
        return cls.from_dict(toml.parsed(text), registry)

    # ---- usual shapes ------------------------------------------------------------------------------------------------

    @classmethod
    def sequence(cls, steps: Sequence[str]) -> "TransitionGraph":
        """One after the other, each once, then the end."""
        _some(steps, "sequence", "steps")
        rules = [Transition(FromSpeaker(before), AgentTarget(after)) for before, after in pairwise(steps)]
        return cls(steps[0], rules, TerminateTarget("sequence_complete"), max_turns=len(steps))

    @classmethod
    def round_robin(cls, participants: Sequence[str], *, max_turns: int | None = None) -> "TransitionGraph":
        """Round and round in the order of the participants, until `max_turns`; None: until somebody ends it."""
        _some(participants, "round_robin", "participants")
        rules = [Transition(Always(), RoundRobinTarget())]
        return cls(participants[0], rules, TerminateTarget("round_robin_complete"), max_turns, participants)

    @classmethod
    def star(
        cls, center: str, spokes: Sequence[str] | Mapping[str, str], *, max_turns: int | None = None
    ) -> "TransitionGraph":
        """The centre asks one at a time and hears the answer; what it says without asking anybody is the end.

        `spokes` maps the tool by which the centre asks to whom it asks; of a list, the tools are `ask_<name>`, with `_`
        for `-`.
        """
        _some(spokes, "star", "spokes")
        asking = spokes if isinstance(spokes, Mapping) else {f"ask_{name.replace('-', '_')}": name for name in spokes}
        rules = [
            *(
                Transition(AllOf([FromSpeaker(center), ToolCalled(tool)]), AgentTarget(to))
                for tool, to in asking.items()
            ),
            *(Transition(FromSpeaker(name), AgentTarget(center)) for name in dict.fromkeys(asking.values())),
        ]
        return cls(center, rules, TerminateTarget("star_complete"), max_turns)

    @classmethod
    def feedback_loop(
        cls, worker: str, critic: str, *, key: str = "approved", max_turns: int | None = 10
    ) -> "TransitionGraph":
        """The worker's drafts go to the critic and back, until the critic's tools have set `key` to true.

        Ten turns are five drafts: more seldom make it better.
        """
        rules = [
            Transition(AllOf([FromSpeaker(critic), ContextEquals(key, value=True)]), TerminateTarget("approved")),
            Transition(FromSpeaker(worker), AgentTarget(critic)),
            Transition(FromSpeaker(critic), AgentTarget(worker)),
        ]
        return cls(worker, rules, TerminateTarget("feedback_loop_complete"), max_turns)

    @classmethod
    def triage(
        cls, triage: str, routes: Mapping[str, str], *, key: str = "route", otherwise: str | None = None
    ) -> "TransitionGraph":
        """The first speaker's tools set `key`; the specialist whom `routes` gives for its value answers, then the end.

        Without a known value `otherwise` answers, or it ends with the reason `no_route`.
        """
        _some(routes, "triage", "routes")
        rest = AgentTarget(otherwise) if otherwise else TerminateTarget("no_route")
        rules = [
            *(
                Transition(AllOf([FromSpeaker(triage), ContextEquals(key, value)]), AgentTarget(name))
                for value, name in routes.items()
            ),
            Transition(FromSpeaker(triage), rest),
        ]
        return cls(triage, rules, TerminateTarget("triage_complete"))


def _some(given: Sequence[str] | Mapping[str, str], factory: str, what: str) -> None:
    if not given or isinstance(given, str):
        raise ConfigurationError([f"{factory} needs at least one of its {what}, as a list."])
