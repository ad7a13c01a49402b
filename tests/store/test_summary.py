"""What the index keeps of a conversation."""

from tenex.core.conversation import fold
from tenex.core.ids import EventId, Millis, PublicKey
from tenex.core.phases import Phase
from tenex.core.ports import UnsignedEvent
from tenex.core.records import CommandGiven, PersonWrote, Record, RouteAsked, Said, Waiting
from tenex.core.roster import Role
from tenex.store.summary import Row, events_of, summarise
from tests.store.kit import CONVERSATION_ID, started

KEY = PublicKey("a" * 64)


def wrote(seq: int, event_id: str) -> PersonWrote:
    return PersonWrote(
        seq=seq,
        at=Millis(seq),
        event_id=EventId(event_id),
        author=KEY,
        name="Ana",
        role=Role.OWNER,
        text="hello",
        created_at=1,
    )


def event(event_id: str) -> UnsignedEvent:
    return UnsignedEvent(id=EventId(event_id), pubkey=KEY, created_at=1, kind=1, tags=(), content="hi")


def said(seq: int, *event_ids: str) -> Said:
    events = tuple(map(event, event_ids))
    return Said(
        seq=seq,
        at=Millis(seq),
        speaker=KEY,
        name="A",
        text="hi",
        purpose="notice",
        phase=Phase.CHAT,
        events=events,
        relays=("ws://127.0.0.1:1",),
    )


def test_a_waiting_conversation_with_nothing_in_flight_is_settled() -> None:
    records: list[Record] = [started(), wrote(2, "1"), Waiting(seq=3, at=Millis(30), reason="user")]
    row = summarise(fold(CONVERSATION_ID, records), 321)
    assert row == Row(
        id=CONVERSATION_ID,
        bytes=321,
        seq=3,
        settled=True,
        status="waiting",
        phase="chat",
        title="a title",
        updated=Millis(30),
    )


def test_work_in_flight_keeps_a_conversation_unsettled() -> None:
    waiting = Waiting(seq=3, at=Millis(3), reason="user")
    assert not summarise(fold(CONVERSATION_ID, [started(), wrote(2, "1"), waiting, said(4, "2")]), 1).settled
    asked = RouteAsked(seq=3, at=Millis(3), attempt=1)
    assert not summarise(fold(CONVERSATION_ID, [started(), wrote(2, "1"), asked]), 1).settled


def test_every_event_that_may_be_referred_to_is_named() -> None:
    command = CommandGiven(
        seq=5,
        at=Millis(5),
        event_id=EventId("5"),
        author=KEY,
        name="Ana",
        role=Role.OWNER,
        command="stop",
        argument="",
        created_at=1,
    )
    assert list(events_of([started(), wrote(2, "1"), said(3, "2", "3"), command])) == [
        CONVERSATION_ID,
        "1",
        "2",
        "3",
        "5",
    ]
