"""Conversations in direct messages as addresses: their rooms, the key that answers, and where the wraps go."""

from contextlib import suppress
from dataclasses import replace

import pytest

from tenex.nostr.compose import NostrSealer
from tenex.nostr.direct import GIFT_WRAP, nip04_decrypt, nip44_decrypt, read_direct
from tenex.nostr.events import Event, parse_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.threading import read_event
from tenex.nostr.threading.direct import CHAT, ENCRYPTED, LARGEST_RUMOR, room_name
from tests.kits.private_chats import CONFIGURED, ELSEWHERE, INBOX, SEALER, draft, message, read

from .kit import FRIEND, OURS, PERSON, PLANNER, PROJECT, RELAY


def test_a_room_is_the_set_of_its_people() -> None:
    first = read(message())
    again = read(message(text="Hello again"))
    assert (first.starts, first.room, str(first.conversation)) == (True, again.room, str(first.event_id))
    assert first.room == room_name([PROJECT.public, PERSON.public])
    assert read(message(by=FRIEND)).room != first.room
    assert read(message(to=PLANNER)).room != first.room
    three = read(message(["p", FRIEND.public]))
    assert three.room == read(message(["p", PERSON.public], by=FRIEND)).room
    assert three.room != first.room
    assert three.address["people"] == sorted([PERSON.public, FRIEND.public])


def test_what_it_answers_is_the_last_event_it_names_and_what_it_mentions_is_not() -> None:
    ids = ["1" * 64, "2" * 64, "3" * 64]
    incoming = read(message(["e", ids[0]], ["e", ids[1], "", "reply"], ["e", ids[2], "", "mention"]))
    assert incoming.reply_to == ids[1]
    assert incoming.references == (ids[1], ids[0])
    assert incoming.quotes == (ids[2],)


def test_relays_have_no_event_that_the_public_schemes_read_as_one_of_these() -> None:
    for kind in (CHAT, ENCRYPTED):
        assert read_event(message(kind=kind), OURS, {}, RELAY, None) is None


def test_a_group_tag_within_does_not_lead_out() -> None:
    incoming = read(message(["h", "group"]))
    assert "group" not in incoming.address
    assert SEALER.relays(draft(incoming)) == ()


def test_one_key_answers_with_the_name_of_who_speaks() -> None:
    to_planner = read(message(to=PLANNER))
    (event,) = SEALER.seal(draft(to_planner, to_planner))
    assert (event.pubkey, event.kind, event.sig) == (PLANNER.public, CHAT, "")
    assert event.content == "Demo: Answer"
    assert ("p", PERSON.public) in event.tags
    assert ("e", to_planner.event_id) in event.tags
    assert ("phase", "chat") in event.tags
    (listed,) = SEALER.seal(draft(to_planner, text="- one\n- two"))
    assert listed.content == "Demo:\n- one\n- two"
    (own,) = SEALER.seal(draft(read(message())))
    assert own.content == "Answer", "the key is the speaker's own"


def test_a_wrap_goes_to_the_relays_of_its_reader_alone() -> None:
    opener = read(message(["p", FRIEND.public]), {PERSON.public: [INBOX]})
    drafted = draft(opener, opener)
    events = SEALER.seal(drafted)
    wraps = SEALER.wraps(drafted, events)
    readers = {wrap.event.tags[0][1]: wrap for wrap in wraps}
    assert readers.keys() == {PERSON.public, FRIEND.public}
    assert readers[PERSON.public].relays == (INBOX,)
    assert readers[FRIEND.public].relays == (RELAY,), "where the message came in: nothing else is known"
    assert (SEALER.relays(drafted), SEALER.others(drafted)) == ((), ())
    for person in (PERSON, FRIEND):
        wrap = readers[person.public].event
        assert (wrap.kind, wrap.tags) == (GIFT_WRAP, (("p", person.public),))
        whole = parse_event({name: getattr(wrap, name) for name in Event.model_fields})
        inner = read_direct(whole, {person.public: person})
        assert inner is not None
        assert inner.event.id == events[0].id


