"""What becomes durable in conversations, as lines for subscribers of this machine's control socket."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Final

from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId
from tenex.core.ports import Clock
from tenex.core.records import Record
from tenex.operations.conversation_status import conversation_status, usage
from tenex.operations.transcript import TranscriptRenderer

from .run_indicator import suppress_errors
from .thought_stream import Thoughts

TEXT: Final = 400
"""Characters of a line's text: a terminal shows a line or two of it."""


class Activity:
    """Adds to what `watch` returns: `{"kind": "lines", "conversation", "lines": [...], "status": {...}}`.

    An `Observer`. `status` is as in `tenex status`, with the usage. Nothing is kept without a subscriber.
    """

    def __init__(self, thoughts: Thoughts, clock: Clock) -> None:
        self._thoughts = thoughts
        self._clock = clock
        self._stories: dict[ConversationId, TranscriptRenderer] = {}

    @suppress_errors
    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:
        """Add the lines of these records."""
        if not self._thoughts.is_watched:
            self._stories.clear()
            return
        story = self._stories.setdefault(conversation.id, TranscriptRenderer())
        lines = [replace(line, text=line.text[:TEXT]) for record in records for line in story.tell(record)]
        status = {**conversation_status(conversation, self._clock.now()), "usage": usage(conversation)}
        self._thoughts.add(
            {
                "kind": "lines",
                "conversation": conversation.id,
                "lines": [asdict(line) for line in lines],
                "status": status,
            }
        )
        if conversation.status != "active":
            del self._stories[conversation.id]
