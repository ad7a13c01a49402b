"""Notes: how kind 1 is read (NIP-10, old and new) and what an answer's tags are."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pynostr import bech32

from tenex.core.ids import PublicKey
from tenex.core.inbox.commands import parse
from tenex.core.ports import OutgoingMessage
from tenex.core.text.names import without_mentions
from tenex.nostr.keys import npub
from tenex.nostr.threading import read_event, scheme_named
from tenex.nostr.threading.base import MAX_PEOPLE, MAX_REFERENCES

from .kit import FRIEND, OURS, PERSON, PLANNER, PROJECT, RELAY, answer_tags, read, relays_first, written

HINT = "wss://other.example"
R, P, X = "a" * 64, "b" * 64, "c" * 64
STRANGER = PublicKey("d" * 64)
TO_US = ["p", PROJECT.public]


def nevent(event_id: str) -> str:
    """The name of an event, with a relay before the id, as some libraries write it."""
    payload = bytes([1, len(HINT), *HINT.encode(), 0, 32, *bytes.fromhex(event_id)])
    return str(bech32.bech32_encode("nevent", bech32.convertbits(payload, 8, 5), bech32.Encoding.BECH32))


def people(tags: list[tuple[str, ...]]) -> list[str]:
    return [tag[1] for tag in tags if tag[0] == "p"]


def test_a_note_that_answers_nothing_is_its_own_root() -> None:
    """A p tag of ours makes it start a conversation named after itself; clients add p tags, so it is no mention."""
    event = written(TO_US, ["p", PLANNER.public])
    incoming = read(event)
    assert str(incoming.conversation) == incoming.event_id == event.id
    assert incoming.author == PERSON.public
    assert (incoming.starts, incoming.mentions, incoming.references, incoming.reply_to) == (True, (), (), None)
    assert (incoming.text, incoming.created_at, incoming.title) == ("hello", 1000, "")
    assert incoming.address["relays"] == [RELAY]


def test_the_root_is_answered_with_one_e_tag() -> None:
    """NIP-10: a direct reply carries the root marker alone, and p tags of the asker and the thread."""
    incoming = read(written(TO_US, ["p", STRANGER], ["p", PERSON.public], ["p", STRANGER]))
    assert answer_tags(incoming, incoming) == [
        ("e", incoming.event_id, RELAY, "root", PERSON.public),
        ("p", PERSON.public, RELAY),
        ("p", STRANGER),
    ]


def test_a_reply_is_answered_with_root_and_reply_markers() -> None:
    """The root keeps the hint and author its own tag gave; the reply points to what was asked."""
    event = written(TO_US, ["e", P, "", "reply"], ["e", X, "", "mention"], ["e", R, HINT, "root", STRANGER])
    incoming = read(event)
    assert (incoming.conversation, incoming.reply_to, incoming.references) == (R, P, (P, R))
    assert incoming.quotes == (X,)
    assert answer_tags(incoming, incoming)[:3] == [
        ("e", R, HINT, "root", STRANGER),
        ("e", event.id, RELAY, "reply", PERSON.public),
        ("p", PERSON.public, RELAY),
    ]


@pytest.mark.parametrize(
    ("tags", "root", "reply_to", "references"),
    [
        ([["e", R, "", "root"]], R, R, (R,)),
        ([["e", R, "", STRANGER], ["e", X], ["e", P]], R, P, (P, R, X)),
        ([["e", R]], R, R, (R,)),
        ([["e", X], ["e", R, "", "root"]], R, R, (R, X)),
        ([["e", X, "", "mention"], ["q", R]], None, None, ()),
        ([["e"]] * 700 + [["p", ""]] * 1300, None, None, ()),
    ],
    ids=["root marker", "unmarked", "one unmarked", "marker and unmarked", "quotations", "malformed"],
)
def test_e_tags_place_a_note_in_its_thread(
    tags: list[list[str]], root: str | None, reply_to: str | None, references: tuple[str, ...]
) -> None:
    incoming = read(written(*tags))
    assert (incoming.conversation, incoming.reply_to) == (root or incoming.event_id, reply_to)
    assert (incoming.references, incoming.starts) == (references, False)
    assert incoming.address["root_author"] == (STRANGER if len(references) == 3 else PERSON.public if not root else "")


def test_what_is_quoted_neither_places_a_note_nor_addresses_its_author() -> None:
    """Clients tag the author of what they quote: "my bot did this, wow" is no request, and joins no conversation."""
    name = f"nostr:{nevent(R)}"
    for tags, text in (
        ([["q", R], TO_US], "My bot did this, wow"),
        ([["e", R, "", "mention"], TO_US], "My bot did this, wow"),
        ([["e", R], TO_US], f"My bot did this, wow\n\n{name}"),
        ([TO_US], f"My bot did this, wow {name}"),
    ):
        incoming = read(written(*tags, text=text))
        assert (incoming.starts, incoming.references, incoming.quotes) == (False, (), (R,))
        assert str(incoming.conversation) == str(incoming.event_id)
    addressed = read(written(["q", R], TO_US, text=f"nostr:{npub(PROJECT.public)} what is this? {name}"))
    assert (addressed.starts, addressed.quotes) == (True, (R,))
    reply = read(written(["e", P, "", "root"], ["q", R], TO_US, text="Look at this"))
    assert (reply.references, reply.quotes) == ((P,), (R,))


def test_a_lone_reply_marker_leaves_the_root_open() -> None:
    opener = read(written(TO_US))
    later = read(written(["e", P, "", "reply"], TO_US))
    assert (later.conversation, later.reply_to, later.references) == (P, P, (P,))
    assert answer_tags(opener, later)[:2] == [
        ("e", opener.event_id, RELAY, "root", PERSON.public),
        ("e", later.event_id, RELAY, "reply", PERSON.public),
    ]
    assert answer_tags(later, later)[0] == ("e", P, RELAY, "root")
    knows = read(written(["e", P, HINT, "root", STRANGER], by=FRIEND))
    assert answer_tags(later, knows)[0] == ("e", P, RELAY, "root", STRANGER)


def test_an_answer_stays_in_the_thread_the_person_wrote_in() -> None:
    elsewhere = read(written(["e", R, HINT, "root"], ["e", P, "", "reply"]))
    assert answer_tags(read(written(TO_US)), elsewhere)[0] == ("e", R, HINT, "root")


def test_words_without_a_question_go_to_the_root() -> None:
    """With no origin, or one of another form, the answer hangs on the root."""
    opener = read(written(TO_US))
    root = ("e", opener.event_id, RELAY, "root", PERSON.public)
    assert answer_tags(opener, None) == [root, ("p", PERSON.public, RELAY)]
    comment = read(written(["E", R], ["K", "11"], TO_US, by=FRIEND, kind=1111))
    assert answer_tags(opener, comment) == [root, ("p", FRIEND.public, RELAY)]


def test_we_never_tag_ourselves() -> None:
    """Neither the speaker nor another key of ours is among the people of an answer."""
    incoming = read(written(TO_US, ["p", PLANNER.public], ["p", STRANGER], ["p", FRIEND.public]))
    assert people(answer_tags(incoming, incoming, PLANNER)) == [PERSON.public, STRANGER, FRIEND.public]
    assert people(answer_tags(incoming, incoming, FRIEND)) == [PERSON.public, STRANGER], "an agent who joined later"


def test_people_and_references_are_capped() -> None:
    """A thread of hundreds is not called together by our answer."""
    crowd = [[name, f"{n:064x}"] for name in ("p", "e") for n in range(1, 900)]
    incoming = read(written(TO_US, *crowd))
    called = people(answer_tags(incoming, incoming))
    assert (len(called), called[0]) == (MAX_PEOPLE, PERSON.public)
    assert len(incoming.references) == MAX_REFERENCES
    assert incoming.references[:2] == (f"{899:064x}", f"{1:064x}")


@pytest.mark.parametrize(
    ("text", "starts", "mentions"),
    [
        (f"nostr:{npub(PROJECT.public)} please", True, (PROJECT.public,)),
        (f"ask nostr:{npub(STRANGER)}", False, ()),
        ("@planner do it", False, (PLANNER.public,)),
        ("(@Planner)", False, (PLANNER.public,)),
        ("what does @planner's plan say, @project-manager?", False, (PLANNER.public, PROJECT.public)),
        ("帮我请@planner看看", False, (PLANNER.public,)),
        ("@planners @planner-2 @plan mail@planner x/@planner", False, ()),
        (f"@planner nostr:{npub(PROJECT.public)} @planner", True, (PROJECT.public, PLANNER.public)),
    ],
)
def test_mentions_are_read_from_the_text(text: str, starts: bool, mentions: tuple[PublicKey, ...]) -> None:
    """Keys and `@slug` at word boundaries; the text itself is passed on as it was written."""
    incoming = read(written(text=text))
    assert (incoming.starts, incoming.mentions, incoming.text) == (starts, mentions, text)


RELAYS_FIRST = relays_first(PLANNER.public)
"""As nostr-tools writes a key with its relays."""


@pytest.mark.parametrize(
    "text",
    [
        *(
            f"{before}{RELAYS_FIRST}{after}"
            for before, after in (("nostr:", " x"), ("", "."), ("@", ", x"), ("(", ")"))
        ),
        *(
            f"nostr:{npub(PLANNER.public)}{after}"
            for after in (".", ",", "!", "'s plan", "\u200b", "。", "\u200bplease")
        ),
        *(f"NOSTR:{RELAYS_FIRST.upper()}", npub(PLANNER.public).upper(), f"[@p](nostr:{RELAYS_FIRST})"),
        *("@planner.", "@planner, x", "@Planner!", "@PLANNER:", "＠planner", "@plan\u200bner", "\u2068@planner\u2069"),
        *("hi\u200b@planner\u200bplease", "@planner\ufe0f", "**@planner**", "_@planner_ x", "x\xa0@planner\u3000x"),
        *("> old\n@planner new", "```\ncode\n```\n@planner", "see https://x.example, @planner", "@planner/@critic"),
    ],
)
def test_a_mention_is_read_as_clients_and_libraries_write_it(text: str) -> None:
    incoming = read(written(TO_US, text=text))
    assert (incoming.mentions, incoming.text) == ((PLANNER.public,), text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "```python\n@planner\ndef f(): ...\n```",
            "so:\n\n    @planner\n    def f(): ...",
            "`@planner`",
            "~~~\n@planner",
        ),
        *("> @planner", ">@planner x", "> a\n> @planner", "- > @planner"),
        *("npm i @planner/core", "a@planner.com", "@planner.com", "https://x/@planner", "https://x/?u=@planner"),
        *(
            "[@planner](https://x.example)",
            "@planner_2",
            "@planner@example.com",
            "@planner-x",
            "www.x.example/a,@planner",
        ),
        *(f"`{RELAYS_FIRST}`", f"> nostr:{RELAYS_FIRST}", f"https://njump.me/{RELAYS_FIRST}", f"x{RELAYS_FIRST}"),
        f"```\nnostr:{npub(PLANNER.public)}\n```",
    ],
)
def test_a_name_in_code_a_quotation_a_link_or_a_longer_word_addresses_nobody(text: str) -> None:
    incoming = read(written(TO_US, text=text))
    assert (incoming.mentions, incoming.text) == ((), text)


def test_keys_that_are_named_by_the_places_of_their_tags_are_mentions() -> None:
    planner, project = npub(PLANNER.public), npub(PROJECT.public)
    tags = (TO_US, ["p", PLANNER.public], ["e", R, HINT, "mention"], ["p", "x"])
    incoming = read(written(*tags, text="#[0] #[1]: /status #[0]"))
    assert incoming.text == f"nostr:{project} nostr:{planner}: /status #[0]"
    assert set(incoming.mentions) == {PROJECT.public, PLANNER.public}
    command = parse(without_mentions(incoming.text, PROJECT.public, "tenex"))
    assert command is not None
    assert command.name == "status"
    for text in ("#[2] hello", "#[3] hello", "#[4] hello", "#[9999] hello", "#[] hello", "see `#[0]`", "a #[0]"):
        assert read(written(*tags, text=text)).text == text


def test_a_letter_that_is_only_like_one_of_a_name_addresses_nobody() -> None:
    """Python's regular expressions take the Turkish letters for an i where case does not count."""
    event = written(TO_US, text="@cr\u0131tic @cr\u0130tic")
    incoming = read_event(event, OURS, {"critic": PLANNER.public}, RELAY, None)
    assert incoming is not None
    assert incoming.mentions == ()


