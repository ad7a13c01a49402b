"""The meaning of the text of an OK or a CLOSED, and the wait before `RelayConnection.publish` or a REQ tries again."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final, assert_never

from tenex.core.backoff import Backoff

from .timeouts import RelayTimeouts


class ReasonAction(Enum):
    """What to do about a refusal."""

    HAVE = "have"
    """The relay already has the event: success."""
    AUTH = "auth"
    """Authenticate (NIP-42), then try again."""
    SLOWER = "slower"
    """Wait as long as the relay asks, then try again."""
    AGAIN = "again"
    """Back off, then try again: the failure may be temporary."""
    FINAL = "final"
    """A retry would not help; the failure must be reported."""


_ACTIONS: Final = {
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
class RelayAnswer:
    """A parsed refusal."""

    prefix: str
    """Empty if the relay gave none of NIP-01's."""
    text: str
    """The text, cut at 200 characters, for logs and the status."""
    action: ReasonAction
    wait: float | None = None
    """Seconds, if the relay gave a number."""


def read_answer(text: str) -> RelayAnswer:
    """Parse the text of an OK or a CLOSED; a failure without a known prefix may be temporary."""
    match = _PREFIX.match(text)
    prefix = match.group(1) if match and match.group(1) in _ACTIONS else ""
    action = _ACTIONS.get(prefix, ReasonAction.AGAIN)
    asked = _SECONDS.search(text.lower()) if action is ReasonAction.SLOWER else None
    return RelayAnswer(
        prefix=prefix,
        text=printable(text),
        action=action,
        wait=min(float(asked.group(1)), _MOST_ASKED) if asked else None,
    )


def printable(text: str) -> str:
    """A relay's text made safe for logs: no control characters, at most 200 characters."""
    return "".join(char if char.isprintable() else " " for char in text[:200])


def is_worth_logging(count: int) -> bool:
    """Whether the count-th of many similar events deserves more than a debug line: the 1st, 10th, 100th ... do."""
    return count > 0 and set(str(count)[1:]) <= {"0"} and str(count)[0] == "1"


_MOST_AUTHS: Final = 2
"""The relay asks again after it accepted AUTH: once may be a race, twice is a refusal."""

Authenticate = Callable[[], Awaitable[str]]
"""Returns "" if the relay accepted the AUTH, else why it did not."""


class RetryPolicy:
    """Counts how often one request was refused, and waits accordingly."""

    def __init__(self, timeouts: RelayTimeouts, rng: Random) -> None:
        self._again = Backoff(timeouts.redo_first, timeouts.redo_most, rng.uniform)
        self._slower = Backoff(timeouts.rate_limited, timeouts.redo_most, rng.uniform)
        self._refused = Backoff(timeouts.refused_first, timeouts.refused_most, rng.uniform)
        self._auths = 0

    async def wait_or_report(
        self, answer: RelayAnswer, authenticate: Authenticate, refused: Callable[[str], None]
    ) -> None:
        """Return when it is time to try again, whatever the answer; `refused` receives the reason of a refusal."""
        why = await self.wait(answer, authenticate)
        if why:
            refused(why)
            await self.pause_after_refusal()

    async def pause_after_refusal(self) -> None:
        """Wait longer after each refusal that may end; then AUTH may be tried again."""
        await asyncio.sleep(self._refused.next())
        self._auths = 0

    async def wait(self, answer: RelayAnswer, authenticate: Authenticate) -> str:
        """Do what the answer asks for; "" when it is time to try again, else the reason not to."""
        match answer.action:
            case ReasonAction.AUTH:
                self._auths += 1
                if self._auths > _MOST_AUTHS:
                    return f"{answer.text} (though it accepted the AUTH)"
                why = await authenticate()
                return f"{answer.text} ({why})" if why else ""
            case ReasonAction.SLOWER:
                pause = self._slower.next()
                # jitter on top of what it asked for, so that clients refused together do not return together
                await asyncio.sleep(pause if answer.wait is None else answer.wait + pause / 4)
                return ""
            case ReasonAction.AGAIN:
                await asyncio.sleep(self._again.next())
                return ""
            case ReasonAction.FINAL | ReasonAction.HAVE:
                return answer.text
            case _:
                assert_never(answer.action)

    def reset(self) -> None:
        """Forget the refusals after it has worked for long enough."""
        self._again.reset()
        self._slower.reset()
        self._refused.reset()
        self._auths = 0
