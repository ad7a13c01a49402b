"""What is asked of the daemon's answers, whichever client received them. An answer is an event as NIP-01 writes it."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from typing import Any

from tenex.core.phases import PHASE_TRANSITIONS
from tests.service.kit import PATIENCE

from .daemons import Daemon

Answer = dict[str, Any]

CYCLE = ["execute", "reflection"]
"""The phases in which a request that is built, tested, tidied and looked back on is answered: by its result when it was
built, and by the last word on the cycle."""


def tags(answer: Answer, name: str) -> list[list[str]]:
    return [tag for tag in answer["tags"] if tag[0] == name]


def value(answer: Answer, name: str) -> str:
    """The value of the only tag of a name; "" where there is none."""
    found = tags(answer, name)
    assert len(found) <= 1, f"{len(found)} tags {name} in {answer}"
    return found[0][1] if found else ""


def marked(answer: Answer, marker: str) -> list[str] | None:
    """The e tag with this marker (NIP-10); None where there is none."""
    return next((tag for tag in tags(answer, "e") if tag[3:4] == [marker]), None)


def root_of(answer: Answer) -> str:
    """The root of the thread of a note; "" if there is none."""
    return (marked(answer, "root") or ["e", ""])[1]


def parent_of(answer: Answer) -> str:
    """What a note answers: with only a root marker, the root itself."""
    return (marked(answer, "reply") or marked(answer, "root") or ["e", ""])[1]


def phases(answers: Sequence[Answer]) -> list[str]:
    """The phases the answers were given in, each as long as it lasted."""
    return [phase for phase, _ in groupby(value(answer, "phase") for answer in answers)]


def is_complete(answer: Answer) -> bool:
    """Whether an agent has completed its work with this."""
    return value(answer, "status") == "completed"


def is_confirmation(answer: Answer) -> bool:
    """Whether it is the last word on a cycle, which comes after the result that its reader has had."""
    return bool(answer["content"].startswith("Done.\n"))


def notified(answer: Answer) -> list[str]:
    """The keys that an answer calls, each of which rings a phone."""
    return [tag[1] for tag in tags(answer, "p")]


def closed(cycle: int = 1) -> Callable[[Sequence[Answer]], bool]:
    """Ask whether the last word on that many cycles has come."""
    return lambda answers: sum(map(is_confirmation, answers)) == cycle


def answered(root: str) -> Callable[[Sequence[Answer]], bool]:
    """Ask whether an agent has completed anything in a thread of notes."""
    return lambda answers: any(is_complete(answer) and root_of(answer) == root for answer in answers)


def check_order(answers: Sequence[Answer]) -> None:
    """Clients sort by `created_at`: the order in which answers came must be the order they show."""
    dates = [answer["created_at"] for answer in answers]
    assert all(earlier < later for earlier, later in pairwise(dates)), dates


def check_transitions(answers: Sequence[Answer], begin: str = "chat") -> None:
    """The first answer after a transition names the phase it came from, and no other does."""
    before = begin
    for answer in answers:
        phase, came_from = value(answer, "phase"), value(answer, "phase-from")
        assert value(answer, "new-phase") == (phase if phase != before else ""), answer
        assert bool(came_from) == (phase != before), answer
        assert not came_from or PHASE_TRANSITIONS.permits(came_from, phase), answer
        before = phase


class Client:
    """Somebody's client, which notes what it receives."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self.received: list[Answer] = []
        """Events by others, in the order of arrival."""

    async def listen(self, **wanted: Any) -> None:
        """Receive what matches a filter, stored and new; `_` is the `#` of tags."""
        raise NotImplementedError

    async def note(self, answer: Answer) -> None:
        self.received.append(answer)
        async with self._changed:
            self._changed.notify_all()

    async def until(self, holds: Callable[[list[Answer]], object]) -> None:
        """Wait until the received events are as asked."""
        try:
            async with asyncio.timeout(PATIENCE), self._changed:
                await self._changed.wait_for(lambda: holds(self.received))
        except TimeoutError:
            printed = "\n".join(f"{a['kind']} {a['pubkey'][:8]} {a['content'][:80]!r}" for a in self.received)
            raise AssertionError(f"after {PATIENCE:g} s only this was received:\n{printed}") from None

    async def finds(self, daemon: Daemon) -> None:
        """Wait until every key of the daemon has introduced itself: from then on it listens, too."""
        await self.listen(kinds=[10002], authors=sorted(daemon.agent_keys))
        await self.until(lambda received: {event["pubkey"] for event in received} == daemon.agent_keys)
        self.received.clear()
