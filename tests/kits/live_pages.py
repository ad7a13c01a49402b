"""The stream of a page, and a conversation that goes on while it is shown."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tenex.core.ids import ConversationId
from tests.cli.journals import Decisions, renamed
from tests.web.kit import Received, Served, asking, events


class Stream:
    """A stream, and what was received of it."""

    def __init__(self, received: AsyncIterator[Received]) -> None:
        self._received = received
        self.all: list[Received] = []

    async def until(self, name: str) -> Received:
        """The next event of that name."""
        async for item in self._received:
            self.all.append(item)
            if item.name == name:
                return item
        raise AssertionError(f"the stream ended without {name}: {self.all}")

    async def until_data(self, name: str, data: str) -> None:
        """The next event of that name with that data."""
        while (await self.until(name)).data != data:
            pass

    async def until_seq(self, seq: int) -> None:
        """All up to that record."""
        while max((item.id or 0 for item in self.all), default=0) < seq:
            self.all.append(await anext(self._received))

    def ids(self) -> list[int | None]:
        return [item.id for item in self.all if item.name == "entry"]


@asynccontextmanager
async def opened(pages: Served, path: str, last: int = 0) -> AsyncIterator[Stream]:
    """A tab's stream while the context lasts; `last` is the id that the browser has seen."""
    headers = {"last-event-id": str(last)} if last else {}
    async with asyncio.timeout(60), pages.client.stream("GET", f"{pages.base}{path}", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Stream(events(answer))


def split(name: ConversationId) -> tuple[Decisions, Decisions]:
    """A conversation until its question, and how it goes on with the answer."""
    scenario = asking()
    count = len(scenario.journal)
    scenario.converse("blue", reply_to=next(iter(scenario.conversation.work.asks)))
    decisions = renamed(name, scenario.journal)
    return decisions[:count], decisions[count:]
