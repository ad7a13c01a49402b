"""Agents written in Python, run by themselves: the pages of pyagentic, rewritten, on a scripted model."""

import asyncio
from collections.abc import Callable

import pytest

from tenex.core.ids import CallId
from tenex.core.ports import Whisper, unheard
from tenex.core.steps import CallRequest, CallResult, ModelRequest, ModelStep
from tenex.workflow.agents import BaseAgent, spec, tool


class ResearchAgent(BaseAgent):
    __system_message__ = """
    You are a research agent.
    Current phase: {{ phase }}
    {% if phase == "planning" %}
    Focus on creating a research plan.
    {% elif phase == "research" %}
    Execute the research plan and gather data.
    {% elif phase == "analysis" %}
    Analyze the gathered data and form conclusions.
    {% endif %}
    """
    research_plan: spec.State[str] = spec.State(default="")
    data: spec.State[list[str]] = spec.State(default_factory=list)
    phases = [
        ("planning", "research", lambda self: bool(self.state.research_plan)),
        ("research", "analysis", lambda self: len(self.state.data) >= 3),
    ]

    @tool("Create a research plan", phases=["planning"])
    def create_plan(self, topic: str, approach: str) -> str:
        self.research_plan = f"Research {topic} using {approach}"
        return f"Plan created: {self.research_plan}"

    @tool("Gather research data", phases=["research"])
    def gather_data(self, query: str) -> str:
        result = f"Data for: {query}"
        self.data.append(result)
        return result

    @tool("Analyze data", phases=["analysis"])
    def analyze(self) -> str:
        return f"Analysis of {len(self.data)} data points"


class Mind:
    """A model that follows a function of what it is asked."""

    def __init__(self, answer: Callable[[ModelRequest], ModelStep]) -> None:
        self.answer = answer
        self.asked: list[ModelRequest] = []

    async def step(self, request: ModelRequest, whisper: Whisper = unheard) -> ModelStep:
        """Answer."""
        self.asked.append(request)
        return self.answer(request)

    @property
    def tools(self) -> list[list[str]]:
        """What was offered each time."""
        return [[known.name for known in request.tools] for request in self.asked]


def calls(name: str, **arguments: object) -> CallRequest:
    """A call."""
    return CallRequest(id=CallId(f"c{name}{arguments}"[:40]), tool=name, arguments=arguments)


def researches(request: ModelRequest) -> ModelStep:
    """Plan, gather three times, analyse, answer."""
    (offered, *_) = [known.name for known in request.tools] or [""]
    done = sum(isinstance(entry, CallResult) for entry in request.entries)
    match offered:
        case "create_plan":
            return ModelStep(calls=(calls("create_plan", topic="tea", approach="books"),))
        case "gather_data":
            return ModelStep(calls=(calls("gather_data", query=f"q{done}"),))
        case "analyze" if done < 5:
            return ModelStep(calls=(calls("analyze"),))
    last = next(entry for entry in reversed(request.entries) if isinstance(entry, CallResult))
    return ModelStep(text=f"Done: {last.content}")


def test_the_page_s_first_example_goes_from_phase_to_phase() -> None:
    mind = Mind(researches)
    agent = ResearchAgent(model=mind)

    result = asyncio.run(agent.run("Research tea"))

    assert result.final_output == "Done: Analysis of 3 data points"
    assert (agent.phase, agent.state.phase, result.phase) == ("analysis",) * 3
    assert mind.tools == [["create_plan"], *[["gather_data"]] * 3, *[["analyze"]] * 2]
    assert "Focus on creating a research plan." in mind.asked[0].system
    assert "Execute the research plan" in mind.asked[1].system
    assert agent.data == ["Data for: q1", "Data for: q2", "Data for: q3"]
    assert [move.trigger for move in agent.state.history] == ["planning_to_research", "research_to_analysis"]
