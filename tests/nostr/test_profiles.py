"""Profiles: what is published of each key, and that nothing is published twice."""

import json

import pytest

from tenex.core.ids import PublicKey
from tenex.core.ports import UnsignedEvent
from tenex.nostr.events import Event, event_id, unsigned_event
from tenex.nostr.identicon import identicon
from tenex.nostr.profiles import Identity, PublishedProfile, agents_in, name_in, profile_events

from .kit import PLANNER, PROJECT, note

RELAYS = ["wss://one.example/", "WSS://Two.Example:443", "wss://one.example"]
WHO = [
    Identity(pubkey=PROJECT.public, name="Demo", about="Builds things"),
    Identity(pubkey=PLANNER.public, name="Planner"),
]


def known(*events: UnsignedEvent | Event) -> dict[tuple[PublicKey, int], PublishedProfile]:
    return {(event.pubkey, event.kind): event for event in events}


def test_every_key_has_a_profile_and_a_relay_list() -> None:
    """Kind 0 with `bot: true` (NIP-24), kinds 10002 and 10050 with each relay once, canonical, and 10044."""
    events = profile_events(WHO, RELAYS, 1000, {})
    pairs = [(key.public, kind) for key in (PROJECT, PLANNER) for kind in (0, 10002, 10050, 10044)]
    assert [(event.pubkey, event.kind) for event in events] == pairs
    project, planner = (json.loads(events[place].content) for place in (0, 4))
    assert project == {
        "name": "Demo",
        "about": "Builds things",
        "picture": identicon(PROJECT.public),
        "bot": True,
        "is_agent": True,
    }
    assert planner == {
        "name": "Planner",
        "about": "",
        "picture": identicon(PLANNER.public),
        "bot": True,
        "is_agent": True,
    }
    assert events[1].tags == (("r", "wss://one.example"), ("r", "wss://two.example"))
    assert events[2].tags == (("relay", "wss://one.example"), ("relay", "wss://two.example"))
    assert events[3].tags == (("n", PROJECT.public),)
    for event in events:
        assert event.created_at == 1000
        assert event.id == event_id(event.pubkey, event.created_at, event.kind, event.tags, event.content)


def test_what_is_published_already_is_not_published_again() -> None:
    before = profile_events(WHO, RELAYS, 1000, {})
    for relays in (RELAYS, list(reversed(RELAYS))):
        assert profile_events(WHO, relays, 2000, known(*before)) == []
    content = json.dumps({"bot": True, "is_agent": True, "about": "", "name": "Planner", "picture": "u"}, indent=2)
    assert profile_events(WHO[1:], [], 2000, known(note(content, by=PLANNER, at=1, kind=0))) == []


def test_a_change_makes_one_event_later_than_the_last() -> None:
    """Relays keep the latest of a replaceable kind, so a clock that ran ahead must not win."""
    before = known(*profile_events(WHO, RELAYS, 5000, {}))
    renamed = [WHO[0], Identity(pubkey=PLANNER.public, name="Architect")]
    (event,) = profile_events(renamed, RELAYS, 1000, before)
    assert (event.pubkey, event.kind, event.created_at) == (PLANNER.public, 0, 5001)
    relisted = profile_events(WHO, RELAYS[:1], 9000, before)
    assert {(event.kind, event.created_at) for event in relisted} == {(10002, 9000), (10050, 9000)}


def test_what_others_wrote_into_a_profile_stays() -> None:
    """A NIP-05 name, a lightning address and identity tags (NIP-39) survive our change."""
    last = unsigned_event(
        PLANNER.public, 100, 0, [["i", "github:x", "proof"]], '{"name":"Old","nip05":"p@example.com","picture":"u"}'
    )
    (event,) = profile_events(WHO[1:], [], 1000, known(last))
    new = {"name": "Planner", "about": "", "bot": True, "is_agent": True}
    assert json.loads(event.content) == {**new, "nip05": "p@example.com", "picture": "u"}
    assert event.tags == (("i", "github:x", "proof"),)


@pytest.mark.parametrize("content", ["", "[]", "null", "{", "[" * 100_000])
def test_an_unreadable_profile_is_replaced(content: str) -> None:
    last = unsigned_event(PLANNER.public, 100, 0, (), content)
    (event,) = profile_events(WHO[1:], [], 1, known(last))
    assert (json.loads(event.content)["name"], event.created_at) == ("Planner", 101)


def test_a_name_with_half_a_character_is_cleaned_and_no_relays_withdraw_nothing() -> None:
    """A lone surrogate has no UTF-8 and would have no id. An empty setting publishes no empty relay list."""
    (event,) = profile_events([Identity(pubkey=PLANNER.public, name="Pl\ud800n")], [], 1000, {})
    assert event.kind == 0
    assert json.loads(event.content)["name"] == "Pl\ufffdn"


def test_a_project_lists_its_agents_and_updates_the_list() -> None:
    """In `agent` tags of its kind 0; tags of somebody else stay."""

    def project(*agents: str) -> list[Identity]:
        keys = tuple((PLANNER.public, name) for name in agents)
        return [Identity(pubkey=PROJECT.public, name="Demo", agents=keys)]

    (first,) = profile_events(project("Planner"), [], 1000, {})
    assert first.tags == (("agent", PLANNER.public, "Planner"),)
    assert agents_in(first) == [PLANNER.public]
    kept = unsigned_event(PROJECT.public, 1000, 0, [["i", "github:demo", "x"], *first.tags], first.content)
    before = known(kept)
    assert profile_events(project("Planner"), [], 2000, before) == []
    (second,) = profile_events(project(), [], 2000, before)
    assert second.tags == (("i", "github:demo", "x"),)


def test_names_and_descriptions_of_any_length_make_an_event_that_relays_take() -> None:
    """Relays refuse more than 64 KiB, and a project's profile lists its agents."""
    agents = tuple((PublicKey(f"{number:064x}"), "é" * 100_000) for number in range(50))
    long = Identity(pubkey=PROJECT.public, name="n" * 1_000_000, about="a" * 1_000_000, agents=agents)
    event = profile_events([long], [], 1000, {})[0]
    assert len(event.content.encode()) < 16 * 1024
    assert all(len(element.encode()) <= 256 for tag in event.tags for element in tag)
    assert profile_events([long], [], 2000, known(event)) == [], "it is not published again"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ('{"name": "ada"}', "ada"),
        ('{"display_name": "Ada Lovelace"}', "Ada Lovelace"),
        ('{"name": "", "displayName": "Ada"}', "Ada"),
        ('{"name": 7, "username": "ada"}', "ada"),
        ('{"name": "ada\\u202e\\u200b\\nlovelace"}', "ada lovelace"),
        ('{"name": "\\u202e\\u2066"}', ""),
        ('{"about": "no name"}', ""),
        ("[]", ""),
        ("no JSON", ""),
        (json.dumps({"name": "a" * 10_000}), "a" * 40),
    ],
)
def test_a_users_name_is_read_from_what_clients_write_without_what_nobody_sees(content: str, name: str) -> None:
    assert name_in(note(content, kind=0)) == name
