"""Answers to messages of a person, before they are signed."""

from tenex.core.ports import OutgoingMessage
from tests.nostr.kit import PERSON, PROJECT, answer, read, written

ADDRESS = f"31933:{PERSON.public}:demo"


def draft(
    text: str = "hello", *tags: tuple[str, ...], kind: int = 1, relay: str = "wss://seen.example", group: str = ""
) -> OutgoingMessage:
    """Answer a person's message of a kind, as the journal gives it back."""
    asked = read(written(["p", PROJECT.public], *([["h", group]] if group else []), kind=kind), relay)
    return answer(asked, asked, text, *tags)
