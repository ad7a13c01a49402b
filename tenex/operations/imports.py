"""What comes from another folder: how its journal is known, and the record that closes it (ADR 44)."""

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

from tenex.core.conversation import Conversation, fold
from tenex.core.delivery.records import MessageSent
from tenex.core.ids import ConversationId, Millis, PublicKey, Slug
from tenex.core.records import ConversationImported, JournalRebuilt, Record, RunStarted
from tenex.core.snapshot import StateSnapshot
from tenex.nostr.threading import SCHEMES
from tenex.nostr.threading.base import MAX_TITLE, is_hex64
from tenex.nostr.threading.comments import THREAD, scope_tags
from tenex.nostr.threading.direct import CHAT
from tenex.nostr.threading.threads import THREADS

_SCHEMES: Final = {scheme.name: scheme for scheme in SCHEMES}


def import_record(state: Conversation, agent: Slug, now: Millis) -> ConversationImported:
    """The record that ends what was written elsewhere.

    Args:
        state: the conversation after the last record of that.
        agent: the agent that answers alone by the settings of this folder; "" for none.
        now: the time of the import.
    """
    return ConversationImported(
        seq=state.next_seq, at=now, agent=agent, address=own_address(state.id, state.identity.address)
    )


def closing_of(
    conversation: ConversationId, records: Sequence[Record], ours: Container[PublicKey], agent: Slug, now: Millis
) -> ConversationImported | None:
    """The record that is missing at the end of a journal that was copied to here; None for one of this folder."""
    if not comes_from_elsewhere(records, ours):
        return None
    return import_record(fold(conversation, records), agent, now)


def comes_from_elsewhere(records: Sequence[Record], ours: Container[PublicKey]) -> bool:
    """Whether every agent in a journal has a key that is not of this project: its folder was copied to here.

    What is before its import or rebuild is known to come from elsewhere.
    """
    keys: set[PublicKey] = set()
    for record in records:
        match record:
            case ConversationImported() | JournalRebuilt():
                keys = set()
            case MessageSent(speaker=key) | RunStarted(pubkey=key):
                keys.add(key)
            case StateSnapshot(state=state):
                keys |= {run.pubkey for run in state.work.runs.values()}
                waiting = (event for row in state.delivery.outbox.values() for event in row.events)
                keys |= {event.pubkey for event in waiting if not event.sig}  # the key of a wrap is used once
                keys |= {message.author for message in state.memory.recent if message.role is None and message.author}
            case _:
                pass
    return bool(keys) and not any(key in ours for key in keys)


def thread_address(conversation: ConversationId) -> Mapping[str, Any]:
    """The address of a thread of which only the id is known, in the threading scheme `threads`."""
    return own_address(conversation, {"form": THREADS.name, "root": conversation})


def own_address(conversation: ConversationId, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """The address of the conversation's own thread, with what can be believed of the address that a file names.

    Nothing is sent to a relay that only a file names, nor into the thread of another conversation.
    """
    scheme = _SCHEMES.get(str(named.get("form")))
    if scheme is None or named.get("root") != conversation:
        return thread_address(conversation)
    author = str(named.get("root_author", ""))
    author = author if is_hex64(author) else ""
    address: dict[str, Any] = {
        "form": scheme.name,
        "root": conversation,
        "root_kind": scheme.root_kind,
        "root_author": author,
        "root_relay": "",
        "relays": [],
    }
    if scheme is THREADS:
        address["scope"] = [list(tag) for tag in scope_tags(conversation, "", author, "", THREAD)]
    if scheme.root_kind == CHAT:  # to no one: a file may name anybody
        address |= {"room": str(conversation), "key": "", "people": []}
    if group := named.get("group"):
        address["group"] = str(group)[:MAX_TITLE]
    return address
