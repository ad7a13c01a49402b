"""How `complete` and `ask` are described to a model: an agent's words to people and to the daemon."""

from typing import Final

from tenex.core.config import Replay, ToolRule
from tenex.core.messages import ToolSpec
from tenex.core.phases import Access

from .tool import object_schema, string, without_checks

COMPLETE: Final = ToolRule(name="complete", access=Access.SPEAK, replay=Replay.READ)
ASK: Final = ToolRule(name="ask", access=Access.SPEAK, replay=Replay.READ)

COMPLETE_SPEC: Final = ToolSpec(
    name=COMPLETE.name,
    description="Ends your part of the work.",
    parameters=without_checks(
        object_schema(
            {"response": string("What the person reads.", min_length=1)},
            {
                "summary": string("For the next agents, in a few sentences."),
                "verdict": {
                    "type": "string",
                    "enum": ["verified", "issues", "untried"],
                    "description": "In verification, and needed there.",
                },
                "asked": {
                    "type": "array",
                    "items": object_schema(
                        {
                            "what": string(),
                            "result": {"type": "string", "enum": ["met", "not met", "cannot be met here"]},
                        },
                        {"how": string("How you know.")},
                    ),
                    "description": "In verification: each thing that was asked for.",
                },
                "issues": string("Each fault, and the steps to see it again; or why it could not be tried."),
            },
        )
    ),
)
"""The `complete` of every phase; that verification needs a verdict is checked when it is called."""

ASK_SPEC: Final = ToolSpec(
    name=ASK.name,
    description="Asks the person a clear question and waits for the answer: what you can neither find out nor decide.",
    parameters=without_checks(
        object_schema(
            {"question": string(min_length=1)},
            {"options": {"type": "array", "items": {"type": "string"}, "description": "To choose from."}},
        )
    ),
)
