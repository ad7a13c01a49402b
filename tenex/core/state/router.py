"""The router's question: what it is being asked, since when, and what it has learnt from refused answers."""

from dataclasses import dataclass

from .run import Question

LESSONS = 10
"""What the router should learn from refused answers: the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """The question to the router. A rollback withdraws it and keeps the lessons."""

    question: Question | None = None
    """What it is being asked; None for nothing."""
    asked: int = 0
    """The seq of its newest question: it knows of no message after it."""
    lessons: tuple[str, ...] = ()
    """What it should learn from answers that were refused."""
    delay_reported: bool = False
    """Whether users know that it is slow, since one of them last wrote."""
