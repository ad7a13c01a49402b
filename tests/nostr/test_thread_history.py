"""What is shown of a thread that a message calls us into: its root, the way to the message, and the newest others."""

from collections.abc import Sequence

from tenex.nostr.events import Event
from tenex.nostr.keys import SecretKey
from tenex.nostr.thread_history import SHOWN, before, filters_of

from .kit import FRIEND, NOW, PERSON, PROJECT, note, read

TO_US = ["p", PROJECT.public]


def reply(root: Event, parent: Event, at: int, text: str, by: SecretKey = FRIEND) -> Event:
    tags: Sequence[Sequence[str]] = [["e", root.id, "", "root"], ["e", parent.id, "", "reply"]]
    return note(text, by=by, at=at, tags=tags)


def test_a_short_thread_is_shown_whole_from_its_root_on() -> None:
    root = note("root", at=NOW)
    first = reply(root, root, NOW + 1, "first")
    second = reply(root, first, NOW + 2, "second")
    later = reply(root, first, NOW + 9, "later")
    asked = read(
        note("?", by=PERSON, at=NOW + 5, tags=[["e", root.id, "", "root"], ["e", second.id, "", "reply"], TO_US])
    )
    shown = before(asked, [later, second, root, first])
    assert [event.content for event in shown] == ["root", "first", "second"]


def test_of_a_long_thread_the_root_the_parents_and_the_newest_are_shown() -> None:
    root = note("root", at=NOW)
    parent = reply(root, root, NOW + 1, "parent")
    answered = reply(root, parent, NOW + 2, "answered")
    others = [reply(root, root, NOW + 10 + number, f"other {number}") for number in range(40)]
    asked = read(
        note("?", by=PERSON, at=NOW + 100, tags=[["e", root.id, "", "root"], ["e", answered.id, "", "reply"], TO_US])
    )
    shown = [event.content for event in before(asked, [*others, answered, parent, root])]
    assert len(shown) == SHOWN
    assert shown[:3] == ["root", "parent", "answered"]
    assert shown[-1] == "other 39"


def test_a_thread_is_asked_for_by_what_names_its_root() -> None:
    root = note("root", at=NOW)
    in_notes = read(note("?", by=PERSON, tags=[["e", root.id, "", "root"], TO_US]))
    assert {"ids": [root.id]} in filters_of(in_notes)
    assert [wanted["#e"] for wanted in filters_of(in_notes) if "#e" in wanted] == [[root.id]]
    address = f"30023:{FRIEND.public}:a:b"
    on_article = read(note("?", by=PERSON, kind=1111, tags=[["A", address], ["K", "30023"], TO_US]))
    asked = filters_of(on_article)
    assert [wanted["#A"] for wanted in asked if "#A" in wanted] == [[address]]
    assert {"kinds": [30023], "authors": [FRIEND.public], "#d": ["a:b"], "limit": 1} in asked
    on_page = read(note("?", by=PERSON, kind=1111, tags=[["I", "https://a.example"], ["K", "web"], TO_US]))
    assert [wanted["#I"] for wanted in filters_of(on_page)] == [["https://a.example"]]
    assert filters_of(read(note("?", by=PERSON, tags=[TO_US]))) == []
    assert filters_of(read(note("?", by=PERSON, kind=9, tags=[TO_US, ["q", root.id]]))) == []


def test_the_article_comes_first_however_new_it_is() -> None:
    address = f"30023:{FRIEND.public}:herons"
    article = note("All about herons", by=FRIEND, at=NOW - 5, kind=30023, tags=[["d", "herons"]])
    earlier = note("older", by=FRIEND, at=NOW - 9, kind=1111, tags=[["A", address], ["K", "30023"]])
    asked = read(note("?", by=PERSON, at=NOW, kind=1111, tags=[["A", address], ["K", "30023"], TO_US]))
    assert [event.content for event in before(asked, [earlier, article])] == ["All about herons", "older"]
