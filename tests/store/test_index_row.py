"""What the index keeps of a conversation."""

from dataclasses import replace

from tenex.core.config import Role
from tenex.core.conversation import fold
from tenex.core.ids import EventId, Millis, PublicKey, Slug
from tenex.core.phases import Phase
from tenex.core.port_values import Passage
from tenex.core.ports import UnsignedEvent
from tenex.core.records import CommandGiven, JournalRebuilt, MessageSent, PhaseTransition, RunStarted, TurnOpened
from tenex.core.state.conversation import State
from tenex.core.state.rollback import ConversationForked, RolledBack
from tenex.store.index_row import News, news_of, summarise
from tests.fakes.scenario import Scenario

from .kit import CONVERSATION_ID, asked, records_of, row, started, waits, wrote

KEY = PublicKey("a" * 64)


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


def command(seq: int, author: PublicKey, role: Role) -> CommandGiven:
    return CommandGiven(
        seq=seq,
        at=Millis(seq),
        event_id=EventId(str(seq)),
        author=author,
        name="Cem",
        role=role,
        command="skip",
        argument="chores",
        created_at=1,
    )


def test_a_conversation_is_settled_where_it_waits_and_nothing_is_in_flight() -> None:
    before = [started(), wrote(2, "1")]
    settled = summarise(fold(CONVERSATION_ID, [*before, waits(3)]), 321)
    assert settled == row(bytes=321, cycle=0, title="a title", started=Millis(1), updated=Millis(3))
    assert not summarise(fold(CONVERSATION_ID, [*before, waits(3), sent(4, "2")]), 1).settled
    assert not summarise(fold(CONVERSATION_ID, [*before, asked(3)]), 1).settled


def test_texts_and_the_title_are_messages_and_events_are_named_but_not_the_conversations_own_id() -> None:
    announced = replace(sent(5, "5", "6"), purpose="announcement")
    news = news_of([started(), wrote(2, "2"), sent(3, "3"), command(4, KEY, Role.OWNER), announced])
    assert [(message.seq, message.name, message.text) for message in news.messages] == [
        (1, "", "a title"),
        (2, "Ana", "hello"),
        (3, "A", "hi"),
        (4, "Cem", "/skip chores"),
    ]
    assert news.events == ("2", "3", "4", "5", "6")


def test_users_who_wrote_are_named_with_their_roles_but_not_those_of_the_conversation_a_fork_began_with() -> None:
    guest = wrote(3, "3", author=PublicKey("b" * 64), role=Role.GUEST)
    member = command(4, PublicKey("c" * 64), Role.MEMBER)
    here = [started(), wrote(2, "2"), guest, member, wrote(5, "5"), sent(6, "6")]
    assert news_of(here).people == ((Role.OWNER, KEY), (Role.GUEST, guest.author), (Role.MEMBER, member.author))
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


def test_who_worked_or_was_addressed_is_named_by_slug_and_key_and_every_phase_once(scenario: Scenario) -> None:
    records = records_of(scenario)
    worked = {agent for record in records if isinstance(record, TurnOpened) for agent in record.agents}
    keys = {record.pubkey for record in records if isinstance(record, RunStarted)}
    news = news_of([*records, wrote(len(records) + 1, "9", addressed=(Slug("security"),))])
    assert sorted(news.agents) == sorted({*worked, *keys, "security"})
    entered = [record.to for record in records if isinstance(record, PhaseTransition)]
    assert news.phases == tuple(dict.fromkeys([Phase.CHAT, *entered]))
    assert len(news.phases) == 7


def test_a_fork_a_rollback_and_a_rebuild_name_what_they_restore() -> None:
    state = State(id=CONVERSATION_ID, phase=Phase.PLAN, participants=(Slug("planner"),))
    fork = ConversationForked(
        seq=1, at=Millis(1), id=CONVERSATION_ID, origin=CONVERSATION_ID, at_seq=1, title="Fork of it", state=state
    )
    back = RolledBack(seq=2, at=Millis(2), to=1, by="Ana", reason="", state=replace(state, phase=Phase.CHORES))
    rebuilt = JournalRebuilt(seq=3, at=Millis(3), source="relay", known_events=(EventId("9"),))
    assert news_of([fork, back, rebuilt]) == News(
        events=("9",),
        messages=(Passage(seq=1, at=Millis(1), name="", text="Fork of it"),),
        agents=("planner",),
        phases=(Phase.PLAN, Phase.CHORES),
    )
