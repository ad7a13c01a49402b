"""Deletions (NIP-09) as clients write them: which events they take back."""

from collections.abc import Sequence

import pytest

from tenex.nostr.deletions import MOST, deleted_events
from tenex.nostr.events import Event, parse_event
from tenex.nostr.keys import SecretKey
from tests.service.person import note

ONE, TWO = "1" * 64, "2" * 64
KEY = SecretKey.generate()


def deletion(*tags: Sequence[str], kind: int = 5) -> Event:
    return parse_event(note(KEY, "a mistake", *tags, kind=kind))


@pytest.mark.parametrize(
    ("tags", "deleted"),
    [
        ([["e", ONE]], (ONE,)),
        ([["e", ONE, "wss://relay.example.com"], ["k", "1"]], (ONE,)),
        ([["e", ONE], ["e", TWO], ["e", ONE], ["k", "1"], ["k", "1111"]], (ONE, TWO)),
        ([["e", ONE], ["a", f"30023:{'a' * 64}:page"]], (ONE,)),
        ([["a", f"30023:{'a' * 64}:page"]], ()),  # what we read has no address, so no such deletion concerns it
        ([["a", f"1:{'a' * 64}:{ONE}"], ["E", ONE], ["q", ONE], ["p", ONE]], ()),
        ([["e"], ["e", ""], ["e", "note1xyz"], ["e", ONE.upper()[:-1] + "G"], ["e", TWO]], (TWO,)),
        ([], ()),
    ],
)
def test_a_deletion_takes_back_the_events_it_names(tags: list[list[str]], deleted: tuple[str, ...]) -> None:
    assert deleted_events(deletion(*tags)) == deleted


def test_an_event_of_another_kind_takes_back_nothing() -> None:
    assert deleted_events(deletion(["e", ONE], kind=1)) == ()


def test_of_a_very_long_deletion_the_first_events_are_looked_at() -> None:
    tags = [["e", f"{number:064x}"] for number in range(MOST + 50)]
    assert len(deleted_events(deletion(*tags))) == MOST
