"""What relays may be asked for: of a direct message only the notes that its text names."""

import pytest

from tenex.core.ids import EventId
from tenex.core.signals import InboundMessage
from tenex.features.quotations.finder import named_in_public
from tenex.nostr.keys import nevent
from tenex.nostr.threading.direct import CHAT, DIRECT
from tests.nostr.kit import FRIEND, OURS, PERSON, PROJECT, RELAY, note

PUBLIC, INNER = EventId("7" * 64), EventId("8" * 64)
SHARED = f"nostr:{nevent(PUBLIC, RELAY, FRIEND.public, 1)}"


def direct(text: str, *tags: list[str]) -> InboundMessage:
    event = note(text, by=PERSON, kind=CHAT, tags=[["p", PROJECT.public], *tags])
    message = DIRECT.read(event, OURS, {}, RELAY, None)
    assert message is not None
    return message


@pytest.mark.parametrize(
    ("text", "tags", "public"),
    [
        ("Well?", [["e", INNER]], set()),
        ("Well?", [["q", INNER, RELAY]], set()),
        ("Well?", [["e", INNER, "", "mention"]], set()),
        (f"See {SHARED}", [["q", PUBLIC, RELAY], ["e", INNER]], {PUBLIC}),
        (f"See {SHARED}", [["e", PUBLIC]], set()),
        (f"See nostr:{nevent(INNER, RELAY, FRIEND.public, CHAT)} and {SHARED}", [], {PUBLIC}),
    ],
    ids=["a reply", "a quotation by a tag", "a mention by a tag", "a note", "a reply to what it names", "a kind 14"],
)
def test_only_a_note_that_the_text_names_is_public(text: str, tags: list[list[str]], public: set[EventId]) -> None:
    assert named_in_public(direct(text, *tags)) == public
