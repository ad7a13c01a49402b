"""What clients of the control socket can watch: what becomes durable, and what agents with output states write.

Private segments are for the operator alone: they go through the socket (0600, the daemon's own user) and through no
relay. Nothing is kept while no client watches.
"""

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Final

from tenex.core.conversation import Conversation
from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId
from tenex.core.ports import Clock
from tenex.core.records import Record
from tenex.operations.conversation_status import status_with_usage
from tenex.operations.transcript import TranscriptRenderer
from tenex.output_states import OutputProgress

from .typing_indicators import suppress_errors

KEPT: Final = 1_000
"""Entries kept for clients: at a hundred a second far more than comes between two of their requests."""
LINE_LENGTH: Final = 400
"""Characters of a transcript line's text: a terminal shows a line or two of it."""
SEGMENT_LENGTH: Final = 4_000
"""Characters shown of a segment: a program may have twenty thousand."""
PATIENCE: Final = 20.0
"""Seconds a request waits for something new."""
WATCHERS: Final = 8
"""Requests that may wait at the same time: half of the socket's clients, so that orders and monitors find room."""
GONE: Final = 60.0
"""Seconds without a request after which no client watches."""


class WatchStream:
    """Keeps the newest entries while a client watches. An `Observer`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._transcripts: dict[ConversationId, TranscriptRenderer] = {}
        self._kept: deque[tuple[int, dict[str, Any]]] = deque(maxlen=KEPT)
        self._number = 0
        self._news = asyncio.Event()
        self._asked: float | None = None
        self._waiting = 0

    @property
    def is_awaited(self) -> bool:
        """Whether a request waits for the next entry."""
        return self._waiting > 0

    @property
    def is_watched(self) -> bool:
        """Whether a client watches."""
        return self._asked is not None and (self.is_awaited or time.monotonic() - self._asked <= GONE)

    @suppress_errors
    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:
        """Add `{"kind": "lines", "conversation", "lines", "status"}`; `status` as in `tenex status`, with the usage."""
        if not self.is_watched:
            self._transcripts.clear()
            return
        transcript = self._transcripts.get(conversation.id)
        if transcript is None:
            transcript = self._transcripts[conversation.id] = TranscriptRenderer()
            transcript.follow(conversation)
        lines = [line for record in records for line in transcript.render(record)]
        shown = [{**asdict(line), "text": line.text[:LINE_LENGTH]} for line in lines]
        status = status_with_usage(conversation, self._clock.now())
        self._add({"kind": "lines", "conversation": conversation.id, "lines": shown, "status": status})
        if conversation.cycle.status != "active":
            del self._transcripts[conversation.id]

    def on_output(self, progress: OutputProgress) -> None:
        """Add what an agent writes."""
        self._add(asdict(replace(progress, text=progress.text[:SEGMENT_LENGTH])))

    def _add(self, entry: dict[str, Any]) -> None:
        if not self.is_watched:
            self._kept.clear()
            return
        self._number += 1
        self._kept.append((self._number, entry))
        self._news.set()
        self._news = asyncio.Event()

    async def watch(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """`watch`: the entries after number `after`, once there is one; an empty list after `PATIENCE` seconds.

        Without `after` it returns the current number at once.

        Raises:
            UsageError: `after` is no number, or `WATCHERS` others wait.
        """
        after = request.get("after")
        if after is not None and type(after) is not int:
            raise UsageError('"after" is the number that the last answer gave')
        self._asked = time.monotonic()
        if after is None:
            return {"after": self._number, "entries": []}
        if after >= self._number:
            if self._waiting >= WATCHERS:
                raise UsageError(f"{WATCHERS} others watch at this moment; end one of those chats, or try again")
            self._waiting += 1
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE):
                        await self._news.wait()
            finally:
                self._waiting -= 1
        self._asked = time.monotonic()
        return {"after": self._number, "entries": [entry for number, entry in self._kept if number > after]}