def test_who_has_an_encryption_key_of_their_own_gets_a_wrap_for_each() -> None:
    """They may use a client of either sort; a client shows the same message once."""
    own = SecretKey.generate()
    opener = read(message(["p", FRIEND.public]), {PERSON.public: [INBOX]})
    keys = {"encryption_keys": {PERSON.public: own.public, FRIEND.public: "f" * 64}}
    drafted = draft(replace(opener, address={**opener.address, **keys}))
    wraps = SEALER.wraps(drafted, SEALER.seal(drafted))
    assert [wrap.event.tags for wrap in wraps if wrap.relays == (INBOX,)] == [(("p", PERSON.public),)] * 2
    assert len(wraps) == 3, "a key that is none leaves the others"
    opened = []
    for wrap in wraps:
        for key in (PERSON, own):
            with suppress(ValueError):
                opened.append((key, nip44_decrypt(wrap.event.content, key.shared_secret(wrap.event.pubkey))))
    assert {key for key, _ in opened} == {PERSON, own}


def test_later_relays_of_a_reader_count_and_none_where_none_are_known() -> None:
    opener = read(message(), {PERSON.public: [INBOX]})
    later = read(message(text="Later"), {PERSON.public: [ELSEWHERE]})
    for answered, relays in ((later, (ELSEWHERE,)), (None, (INBOX,)), (read(message(text="x")), (INBOX,))):
        drafted = draft(opener, answered)
        assert [wrap.relays for wrap in SEALER.wraps(drafted, SEALER.seal(drafted))] == [relays]


def test_our_own_keys_in_a_room_get_no_wrap_and_without_a_key_there_is_none() -> None:
    opener = read(message(["p", PLANNER.public]))
    drafted = draft(opener)
    assert len(SEALER.wraps(drafted, SEALER.seal(drafted))) == 1
    keyless = NostrSealer([CONFIGURED])
    assert keyless.wraps(drafted, keyless.seal(drafted)) == ()
    legacy = draft(read(message(kind=ENCRYPTED)))
    assert keyless.seal(legacy) == (), "nothing in plain text, ever"


def test_a_long_answer_is_several_messages_in_order() -> None:
    drafted = draft(read(message()), text="A sentence of some words. " * 4_000)
    events = SEALER.seal(drafted)
    assert len(events) > 3
    assert [event.created_at for event in events] == [2000 + number for number in range(len(events))]
    assert all(len(event.content.encode()) < LARGEST_RUMOR for event in events)
    assert len(SEALER.wraps(drafted, events)) == len(events)


def test_a_kind_4_goes_out_encrypted_with_no_tags_of_ours() -> None:
    opener = read(message(kind=ENCRYPTED))
    drafted = draft(opener, opener)
    (event,) = SEALER.seal(drafted)
    assert event.kind == ENCRYPTED
    assert event.tags == (("p", PERSON.public), ("e", opener.event_id))
    assert nip04_decrypt(event.content, PERSON.shared_secret(PROJECT.public)) == "Answer"
    assert SEALER.wraps(drafted, (event,)) == ()
    assert SEALER.relays(drafted) == (RELAY, CONFIGURED)
    assert SEALER.others(drafted) == ()


@pytest.mark.parametrize(("opened", "asked"), [(CHAT, ENCRYPTED), (ENCRYPTED, CHAT)])
def test_both_forms_in_one_room_are_answered_in_the_form_of_the_message(opened: int, asked: int) -> None:
    drafted = draft(read(message(kind=opened)), read(message(kind=asked)))
    (event,) = SEALER.seal(drafted)
    assert event.kind == asked


def test_a_fork_begins_in_the_same_room() -> None:
    opener = read(message())
    event, address = SEALER.begin(draft(opener, text="A fork"), "A fork", [PERSON.public])
    assert (event.kind, event.content) == (CHAT, "A fork")
    assert (address["form"], address["room"], address["root"]) == ("direct", opener.room, event.id)


def test_a_person_whose_key_is_no_key_gets_nothing_and_the_others_do() -> None:
    opener = read(message(["p", "f" * 64]))
    drafted = draft(opener)
    (wrap,) = SEALER.wraps(drafted, SEALER.seal(drafted))
    assert wrap.event.tags == (("p", PERSON.public),)
