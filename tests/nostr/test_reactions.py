"""Reactions: which event one is about, and that ours are none."""

from typing import Any

import pytest

from tenex.nostr.reactions import REACTION, read_reaction

from .kit import ALICE, BOB, RELAY, note

FIRST, LAST = "1" * 64, "2" * 64


def reaction(*tags: list[str], **more: Any) -> Any:
    return note("👍", tags=tags, **{"kind": REACTION, **more})


def test_it_is_about_the_last_event_it_names() -> None:
    reading = read_reaction(reaction(["e", FIRST], ["e", LAST], ["p", BOB.public]), {BOB.public}, RELAY)
    assert reading is not None
    assert (reading.reply_to, reading.references, reading.text) == (LAST, (LAST,), "👍")
    assert (reading.author, reading.is_reaction, reading.starts) == (ALICE.public, True, False)


@pytest.mark.parametrize("tags", [(), (["e"],), (["e", "nonsense"],), (["a", "31933:x:y"],)])
def test_without_an_event_it_is_none(tags: tuple[list[str], ...]) -> None:
    assert read_reaction(reaction(*tags), set(), RELAY) is None


def test_one_of_our_own_keys_and_other_kinds_are_none() -> None:
    assert read_reaction(reaction(["e", LAST]), {ALICE.public}, RELAY) is None
    assert read_reaction(reaction(["e", LAST], kind=1), set(), RELAY) is None
