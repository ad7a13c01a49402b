"""Models for agents written in Python: each follows a function of what it is asked."""

import json
from collections.abc import Callable

from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, CallResult, ModelRequest, ModelStep, Note
from tenex.core.ports import OnText, ignore_text
from tests.fakes.routing import read_question

Answer = Callable[[ModelRequest], ModelStep]


class ScriptedModel:
    """A model that answers as a function states; as a router it names one agent, and then waits for the user."""

    def __init__(self, answer: Answer, router: str = "", phase: str = "chat") -> None:
        self.answer, self.router, self.phase = answer, router, phase
        self.asked: list[ModelRequest] = []

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        if request.purpose == "route":
            note = next(entry for entry in request.entries if isinstance(entry, Note))
            way = {"agents": [self.router], "phase": self.phase}
            way = {"agents": ["USER"]} if read_question(note.text)["turns"] else way
            return ModelStep(text=json.dumps({**way, "reason": "it is theirs"}), model="script")
        self.asked.append(request)
        return self.answer(request)

    @property
    def tools(self) -> list[list[str]]:
        return [[known.name for known in request.tools] for request in self.asked]


def calls(name: str, /, **arguments: object) -> ModelStep:
    return ModelStep(calls=(CallRequest(id=CallId(name), tool=name, arguments=arguments),), model="script")


def results(request: ModelRequest) -> list[CallResult]:
    return [entry for entry in request.entries if isinstance(entry, CallResult)]


def script(*steps: ModelStep | str) -> Answer:
    """These answers in turn, one for each result of a call so far; a text is an answer that states it."""

    def answer(request: ModelRequest) -> ModelStep:
        step = steps[min(len(results(request)), len(steps) - 1)]
        return ModelStep(text=step, model="script") if isinstance(step, str) else step

    return answer


def researches(request: ModelRequest) -> ModelStep:
    """What the page's research agent is there for: plan, gather three times, analyse, answer."""
    offered, done = {known.name for known in request.tools}, [one for one in results(request) if one.ok]
    if "create_plan" in offered:
        return calls("create_plan", topic="tea", approach="books")
    if "gather_data" in offered:
        return calls("gather_data", query=f"q{len(done)}")
    if "analyze" in offered and "analyze" not in [one.tool for one in done]:
        return calls("analyze")
    return ModelStep(text=f"Done: {done[-1].content}", model="script")


def manages(request: ModelRequest) -> ModelStep:
    """The second page's agent: it calls each sub-agent in its phase, and one when it is too late."""
    if request.agent != "project-agent":
        return ModelStep(text=f"{request.agent} did what was asked", model="script")
    done = [entry.tool for entry in request.entries if isinstance(entry, CallResult)]
    way = (
        calls("planner", message="plan it"),
        calls("save_plan", plan_text="p"),
        calls("executor", message="do it"),
        calls("planner", message="late"),
        calls("complete_execution"),
        calls("reviewer", message="look"),
        ModelStep(text="All done.", model="script"),
    )
    return way[len(done)]
