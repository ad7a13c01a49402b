"""What a node asks by name is done on behalf of the person whose mission it is."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tenex.app.agent_calls import Asker
from tenex.core.config import Role
from tenex.core.errors import ModelUnavailable, WorkflowError
from tenex.core.ids import PublicKey
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.ports import ExecutionContext, Prompt, ToolResult
from tenex.runtime.clock import SystemClock
from tenex.workflows.missions.nodes import Answer
from tenex.workflows.missions.runner import PeerRequest
from tenex.workflows.speakers import TransitionGraph
from tests.fakes.scenario import reply
from tests.fakes.workflows import NAME, TRIO, workflow, workflow_policy

MEMBER = PublicKey("b" * 64)


class Surroundings:
    """A model that calls a tool once in each run, the tool, and prompts."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.contexts: list[ExecutionContext] = []
        self.fault = fault

    async def step(self, request: ModelRequest, on_text: Any = None) -> ModelStep:
        if self.fault is not None:
            raise self.fault
        is_first = not any(isinstance(entry, ModelStep) for entry in request.entries)
        return reply("", ("read_file", {"path": "a"})) if is_first else reply(f"{request.agent} is done")

    def specs(self, phase: Any, agent: Any) -> tuple[Any, ...]:
        return ()

    async def call(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        self.contexts.append(context)
        return ToolResult(ok=True, content="a")

    def work(self, conversation: Any, run: Any) -> Prompt:
        return Prompt(system="You work.", entries=())

    def route(self, conversation: Any) -> ModelRequest:
        raise AssertionError


def asked(around: Surroundings, name: str, role: Role | None = Role.MEMBER) -> Answer:
    """The answer to a question of a member's mission."""
    policy = workflow_policy(workflow(TransitionGraph.sequence(TRIO)))
    asker = Asker(model=around, tools=around, prompter=around, policy=lambda: policy, clock=SystemClock())
    question = PeerRequest(name=name, message="/stop is a word", key="k", author=MEMBER if role else None, role=role)
    return asyncio.run(asyncio.wait_for(asker(question), 20))


def test_tools_of_what_is_asked_know_the_person_of_the_mission() -> None:
    around = Surroundings()
    assert asked(around, "writer") == Answer(text="writer is done")
    assert [(context.author, context.role) for context in around.contexts] == [(MEMBER, Role.MEMBER)]


def test_a_workflow_answers_with_its_last_words_and_the_reason_of_its_end() -> None:
    around = Surroundings()
    assert asked(around, f"@{NAME}") == Answer(text="checker is done", reason="sequence_complete")
    assert [context.agent for context in around.contexts] == [*TRIO]


def test_a_call_without_an_answer_fails_with_the_reason() -> None:
    with pytest.raises(WorkflowError, match="There is no agent and no workflow of speakers ghost"):
        asked(Surroundings(), "ghost")
    with pytest.raises(ModelUnavailable, match="away"):
        asked(Surroundings(ModelUnavailable("away", retry_after=120)), "writer")
