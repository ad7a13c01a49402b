"""What the index keeps of a conversation."""

from dataclasses import replace

from tenex.core.config import Role
from tenex.core.conversation import fold
from tenex.core.ids import EventId, Millis, PublicKey, Slug
from tenex.core.phases import Phase
from tenex.core.ports import UnsignedEvent
from tenex.core.records import (
    CommandGiven,
    JournalRebuilt,
    MessageRecorded,
    MessageSent,
    PhaseTransition,
    Record,
    RouteRequested,
    RunStarted,
    TurnOpened,
    Waiting,
)
from tenex.core.state.conversation import State
from tenex.core.state.rollback import ConversationForked, RolledBack
from tenex.store.index_row import IndexedMessage, News, Row, news_of, summarise
from tests.fakes.scenario import Scenario, diligent, seven_phases

from .kit import CONVERSATION_ID, started

KEY = PublicKey("a" * 64)


def wrote(seq: int, event_id: str) -> MessageRecorded:
    return MessageRecorded(
        seq=seq,
        at=Millis(seq),
        event_id=EventId(event_id),
        author=KEY,
        name="Ana",
        role=Role.OWNER,
        text="hello",
        created_at=1,
    )


def sent(seq: int, *ids: str) -> MessageSent:
    return MessageSent(
        seq=seq,
        at=Millis(seq),
        speaker=KEY,
        name="A",
        text="hi",
        purpose="notice",
        phase=Phase.CHAT,
        events=tuple(
            UnsignedEvent(id=EventId(name), pubkey=KEY, created_at=1, kind=1, tags=(), content="hi") for name in ids
        ),
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
        place="chat",
        cycle=0,
        title="a title",
        started=Millis(1),
        updated=Millis(30),
    )


def test_work_in_flight_keeps_a_conversation_unsettled() -> None:
    waiting = Waiting(seq=3, at=Millis(3), reason="user")
    assert not summarise(fold(CONVERSATION_ID, [started(), wrote(2, "1"), waiting, sent(4, "2")]), 1).settled
    asked = RouteRequested(seq=3, at=Millis(3), attempt=1)
    assert not summarise(fold(CONVERSATION_ID, [started(), wrote(2, "1"), asked]), 1).settled


def test_every_text_is_a_message_so_is_the_title_and_events_are_named_but_not_the_conversations_own_id() -> None:
    command = CommandGiven(
        seq=4,
        at=Millis(4),
        event_id=EventId("4"),
        author=KEY,
        name="Ana",
        role=Role.OWNER,
        command="skip",
        argument="chores",
        created_at=1,
    )
    announced = replace(sent(5, "5", "6"), purpose="announcement")
    news = news_of([started(), wrote(2, "2"), sent(3, "3"), command, announced])
    assert news.messages == (
        IndexedMessage(seq=1, at=Millis(1), name="", text="a title"),
        IndexedMessage(seq=2, at=Millis(2), name="Ana", text="hello"),
        IndexedMessage(seq=3, at=Millis(3), name="A", text="hi"),
        IndexedMessage(seq=4, at=Millis(4), name="Ana", text="/skip chores"),
    )
    assert news.events == ("2", "3", "4", "5", "6")


def test_users_who_wrote_are_named_with_their_roles_but_not_those_of_the_conversation_a_fork_began_with() -> None:
    guest = replace(wrote(3, "3"), author=PublicKey("b" * 64), role=Role.GUEST)
    command = CommandGiven(
        seq=4,
        at=Millis(4),
        event_id=EventId("4"),
        author=PublicKey("c" * 64),
        name="Cem",
        role=Role.MEMBER,
        command="status",
        argument="",
        created_at=1,
    )
    here = [started(), wrote(2, "2"), guest, command, wrote(5, "5"), sent(6, "6")]
    people = news_of(here).people
    assert people == ((Role.OWNER, KEY), (Role.GUEST, guest.author), (Role.MEMBER, command.author))
    fork = ConversationForked(
        seq=1,
        at=Millis(1),
        id=CONVERSATION_ID,
        origin=CONVERSATION_ID,
        at_seq=6,
        title="f",
        state=fold(CONVERSATION_ID, here),
    )
    assert news_of([fork]).people == ()


def test_who_worked_or_was_addressed_is_named_by_slug_and_key_and_every_phase_once() -> None:
    scenario = Scenario(seven_phases, diligent)
    scenario.user_writes("I want something nice")
    scenario.settle()
    scenario.user_writes("Build it")
    scenario.settle()
    records = [record for decision in scenario.journal for record in decision]
    worked = {agent for record in records if isinstance(record, TurnOpened) for agent in record.agents}
    keys = {record.pubkey for record in records if isinstance(record, RunStarted)}
    news = news_of([*records, replace(wrote(len(records) + 1, "9"), addressed=(Slug("security"),))])
    assert worked
    assert set(news.agents) == {*worked, *keys, "security"}
    assert len(news.agents) == len(set(news.agents))
    entered = [record.to for record in records if isinstance(record, PhaseTransition)]
    assert news.phases == tuple(dict.fromkeys([Phase.CHAT, *entered]))
    assert len(news.phases) > 1


def test_a_fork_a_rollback_and_a_rebuild_name_what_they_restore() -> None:
    state = State(id=CONVERSATION_ID, phase=Phase.PLAN, participants=(Slug("planner"),))
    fork = ConversationForked(
        seq=1, at=Millis(1), id=CONVERSATION_ID, origin=CONVERSATION_ID, at_seq=1, title="Fork of it", state=state
    )
    back = RolledBack(seq=2, at=Millis(2), to=1, by="Ana", reason="", state=replace(state, phase=Phase.CHORES))
    rebuilt = JournalRebuilt(seq=3, at=Millis(3), source="relay", known_events=(EventId("9"),))
    assert news_of([fork, back, rebuilt]) == News(
        events=("9",),
        messages=(IndexedMessage(seq=1, at=Millis(1), name="", text="Fork of it"),),
        agents=("planner",),
        phases=(Phase.PLAN, Phase.CHORES),
    )
