"""Writes single messages to conversations of this data folder, signed with its owner's key, for a program.

Each message has the label `BY_PROGRAM`, so that the daemon takes it as text alone: no command, and no yes to what only
a person decides.
"""

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import Final

from tenex.core.conversation import Conversation
from tenex.core.errors import RelayUnavailable, TransientError, UsageError
from tenex.core.ids import PublicKey
from tenex.core.people.trust import room_of
from tenex.core.text.foreign import well_formed
from tenex.nostr.events import Event, sign, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.threading.base import BY_PROGRAM, Tag, group_tags
from tenex.nostr.threading.comments import COMMENT, parent_tags
from tenex.nostr.threading.notes import NOTE

CONNECTS_WITHIN: Final = 5.0
"""Seconds to wait for a relay."""

ANSWERS_WITHIN: Final = 15.0
"""Seconds to wait for its answer to an event."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A message that another one answers: its event and its author."""

    event: str
    author: PublicKey


class Sender:
    """Sends messages as one user to one project."""

    def __init__(self, key: SecretKey, project: PublicKey, relay: str) -> None:
        self._key = key
        self._project = project
        self._relay = relay
        self._newest = 0
        """When the last message was dated, in seconds: relays give those of one second in any order."""

    async def send(self, text: str, where: Conversation | None = None, answered: Answered | None = None) -> str:
        """Send a message, to a conversation or as the beginning of one, and return the id of its event.

        Raises:
            UsageError: the conversation is in direct messages.
            TransientError: the relay did not take it, or did not answer in time.
        """
        address = where.identity.address if where is not None else {}
        if room_of(address):
            raise UsageError("Nothing was sent: this conversation is private. Write there with your own Nostr client.")
        relays = address.get("relays") or ()
        url = str(relays[0]) if address.get("group") and relays else self._relay
        self._newest = max(int(time.time()), self._newest + 1)
        kind, tags = self._tags(where, answered, url)
        labels: tuple[Tag, ...] = (("L", BY_PROGRAM[2]), BY_PROGRAM)
        unique = ("uid", secrets.token_hex(8))  # equal texts in one second are two messages
        draft = unsigned_event(self._key.public, self._newest, kind, [*tags, *labels, unique], well_formed(text))
        event = sign(draft, self._key)
        await _publish(event, url, self._key)
        return event.id

    def _tags(self, where: Conversation | None, answered: Answered | None, url: str) -> tuple[int, tuple[Tag, ...]]:
        """The kind of a message, and the tags that place it in its conversation, as a client of that form writes."""
        if where is None:
            return NOTE, (("p", self._project),)
        address = where.identity.address
        author = ("p", answered.author if answered is not None else self._project)
        group = group_tags(address)
        if address.get("form") == "threads":
            scope = tuple(tuple(map(str, tag)) for tag in address["scope"])
            parent = parent_tags(scope)
            if answered is not None:
                parent = (("e", answered.event, url, answered.author), ("k", str(COMMENT)))
            return COMMENT, (*scope, *parent, author, *group)
        root = str(address.get("root") or where.id)
        reply = (("e", answered.event, url, "reply"),) if answered is not None and answered.event != root else ()
        return NOTE, (("e", root, url, "root"), *reply, author, *group)


async def _publish(event: Event, url: str, identity: SecretKey) -> None:
    pool = RelayPool([url], on_event=lambda _event, _relay: None, identity=identity)
    fault = ""
    async with asyncio.TaskGroup() as group:
        running = group.create_task(pool.run(), name="relay")
        try:
            await pool.connected(CONNECTS_WITHIN)
            async with asyncio.timeout(ANSWERS_WITHIN):
                outcome = await pool.publish(event, url)
            fault = "" if outcome.accepted else f"The relay {url} refused the message: {outcome.detail}"
        except RelayUnavailable as error:
            fault = f"Nothing was sent: {error}"
        except TimeoutError:
            fault = (
                f"The relay {url} did not answer within {ANSWERS_WITHIN:g} s. It may have the message: read the "
                "conversation before you send it again."
            )
        finally:
            running.cancel()
    if fault:
        raise TransientError(fault)