@pytest.mark.parametrize(
    "unit",
    [
        "@planner ",
        "_@",
        "@",
        "npub1",
        "nprofile1",
        f"{RELAYS_FIRST} ",
        "nprofile1" + "q" * 990 + " ",
        "`@",
        "\u200b@",
        "> @\n",
    ],
)
def test_mentions_are_found_in_time_that_grows_with_the_text(unit: str) -> None:
    text = unit * (60_000 // len(unit))
    began = time.process_time()
    read(written(TO_US, text=f"{text}\u200b"))
    without_mentions(text, PLANNER.public, "Planner")
    assert time.process_time() - began < 4


def test_a_title_is_kept() -> None:
    """TENEX clients title their notes; others use a subject."""
    assert read(written(["title", " Build it "])).title == "Build it"
    assert read(written(["title"], ["subject", "Mail"])).title == "Mail"
    assert len(read(written(["title", "x" * 5000])).title) == 200


@pytest.mark.parametrize("kind", [1, 11])
def test_a_group_keeps_its_text_in_it(kind: int) -> None:
    """Also threads: Flotilla's are in rooms."""
    event = written(["h", "kitchen"], TO_US, kind=kind)
    incoming = read(event)
    assert answer_tags(incoming, incoming)[-1] == ("h", "kitchen")
    assert read_event(event, OURS, {}, "", None) is None


def test_relay_hints_are_canonical_and_carry_no_token() -> None:
    """What is published of a relay's url is its canonical spelling without the query; nonsense is left out."""
    event = written(TO_US)
    incoming = read(event, "WSS://Relay.Example:443/?token=secret")
    assert answer_tags(incoming, incoming)[0] == ("e", event.id, RELAY, "root", PERSON.public)
    assert incoming.address["relays"] == ["wss://relay.example?token=secret"]
    long = "wss://relay.example/" + "x" * 200
    assert answer_tags(read(event, long), None)[0] == ("e", event.id, "", "root", PERSON.public)
    odd = read(written(["e", R, "javascript:alert(1)", "root"]), "")
    assert answer_tags(odd, odd)[:2] == [("e", R, "", "root"), ("e", odd.event_id, "", "reply", PERSON.public)]


def test_our_own_events_and_other_kinds_are_no_input() -> None:
    """Reactions, direct messages and the rest belong to no form here."""
    own = [written(["p", PLANNER.public], by=PROJECT, kind=kind) for kind in (1, 11)]
    other = [written(TO_US, kind=kind) for kind in (0, 4, 7, 30023)]
    assert [read_event(event, OURS, {}, RELAY, None) for event in (*own, *other)] == [None] * 6


HOSTILE = st.lists(
    st.one_of(
        st.just(()),
        st.sampled_from(["e", "E", "p", "P", "K", "k", "a", "h", "title", ""]).map(lambda name: (name,)),
        st.tuples(
            st.sampled_from(["e", "E", "p", "P", "K", "a", "h", "title"]),
            st.sampled_from(
                ["", "11", "z" * 64, "A" * 64, "a" * 63, "a" * 65, R, PROJECT.public, "\n", "a" * 64 + "\n"]
            ),
            st.sampled_from(
                ["", "ws://", "wss://[::1", "wss://x:99999", "https://x", "wss://u:p@x", "wss://" + "x" * 900, HINT]
            ),
            st.sampled_from(["", "root", "reply", "mention", "ROOT", STRANGER]),
        ),
    ),
    max_size=12,
)


@given(tags=HOSTILE, kind=st.sampled_from([1, 9, 11, 1111]), text=st.text(max_size=40))
def test_hostile_tags_are_passed_over(tags: list[tuple[str, ...]], kind: int, text: str) -> None:
    """Whatever a stranger sends is read without an error, and what is read of it can be answered."""
    incoming = read_event(written(*tags, kind=kind, text=text), OURS, {"planner": PLANNER.public}, RELAY, None)
    if incoming is None:
        assert kind == 1111
        return
    hexes = [incoming.conversation, *incoming.references, *incoming.origin.get("people", [])]
    assert all(len(one) == 64 and set(one) <= set("0123456789abcdef") for one in hexes)
    draft = OutgoingMessage(
        speaker=PROJECT.public, text="hm", created_at=2000, address=incoming.address, reply_to=incoming.origin
    )
    (sealed,) = scheme_named(incoming.address["form"]).seal(draft, ())
    assert all(tag and tag[0] in {"e", "p", "q", "E", "P", "K", "k", "h"} for tag in sealed.tags)


def test_an_event_labelled_as_ai_is_read_as_by_a_machine() -> None:
    assert read(written(TO_US, ["L", "agent"], ["l", "ai", "agent"])).by_machine
    assert not read(written(TO_US, ["l", "aim", "x"], ["l"])).by_machine


def test_an_event_labelled_as_by_a_program_is_read_so() -> None:
    assert read(written(TO_US, ["L", "tenex"], ["l", "by-program", "tenex"])).by_program
    assert not read(
        written(TO_US, ["l", "by-program", "other"], ["l", "by-program"], ["by-program", "tenex"])
    ).by_program
