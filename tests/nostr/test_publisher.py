"""What our keys sign for a relay, and what they do not."""

import pytest

from tenex.nostr.compose import Publisher
from tenex.nostr.events import unsigned_event
from tenex.nostr.pool import RelayPool
from tenex.nostr.subscriptions import KINDS

from .kit import ALICE, BOB, FAST, NOW


@pytest.mark.parametrize(("key", "kind", "why"), [(ALICE, 0, "kind 0"), (ALICE, 5, "kind 5"), (BOB, 1, "the key")])
async def test_only_messages_by_our_keys_are_signed(key: object, kind: int, why: str) -> None:
    """A journal that was carried here may hold anything, such as a profile or a deletion by one of our keys."""
    relays = RelayPool([], on_event=lambda event, relay: None, timeouts=FAST)
    publisher = Publisher(relays, {ALICE.public: ALICE}, KINDS)
    event = unsigned_event((ALICE if key is ALICE else BOB).public, NOW, kind, [], "hello")
    outcome = await publisher.publish(event, "ws://127.0.0.1:9")
    assert not outcome.accepted
    assert why in outcome.detail
