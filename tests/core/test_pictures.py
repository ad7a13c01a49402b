"""Pictures in messages: which addresses are of pictures, and what their author is informed of."""

import dataclasses

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.ids import EventId
from tenex.core.inbox.images import MOST, addresses_in, pictures_in
from tenex.core.signals import InboundMessage, MessageReceived
from tests.fakes.scenario import ALICE, ID, WAITS, Router, Scenario, plain_model, policy, route

CAT = "https://a.example/cat.png"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"look: {CAT}.", (CAT,)),
        (f"({CAT}) and {CAT}", (CAT,)),
        (f"![cat]({CAT})", (CAT,)),
        (f"[https://a.example]({CAT})", (CAT,)),
        (f"[{CAT}]({CAT})", (CAT,)),
        ("https://[x].png", ()),
        ("https://a.example/CAT.JPEG?w=2#x", ("https://a.example/CAT.JPEG?w=2#x",)),
        ("https://a.example/cat.png.html http://a.example/cat.png ftp://a.example/cat.png", ()),
        ("https://a.example/page?of=cat.png", ()),
        ("https://png", ()),
    ],
)
def test_pictures_are_known_by_the_ending_of_their_address(text: str, found: tuple[str, ...]) -> None:
    assert pictures_in(text) == found


def test_one_that_a_client_declares_needs_no_ending_but_a_place_in_the_text() -> None:
    address = "https://a.example/0f3c"
    assert pictures_in(f"see {address}", {address, "https://b.example/other"}) == (address,)


def test_only_the_first_few_are_loaded() -> None:
    text = " ".join(f"https://a.example/{number}.png" for number in range(20))
    assert len(addresses_in(text)) == 20
    assert len(pictures_in(text)) == MOST


def shown(scenario: Scenario, role: Role = Role.OWNER, *not_loaded: str) -> list[str]:
    """What we write at once about a message with a picture."""
    scenario.count += 1
    message = InboundMessage(
        event_id=EventId(f"{scenario.count:064d}"),
        author=ALICE,
        text=f"what is this? {CAT}",
        created_at=scenario.now // 1000,
        conversation=ID,
        starts=True,
        pictures=(CAT,),
        address={"form": "notes"},
        origin={"author": ALICE},
    )
    records = scenario.handle(MessageReceived(message=message, role=role, name="alice", not_loaded=not_loaded))
    sent = [record for record in records if isinstance(record, r.MessageSent)]
    assert all(record.is_published and record.notifies == () for record in sent), "a phone rings for the answer alone"
    return [record.text for record in sent]


def talk(*, sees: bool) -> Scenario:
    config = dataclasses.replace(policy(), sees_pictures=sees)
    return Scenario(Router(route(None, "project-manager"), WAITS), plain_model, config=config)


def test_where_no_model_sees_the_author_is_informed_once() -> None:
    scenario = talk(sees=False)
    (text,) = shown(scenario)
    assert text.startswith("No model here is set to see")
    scenario.settle()
    assert shown(scenario) == []
    assert scenario.refold() == scenario.conversation


def test_pictures_of_guests_are_not_looked_at() -> None:
    (text,) = shown(talk(sees=True), Role.GUEST)
    assert text.startswith("Pictures of guests are not looked at")


def test_a_picture_that_could_not_be_loaded_is_reported_with_the_reason() -> None:
    scenario = talk(sees=True)
    assert shown(scenario) == []
    scenario.settle()
    assert shown(scenario, Role.OWNER, "it has more than 5 MB") == [
        "I could not load 1 of 1 picture: it has more than 5 MB."
    ]
