"""Workflows and missions as users meet them: an operator's files, mentions that start them, a thread to read."""

from typing import Any

from tenex.core.ids import PublicKey
from tenex.nostr.keys import KeyRing

from . import person
from .kit import Folder


def put(folder: Folder, name: str, text: str) -> None:
    place = folder.data / "config" / "workflows" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def key_of(folder: Folder, name: str) -> PublicKey:
    """The key of a workflow; the daemon has made it."""
    return KeyRing(folder.data / "keys").get(name).public


async def begin(folder: Folder, text: str, name: str) -> str:
    """A second client begins it by its p tag alone: it knows nothing of the project."""
    note = person.note(folder.owner, text, ["p", key_of(folder, name)])
    await person.publish(folder.url, note)
    return str(note["id"])


async def delivered_events(folder: Folder, name: str) -> list[dict[str, Any]]:
    """The events of our keys that the relay keeps of a thread, in order."""
    await person.until(lambda: not folder.state(name).outbox)
    return [event for event in await person.stored(folder.url, _e=[name]) if event["pubkey"] != folder.owner.public]


def tags(event: dict[str, Any]) -> dict[str, str]:
    """An event's tags, the first value of each."""
    return {tag[0]: tag[1] for tag in event["tags"] if len(tag) > 1}
