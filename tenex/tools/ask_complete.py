"""How `complete` and `ask` are described to a model: an agent's words to people and to the daemon."""

from collections.abc import Mapping
from typing import Any, Final

from tenex.core.config import Replay, ToolRule
from tenex.core.messages import ToolSpec
from tenex.core.phases import Access, Phase

from .tool import object_schema, string

COMPLETE: Final = ToolRule(name="complete", access=Access.SPEAK, replay=Replay.READ)
ASK: Final = ToolRule(name="ask", access=Access.SPEAK, replay=Replay.READ)

_SUMMARY: Final = "Two or three sentences for the agents who go on from here."

_COMPLETE: Final[Mapping[Phase, tuple[str, dict[str, Any], dict[str, Any]]]] = {
    Phase.CHAT: (
        "Ends your work in this turn with your answer to the person.",
        {"response": string("What the person reads.", min_length=1)},
        {"summary": string("What you now know of their wish, in a sentence or two.")},
    ),
    Phase.BRAINSTORM: (
        "Ends your work in this turn with the ideas you offer the person.",
        {"response": string("The ideas, with what speaks for and against each.", min_length=1)},
        {"summary": string("The ideas by name, in a sentence or two.")},
    ),
    Phase.PLAN: (
        "Ends your work in this turn by handing over the plan.",
        {
            "response": string("The whole plan: what will be built, in which files, in which order.", min_length=1),
            "summary": string("The plan's decisions in a few sentences, for the agent that builds it.", min_length=1),
        },
        {},
    ),
    Phase.EXECUTE: (
        "Ends your work in this turn, once what was asked for is there.",
        {
            "response": string("What the person reads: what is done, and what is not.", min_length=1),
            "summary": string("What changed, file by file, and how to try it, for its verification.", min_length=1),
        },
        {},
    ),
    Phase.VERIFICATION: (
        "Ends your work in this turn with a verdict on what was built.",
        {
            "response": string("What the person reads: what you tried and what you saw.", min_length=1),
            "verdict": {
                "type": "string",
                "enum": ["verified", "issues"],
                "description": "`verified` if it does what was asked for; `issues` if it has to be fixed first.",
            },
        },
        {"issues": string("With `issues`: each fault, and the steps by which anyone can see it again.")},
    ),
    Phase.CHORES: (
        "Ends your work in this turn, once documentation and files are in order.",
        {
            "response": string("What the person reads: what you tidied up.", min_length=1),
            "summary": string(_SUMMARY, min_length=1),
        },
        {},
    ),
    Phase.REFLECTION: (
        "Ends your reflection, after you have recorded what is worth remembering.",
        {"response": string("What the person reads: what this work has taught you.", min_length=1)},
        {},
    ),
}


def complete_spec(phase: Phase) -> ToolSpec:
    """The `complete` of a phase: its fields are what that phase has to leave behind."""
    description, required, optional = _COMPLETE[phase]
    return ToolSpec(name=COMPLETE.name, description=description, parameters=object_schema(required, optional))


def ask_spec() -> ToolSpec:
    """The `ask` of every phase that has one."""
    return ToolSpec(
        name=ASK.name,
        description=(
            "Asks the person a question and waits for the answer, however long that takes. Only for what you can "
            "neither find out nor decide yourself."
        ),
        parameters=object_schema(
            {"question": string("One question that can be understood by itself.", min_length=1)},
            {
                "options": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1},
                    "maxItems": 10,
                    "description": "Answers to choose from, if there are only a few.",
                }
            },
        ),
    )
