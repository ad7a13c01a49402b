"""How much a server may send, however it is reached: sizes, numbers, and the sentences that name what was exceeded.

They are constants: no honest server comes near, so there is nothing to adjust. What waits for an answer has a timeout
of its own beside them.
"""

import time
from collections.abc import Callable
from typing import Final

from tenex.core.errors import RemoteError

MB: Final = 1024**2

LARGEST_MESSAGE: Final = 4 * MB
"""Bytes of one message or answer: no result of a tool needs more, and one is in memory several times."""
MOST_MESSAGES: Final = 2_000
"""In a minute: each is a task for a moment, and one that asks us something until we have answered it."""
MOST_STREAMS: Final = 20
"""Streams for notifications that are begun in a minute: a server may end each at once, and they are begun again."""
MOST_TOOLS: Final = 500
MOST_PAGES: Final = 50
"""Of a list of tools: a page may be empty, and name another one after it."""
LARGEST_LIST: Final = 4 * MB
"""Bytes of the names, descriptions and schemas in a list of tools."""
LARGEST_LISTS: Final = 64 * MB
"""Bytes of all lists of one connection: the SDK keeps something of each tool it has ever seen."""
MINUTE: Final = 60.0

TOO_LARGE: Final = f"it sent a message of more than {LARGEST_MESSAGE // MB} MB"
TOO_MANY_MESSAGES: Final = f"it sent more than {MOST_MESSAGES:,} messages in a minute"
TOO_MANY_STREAMS: Final = f"it ended its streams of notifications more than {MOST_STREAMS} times in a minute"
TOO_MANY_PAGES: Final = f"its list of tools has more than {MOST_PAGES} pages"
TOO_LONG_LIST: Final = f"its list of tools has more than {LARGEST_LIST // MB} MB"
TOO_MANY_TOOLS: Final = (
    f"it has more than {MOST_TOOLS} tools, and the others are left out: name those that you want in its `tools`"
)
"""A remark: the server is used."""
TOO_MANY_LISTS: Final = f"the lists of tools that it sent have more than {LARGEST_LISTS // MB} MB"
COMPRESSED: Final = "it sent a compressed answer, which was not asked for"

EXCEEDED: Final = frozenset(
    {
        TOO_LARGE,
        TOO_MANY_MESSAGES,
        TOO_MANY_STREAMS,
        TOO_MANY_PAGES,
        TOO_LONG_LIST,
        TOO_MANY_LISTS,
        COMPRESSED,
    }
)
"""The reasons for which we end a connection, in contrast to those for which one ends."""


class LimitExceeded(RemoteError):
    """A server has sent more than it may; the message is one of `EXCEEDED`."""


class Rate:
    """Counts what comes in a minute."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._since = clock()
        self._count = 0

    def takes(self, number: int = 1) -> bool:
        """Count so many; whether that is within the limit."""
        now = self._clock()
        if now - self._since >= MINUTE:
            self._since = now
            self._count = 0
        self._count += number
        return self._count <= self._most
