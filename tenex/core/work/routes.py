"""What a tool's result may ask for about who comes next, by AG2's names."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Handoff:
    """A tool's result that names who works next, at run time."""

    target: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """A tool's result that ends the conversation; `reason` is the reason of the end, `summary` is for who reads it."""

    summary: str = ""
    reason: str = "finished"


Route = Handoff | Finish
"""What a tool's result may ask for."""
