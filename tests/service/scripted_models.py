"""Models written for these tests: they do what a model should not."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, CallResult, ModelRequest, ModelStep, Note, Usage
from tenex.core.phases import Phase
from tenex.core.ports import Model, OnText, ignore_text


class Editor:
    """Reads `pets.txt`, changes it with `edit_file`, and looks what came of it."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        if request.purpose == "route":
            question = _question(request)
            if question["turns"]:
                return _answer(json.dumps({"agents": ["USER"], "reason": "the person is next"}))
            return _answer(json.dumps({"agents": ["executor"], "phase": "execute", "reason": "an edit"}))
        results = [entry for entry in request.entries if isinstance(entry, CallResult)]
        if len(results) == 1:
            return _calls("edit_file", path="pets.txt", old="cat", new="dog")
        if len(results) < 3:
            return _calls("read_file", path="pets.txt")
        return _answer(f"It is now: {results[-1].content}")


class Household:
    """An executor that has its planner write a plan, goes through its own phases by it, and then the cycle's to END."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        if request.purpose == "route":
            return _answer(json.dumps(self.route(request)))
        if request.phase is Phase.VERIFICATION:
            return _calls("complete", response="It works", verdict="verified")
        if request.phase is not Phase.EXECUTE:
            return _answer(f"{request.agent} has done {request.phase}")
        steps = sum(isinstance(entry, ModelStep) for entry in request.entries)
        writes = {"path": f"{request.agent}.txt", "content": "as it was agreed\n"}
        ways: dict[str, list[tuple[str, dict[str, Any]]]] = {
            "planner": [("set_state", {"field": "stage", "value": 1}), ("write_file", writes)],
            "executor": [
                ("ask_planner", {"message": "How shall it be built?"}),
                ("set_state", {"field": "stage", "value": 1}),
                ("write_file", writes),
                ("set_state", {"field": "stage", "value": 2}),
            ],
        }
        way = ways[request.agent]
        return _calls(way[steps][0], **way[steps][1]) if steps < len(way) else _answer(f"{request.agent} is done")

    @staticmethod
    def route(request: ModelRequest) -> dict[str, Any]:
        """On to the next phase; the executor alone takes part."""
        question = _question(request)
        way = {"chat": "execute", "execute": "verification", "verification": "chores", "chores": "reflection"}
        if question["phase"] == "reflection":
            return {"agents": ["END"], "reason": "all is done"}
        return {"agents": ["executor"], "phase": way[question["phase"]], "reason": "it is next"}


SCRIPTED_MODELS: Mapping[str, Callable[[], Model]] = {
    "editor": Editor,
    "household": Household,
}


def _question(request: ModelRequest) -> dict[str, Any]:
    question: dict[str, Any] = json.loads(next(entry.text for entry in request.entries if isinstance(entry, Note)))
    return question


def _answer(text: str) -> ModelStep:
    return ModelStep(text=text, model="script", usage=Usage(input_tokens=1, output_tokens=1))


def _calls(tool: str, **arguments: Any) -> ModelStep:
    return ModelStep(
        calls=(CallRequest(id=CallId("mine"), tool=tool, arguments=arguments),),
        model="script",
        usage=Usage(input_tokens=1, output_tokens=1),
    )
