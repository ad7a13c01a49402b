"""An answer by states as the step a journal holds, and such steps as text for the next request.

`ModelStep.thinking` is private and holds the plan, each segment behind its state's identifier. `vendor` has where each
segment begins and which state acted: `{"states": [[identifier, characters], ...], "action": identifier}`, and `written`
what the model wrote where another form of it is shown (`readable_format`).
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, CallResult, Entry, ModelStep, Note

from .agents import PYTHON, OutputFormat, runs_python
from .content import PythonStateMachine, ToolCallStateMachine, core_of
from .parser import Segment
from .states import ToolCallState

REASONED: Final = "reasoning"
"""Label of a model's own reasoning, outside of its states."""

_GAP: Final = "\n\n"


def step_of(answer: ModelStep, form: OutputFormat, segments: Sequence[Segment]) -> ModelStep:
    """The step that a valid answer is: its action as a call, or as text where it neither calls nor runs."""
    plan = [segment for segment in segments if segment.role == "plan"]
    action = next(segment for segment in segments if segment.role == "action")
    parts = [f"{segment.state}:\n{segment.text}" for segment in plan]
    if answer.thinking:
        parts.append(f"{REASONED}:\n{answer.thinking}")
    where = [[segment.state, len(segment.text)] for segment in plan]
    step = replace(
        answer, text="", calls=(), thinking=_GAP.join(parts), vendor={"states": where, "action": action.state}
    )
    match core_of(form.plan.contents[action.state]):
        case ToolCallStateMachine():
            value = json.loads(action.text)
            call = CallRequest(id=CallId("call"), tool=value["name"], arguments=value["arguments"])
        case PythonStateMachine():
            call = CallRequest(id=CallId("call"), tool=PYTHON, arguments={"program": action.text})
        case _:
            shown = form.states[action.state].shown(action.text)
            if shown != action.text:
                step.vendor["written"] = action.text
            return replace(step, text=shown)
    return replace(step, calls=(call,))


def as_text(entry: Entry, form: OutputFormat, *, as_json: bool) -> Entry:
    """Return an entry for a model that answers by states: its answers as it would write them now, results as notes."""
    match entry:
        case ModelStep():
            text = _written(entry, form, as_json=as_json)
            return ModelStep(text=text, model=entry.model, usage=entry.usage)
        case CallResult():
            return Note(title=f"Result of {entry.tool}{'' if entry.ok else ', which failed'}", text=entry.content)
        case _:
            return entry


def _written(step: ModelStep, form: OutputFormat, *, as_json: bool) -> str:
    plan = [(state, text) for state, text in planned(step) if state in form.plan.planning]
    acts = [act for act in _acts(step, form) if act[0]]
    if not plan and not acts:
        return step.text
    if as_json:
        parts = [{"state": state, "content": text} for state, text in plan]
        values = [{"state": state, "content": value} for state, _, value in acts]
        whole = ({"plan": parts} if form.plan.most else {}) | ({"action": values[0]} if values else {})
        return json.dumps(whole, ensure_ascii=False)
    parts_text = [form.states[state].format(text) for state, text in (*plan, *((act[0], act[1]) for act in acts))]
    return "\n".join(parts_text)


def planned(step: ModelStep) -> list[tuple[str, str]]:
    """The private segments of a step, each with its state's identifier; none where it was not made by states."""
    found: list[tuple[str, str]] = []
    vendor: Any = step.vendor
    at = 0
    thinking = step.thinking
    try:
        for state, length in vendor["states"]:
            start = at + len(f"{state}:\n")
            if thinking[at:start] != f"{state}:\n" or type(length) is not int or length < 0:
                return []
            found.append((state, thinking[start : start + length]))
            at = start + length + len(_GAP)
    except (KeyError, TypeError, ValueError):
        return []
    return found


def _acts(step: ModelStep, form: OutputFormat) -> list[tuple[str, str, Any]]:
    """What a step did, by the states there are now: identifier, content as a text and as JSON has it."""
    calls = step.calls
    states = form.states.items()
    found: list[tuple[str, str, Any]] = []
    for call in calls:
        runs = next((name for name, state in states if runs_python(state)), "") if call.tool == PYTHON else ""
        asks = next((name for name, state in states if isinstance(state, ToolCallState)), "")
        program = call.arguments.get("program")
        if runs and isinstance(program, str):
            found.append((runs, program, program))
        else:
            value = {"name": call.tool, "arguments": dict(call.arguments)}
            found.append((asks, json.dumps(value, ensure_ascii=False), value))
    vendor = step.vendor if isinstance(step.vendor, dict) else {}
    if not calls and step.text and vendor.get("action") in form.states:
        written = str(vendor.get("written", step.text))
        found.append((vendor["action"], written, written))
    return found
