"""How many notices a chat was sent in a day: who reacts to questions of others cannot have us write without end.

A conversation counts its own in its state. But a guest may begin any number of conversations, so what counts is what
all those of one room have had together. It is counted since the daemon was started.
"""

from collections import defaultdict, deque
from collections.abc import Sequence

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.ids import Millis
from tenex.core.people.trust import chat_of
from tenex.core.totals.costs import DAY


class Notices:
    """Counts what authors of answers that do not count were sent. An `Observer`."""

    def __init__(self) -> None:
        self._sent: defaultdict[str, deque[Millis]] = defaultdict(deque)
        """When, by the chat of the conversation."""

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> None:
        """Count those among these records."""
        for record in records:
            if isinstance(record, r.AnswerUncounted):
                self._sent[chat_of(conversation.identity.address)].append(record.at)

    def in_a_day(self, chat: str, now: Millis) -> int:
        """How many a chat was sent in the last 24 hours."""
        sent = self._sent.get(chat)
        while sent and now - sent[0] >= DAY:
            sent.popleft()
        return len(sent or ())
