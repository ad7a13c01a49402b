"""What happens between a relay's refusal and the next try: one rule for REQs, pages and events."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, assert_never

from .relay_reasons import Answer, ReasonAction
from .timeouts import Backoff, RelayTimeouts

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

    async def outlast(self, answer: Answer, authenticate: Authenticate, refused: Callable[[str], None]) -> None:
        """Return when the time to try again has come, whatever the answer; `refused` takes the reason of a no."""
        why = await self.bear(answer, authenticate)
        if why:
            refused(why)
            await asyncio.sleep(self._refused.next())
            self._greetings = 0

    async def bear(self, answer: Answer, authenticate: Authenticate) -> str:
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
