"""The router's question: what it is being asked, since when, and what it has learnt from refused answers."""

from dataclasses import dataclass

from tenex.core.ids import Millis
from tenex.core.values import replace
from tenex.core.work.run import Retry

LESSONS = 10
"""What the router should learn from refused answers: the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The router is being asked, or waits to be asked again."""

    seq: int
    """Of the record that made it wanted."""
    attempt: int
    rejections: tuple[str, ...] = ()
    tries: int = 0
    """Tries that failed in transport."""
    outage_reported: bool = False
    """Whether the user was informed that the router's model cannot be reached."""
    retry: Retry | None = None
    urgent: int = 0
    """The newest `seq` that a user asked for, as in `Run`."""
    warn_at: Millis = Millis(0)
    """When the user is informed that there is no answer yet; 0 for never, or where they were informed."""

    def moved(self, by: int) -> "Question":
        """The report that there is no answer yet is that many ms later."""
        return replace(self, warn_at=Millis(self.warn_at + by)) if self.warn_at else self


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
