"""What a relay means by the text of an OK or a CLOSED, and how long to wait before the next try."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final, assert_never

from .timeouts import Backoff, RelayTimeouts


class ReasonAction(Enum):
    """What to do about a refusal."""

    HAVE = "have"
    """The relay already has the event: success."""
    AUTH = "auth"
    """Say who we are (NIP-42), then again."""
    SLOWER = "slower"
    """Wait as long as it asks, then again."""
    AGAIN = "again"
    """Back off, then again: it may pass."""
    FINAL = "final"
    """Again would be no help; somebody must be told."""


_ADVICE: Final = {
    "duplicate": ReasonAction.HAVE,
    "auth-required": ReasonAction.AUTH,
    "rate-limited": ReasonAction.SLOWER,
    "error": ReasonAction.AGAIN,
    "pow": ReasonAction.FINAL,  # mining would change the id, and the id is already written down
    "invalid": ReasonAction.FINAL,
    "blocked": ReasonAction.FINAL,
    "restricted": ReasonAction.FINAL,
    "unsupported": ReasonAction.FINAL,
    "mute": ReasonAction.FINAL,
}

_PREFIX: Final = re.compile(r"\s*([a-z][a-z-]{1,30}):")
_SECONDS: Final = re.compile(r"(\d{1,4})\s*(?:s|sec|secs|second|seconds)\b")
_MOST_ASKED: Final = 600.0  # a relay that asks for more than ten minutes is asked again after ten


@dataclass(frozen=True, slots=True)
class Answer:
    """A refusal taken apart."""

    prefix: str
    """Empty where the relay gave none that NIP-01 knows."""
    text: str
    """The whole text, cut at 200 characters: it goes to logs and to the status."""
    advice: ReasonAction
    wait: float | None = None
    """Seconds, where the relay said how long."""


def read_answer(text: str) -> Answer:
    """Take the text of an OK or a CLOSED apart; one without a known prefix may pass by itself."""
    match = _PREFIX.match(text)
    prefix = match.group(1) if match and match.group(1) in _ADVICE else ""
    advice = _ADVICE.get(prefix, ReasonAction.AGAIN)
    asked = _SECONDS.search(text.lower()) if advice is ReasonAction.SLOWER else None
    return Answer(
        prefix=prefix,
        text=printable(text),
        advice=advice,
        wait=min(float(asked.group(1)), _MOST_ASKED) if asked else None,
    )


def printable(text: str) -> str:
    """A relay's text as it may stand in a log: no control characters, at most 200 of the rest."""
    return "".join(char if char.isprintable() else " " for char in text[:200])


def is_worth_logging(count: int) -> bool:
    """Tell whether the count-th of many alike is worth more than a debug line: the 1st, 10th, 100th ... are."""
    return count > 0 and set(str(count)[1:]) <= {"0"} and str(count)[0] == "1"


_MOST_GREETINGS: Final = 2
"""AUTH was accepted and the relay asks again: once may be a race, twice is a no."""

Authenticate = Callable[[], Awaitable[str]]
"""Gives "" when the relay accepted who we are, else why it did not."""


class RetryPolicy:
    """How often one thing has been refused, and so how long to wait."""

    def __init__(self, timings: RelayTimeouts, rng: Random) -> None:
        self._again = Backoff(timings.redo_first, timings.redo_most, rng)
        self._slower = Backoff(timings.rate_limited, timings.redo_most, rng)
        self._refused = Backoff(timings.refused_first, timings.refused_most, rng)
        self._greetings = 0

    async def wait_or_report(self, answer: Answer, authenticate: Authenticate, refused: Callable[[str], None]) -> None:
        """Return when the time to try again has come, whatever the answer; `refused` takes the reason of a no."""
        why = await self.wait(answer, authenticate)
        if why:
            refused(why)
            await asyncio.sleep(self._refused.next())
            self._greetings = 0

    async def wait(self, answer: Answer, authenticate: Authenticate) -> str:
        """Do what the answer asks for and return "" when the time to try again has come; else why there is none."""
        match answer.advice:
            case ReasonAction.AUTH:
                self._greetings += 1
                if self._greetings > _MOST_GREETINGS:
                    return f"{answer.text} (though it accepted our AUTH)"
                why = await authenticate()
                return f"{answer.text} ({why})" if why else ""
            case ReasonAction.SLOWER:
                pause = self._slower.next()
                # a share on top of what it asked for, so that those who were refused together do not return together
                await asyncio.sleep(pause if answer.wait is None else answer.wait + pause / 4)
                return ""
            case ReasonAction.AGAIN:
                await asyncio.sleep(self._again.next())
                return ""
            case ReasonAction.FINAL | ReasonAction.HAVE:
                return answer.text
            case _:
                assert_never(answer.advice)

    def reset(self) -> None:
        """Forget the refusals: it went well for long enough."""
        self._again.reset()
        self._slower.reset()
        self._refused.reset()
        self._greetings = 0
