"""What a parser returns: pieces as they come, segments when they close, faults with a sentence for the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "outside",  # text or too much white space between states
    "order",  # a state that may not begin here
    "limits",  # a content too short or too long
    "content",  # no JSON, no Python, arguments that do not fit
    "unclosed",  # the output ended within a state
    "unfinished",  # the output ended before its action
    "given up",  # too many faults to go on
]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some more characters of a state's content; all of them together are the text of its segment."""

    state: str
    text: str


@dataclass(frozen=True, slots=True)
class Segment:
    """One state's content, whole, or as much of it as came.

    `role` tells what is private (plan) from what is to be done (action). `is_complete` says that it was opened where
    it may be, closed, and is within its limits and its rules; nothing else may be acted on.
    """

    state: str
    role: Literal["plan", "action"]
    text: str
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with the output; `state` is empty where it is about no state."""

    kind: Kind
    message: str
    state: str = ""


Heard = Piece | Segment | Fault


def repair_prompt(faults: Sequence[Fault]) -> str:
    """What a model is asked with, once its output has been refused; empty if there is nothing to mend."""
    if not faults:
        return ""
    listed = "\n".join(f"- {fault.message}" for fault in faults)
    return f"Your answer cannot be used, and nothing of it was done:\n{listed}\nWrite the whole answer again, mended."
