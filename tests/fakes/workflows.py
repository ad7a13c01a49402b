"""Workflows for tests: the policy of a scenario with a workflow in it, and a model that follows a script."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenex.core.config import Limits, Policy
from tenex.core.conversation import Conversation
from tenex.core.effects import ModelCall
from tenex.core.graph import TransitionGraph as Compiled
from tenex.core.ids import PublicKey, Slug
from tenex.core.messages import ModelStep
from tenex.core.signals import ModelFailed
from tenex.workflows.speakers import TransitionGraph
from tenex.workflows.speakers.config import DEFAULTS, View, Within, Workflow, with_workflows
from tenex.workflows.speakers.rules import compiler
from tenex.workflows.speakers.state import WorkflowSession, session_of

from .scenario import Scenario, agent, policy, reply

TRIO = ("writer", "editor", "checker")
NAME = "review"
KEY = PublicKey("f" * 64)

Step = ModelStep | ModelFailed
Lines = Mapping[str, Sequence[Any]]
"""What each speaker answers in turn: steps, failures, or texts."""


def compile_graph(data: Mapping[str, Any], participants: tuple[str, ...]) -> Compiled:
    """A graph's dict as the graph, as the application does it."""
    return compiler()(data, participants)


def workflow(
    graph: TransitionGraph,
    *participants: str,
    expectations: Mapping[str, Within] | None = None,
    context: Mapping[str, Any] | None = None,
    view: View = "windowed",
) -> Workflow:
    """A workflow called `review`, by default of the trio."""
    return Workflow(
        slug=Slug(NAME),
        name="Review",
        pubkey=KEY,
        participants=tuple(map(Slug, participants or TRIO)),
        graph_data=graph.to_dict(),
        context_vars=context or {},
        view=view,
        expectations={**DEFAULTS, **(expectations or {})},
    )


def workflow_policy(*workflows: Workflow, limits: Limits | None = None, config: Policy | None = None) -> Policy:
    """The rules of a scenario with the trio in its roster, and these workflows."""
    base = config or policy(limits=limits)
    trio = {Slug(name): agent(name) for name in TRIO}
    joined = dataclasses.replace(base, roster={**base.roster, **trio})
    return with_workflows(joined, {one.slug: one for one in workflows}, compile_graph)


class ScriptedSpeakers:
    """A model for every speaker: each answers with its lines in turn, and then only states that it has spoken."""

    def __init__(self, lines: Lines | None = None) -> None:
        self.lines = {name: list(steps) for name, steps in (lines or {}).items()}
        self.spoke: list[str] = []

    def __call__(self, conversation: Conversation, call: ModelCall) -> Step:
        """The next line; the journal counts how many were spoken, so a crash repeats the one that was lost."""
        run = conversation.work.runs[call.run]
        steps = self.lines.get(run.agent, [])
        before = sum(done.agent == run.agent for turn in conversation.cycle.turns for done in turn.completions)
        place = 0
        for _ in range(before):  # a turn's lines end with one that calls nothing
            while place < len(steps) and _goes_on(steps[place]):
                place += 1
            place += 1
        place += run.steps
        line = steps[place] if place < len(steps) else f"{run.agent} has spoken"
        self.spoke.append(run.agent)
        return reply(line) if isinstance(line, str) else line


def _goes_on(step: Step | str) -> bool:
    return isinstance(step, ModelStep) and bool(step.calls)


def calls(*requests: tuple[str, dict[str, Any]]) -> ModelStep:
    return reply("", *requests)


def unused_router(question: dict[str, Any]) -> Any:
    raise AssertionError(f"a model was asked who speaks next: {question}")


def workflow_scenario(
    graph: TransitionGraph, lines: Lines | None = None, *participants: str, limits: Limits | None = None, **more: Any
) -> Scenario:
    """A scenario whose rules hold one workflow; no one has written yet."""
    return Scenario(
        unused_router,
        ScriptedSpeakers(lines),
        config=workflow_policy(workflow(graph, *participants, **more), limits=limits),
    )


def started(graph: TransitionGraph, lines: Lines | None = None, *participants: str, **more: Any) -> Scenario:
    """The same, after a user's message has opened it."""
    one = workflow_scenario(graph, lines, *participants, **more)
    one.user_writes("Make it good", addressed=(NAME,))
    return one


def session(one: Scenario) -> WorkflowSession:
    opened = session_of(one.conversation)
    assert opened is not None
    return opened


Models = Callable[[Conversation, ModelCall], Step]
