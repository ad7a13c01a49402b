"""`search_conversation`: what an agent finds, in whose conversations, and what it reads where it finds nothing."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tenex.core.config import Role
from tenex.core.conversation import fold, new_conversation
from tenex.core.cycle.records import Waiting
from tenex.core.delivery.records import MessageSent
from tenex.core.functions.undecided import EvaluationRequested
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey
from tenex.core.inbox.records import CommandGiven, MessageRecorded, MessageWithdrawn
from tenex.core.memory.window import tokens
from tenex.core.phases import Phase
from tenex.core.records import ConversationImported, JournalRebuilt, Record
from tenex.core.rollback.whole import RolledBack
from tenex.core.signals import InboundMessage, MessageReceived
from tenex.store.disk import Disk
from tenex.store.index import Index
from tenex.store.index_row import news_of, summarise
from tenex.store.journal import StoredJournal
from tenex.store.past_messages import PastMessages
from tenex.store.repository import ConversationFolder
from tenex.store.schema import remove
from tenex.tools.search_conversation import RESULT_TOKENS, search_conversation_tool
from tests.store.kit import StillClock

from .conftest import Bench, make_context

HERE, OTHER, THIRD = (ConversationId(letter * 64) for letter in "cde")
ADA, BEN, GUEST = (PublicKey(digit * 64) for digit in "123")
ROLES = {ADA: Role.OWNER, BEN: Role.MEMBER, GUEST: Role.GUEST}
NAMES = {ADA: "Ada", BEN: "Ben", GUEST: "Gus"}
AT = 1_700_000_000_000


@dataclass(slots=True)
class Conversations:
    """Conversations on disk and in the index, as a daemon has them."""

    folder: ConversationFolder
    index: Index
    journals: dict[ConversationId, StoredJournal] = field(default_factory=dict)

    async def add(
        self,
        name: ConversationId,
        *messages: tuple[PublicKey | None, str],
        title: str = "a title",
        noted: bool = True,
        room: str = "",
    ) -> None:
        """Append messages of users, or of an agent; `noted`: the index has received them."""
        records: list[Record] = []
        if name not in self.journals:
            self.journals[name], _ = await self.folder.open(name)
            place = {"room": room} if room else {}
            records.append(ConversationStarted(seq=1, at=Millis(AT), id=name, title=title, starter=ADA, address=place))
        journal = self.journals[name]
        for author, text in messages:
            seq = journal.next_seq + len(records)
            about: dict[str, Any] = {"seq": seq, "at": Millis(AT + 60_000 * seq), "text": text}
            if author is None:
                about |= {"speaker": BEN, "name": "Executor", "purpose": "completion", "phase": Phase.CHAT}
                records.append(MessageSent(**about))
            else:
                about |= {"author": author, "name": NAMES[author], "role": ROLES[author], "created_at": 1}
                records.append(MessageRecorded(event_id=EventId(f"{name[0]}{seq}"), **about))
        records.append(Waiting(seq=journal.next_seq + len(records), at=records[-1].at, reason="user"))
        await journal.append([records])
        if noted:
            state = fold(name, await self.folder.read(name))
            self.index.update(summarise(state, self.folder.length(name)), news_of(records))

    async def append(self, name: ConversationId, *kinds: tuple[type[Record], dict[str, Any]]) -> None:
        """Append records of any kind."""
        journal = self.journals[name]
        seq = journal.next_seq
        records = [
            kind(seq=seq + n, at=Millis(AT + 60_000 * (seq + n)), **data) for n, (kind, data) in enumerate(kinds)
        ]
        await journal.append([records])
        state = fold(name, await self.folder.read(name))
        self.index.update(summarise(state, self.folder.length(name)), news_of(records))

    async def found(self, person: PublicKey | None = ADA, *, ok: bool = True, **arguments: Any) -> str:
        """The result of a call that succeeds, or the sentence of one that fails."""
        tools = Bench([search_conversation_tool(PastMessages(self.index, self.folder))])
        context = make_context(Phase.CHAT, author=person, role=ROLES[person] if person else None)
        result = await tools.do("search_conversation", context, **arguments)
        assert result.ok is ok, result.content
        assert tokens(result.content) < RESULT_TOKENS + 100
        return result.content

    async def rebuilt(self) -> None:
        """Delete the index, and build it of the journals."""
        await self.index.close()
        remove(self.folder.root / "index.sqlite")
        self.index = Index(self.folder.root / "index.sqlite")
        await self.index.catch_up(self.folder)

    async def refused(self, person: PublicKey | None = ADA, **arguments: Any) -> str:
        return await self.found(person, ok=False, **arguments)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Conversations]:
    disk = Disk()
    folder = ConversationFolder(tmp_path / "conversations", disk, StillClock())
    index = Index(folder.root / "index.sqlite")
    await index.catch_up(folder)
    conversations = Conversations(folder, index)
    yield conversations
    await conversations.index.close()
    await folder.close()
    disk.close()


async def test_what_was_said_in_direct_messages_is_found_by_the_same_people_there_alone(store: Conversations) -> None:
    await store.add(OTHER, (ADA, "the port is 8080"), room="room")
    await store.add(HERE, (ADA, "hello"))
    assert "8080" not in await store.found(query="port")
    await store.add(HERE, (ADA, "the port is 9090"))
    await store.add(THIRD, (ADA, "hello"), room="room")
    await store.rebuilt()
    for here, found in ((HERE, ["9090"]), (THIRD, ["8080", "9090"])):
        past = await PastMessages(store.index, store.folder).search("port", here, ADA)
        texts = [message.text for passages in past.found for message in passages.messages]
        assert sorted(text[-4:] for text in texts) == found


async def test_matches_of_this_conversation_come_first_and_oldest_first(store: Conversations) -> None:
    await store.add(OTHER, (ADA, "the port was 8080 then"), (None, "Port noted."), title="Old server")
    await store.add(HERE, (ADA, "the port is 9090"), (None, "I opened port 9090."), (ADA, "thanks"))
    assert (await store.found(query="port")).splitlines() == [
        "In this conversation:",
        "#2 2023-11-14 22:15 UTC Ada: the port is 9090",
        "#3 2023-11-14 22:16 UTC Executor: I opened port 9090.",
        'In dddddddddddd "Old server":',
        "#2 2023-11-14 22:15 UTC Ada: the port was 8080 then",
        "#3 2023-11-14 22:16 UTC Executor: Port noted.",
        'To read more: {"around": 3} shows the messages around #3.',
    ]


async def test_some_of_the_words_are_enough_where_no_message_has_all(store: Conversations) -> None:
    await store.add(HERE, (ADA, "the port is 9090"), (ADA, "unrelated"))
    shown = await store.found(query="which port did Ada want")
    assert shown.startswith("No message has all of these words; these have some.\nIn this conversation:\n#2 ")
    assert "unrelated" not in shown
    assert await store.found(query="xylophone") == "Nothing was found. Try other or fewer words."


async def test_messages_around_a_place_are_read_whole_and_say_how_to_go_on(store: Conversations) -> None:
    await store.add(HERE, *((ADA, f"message {number} {'x' * 900}") for number in range(30)))
    lines = (await store.found(around=15)).splitlines()
    shown = [int(line.split()[0].removeprefix("#")) for line in lines[1:-1]]
    assert lines[0] == "In this conversation:"
    assert shown == list(range(shown[0], shown[-1] + 1))
    assert shown[0] < 14
    assert shown[-1] > 16
    assert lines[-1] == (
        f'To read on, earlier messages: "around": {shown[0] - 1}; later messages: "around": {shown[-1] + 1}.'
    )
    assert "earlier" not in (await store.found(around=1)).splitlines()[-1]
    newest = (await store.found(conversation="cccc")).splitlines()
    assert newest[-2].startswith("#31 ")
    assert "later" not in newest[-1]
    await store.add(HERE, (ADA, f"begins {'word ' * 3_900} ends"), (ADA, "needle" + "y" * 15_000))
    assert "characters left out" in await store.found(around=33)
    assert len(await store.found(query="needle*")) < 1_500


async def test_others_are_searched_while_the_index_receives_what_has_just_become_durable(
    store: Conversations, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add(OTHER, (ADA, "the port was 8080"), title="Old server")
    await store.add(HERE, (ADA, "hello"))
    await store.add(HERE, (ADA, "which port"), noted=False)
    state = fold(HERE, await store.folder.read(HERE))
    ask = store.index.ask

    async def ask_then_note(question: Any) -> Any:
        answer = await ask(question)
        store.index.update(summarise(state, store.folder.length(HERE)), news_of([]))
        return answer

    monkeypatch.setattr(store.index, "ask", ask_then_note)
    shown = await store.found(query="port")
    assert "8080" in shown
    assert "cannot be searched now" not in shown


async def test_a_title_is_a_match_only_where_no_message_is(store: Conversations) -> None:
    await store.add(HERE, (ADA, "hello"))
    await store.add(OTHER, (ADA, "The old server is slow. What now?"), title="The old server is slow.")
    result = await store.found(query="server slow")
    assert "(title)" not in result
    assert "more match" not in result
    assert result.count("What now?") == 1
    await store.add(THIRD, (ADA, "it broke again"), title="Heron trouble")
    assert "(title): Heron trouble" in await store.found(query="heron")


async def test_a_conversation_is_named_by_id_or_title(store: Conversations) -> None:
    await store.add(HERE, (ADA, "hello"))
    await store.add(OTHER, (ADA, "the port was 8080"), title="The old server")
    await store.add(THIRD, (ADA, "another port"), title="The new server")
    assert 'In dddddddddddd "The old server":' in await store.found(conversation="OLD", query="port")
    assert "#2" in await store.found(conversation="ddddd", around=2)
    assert "2 conversations have 'server' in their title" in await store.refused(conversation="server")
    assert "No conversation that may be read here" in await store.refused(conversation="zebra")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "Give `query`: words to look for"),
        ({"query": "  "}, "Give `query`: words to look for"),
        ({"query": "?!"}, "The query holds no word"),
        ({"query": " ".join(f"w{n}" for n in range(40))}, "The query has 40 words"),
        ({"around": 0}, "`around` must satisfy"),
        ({"around": "third"}, "`around` must satisfy"),
        ({"words": "port"}, "words"),
    ],
)
async def test_what_cannot_be_looked_for_is_answered_with_what_to_do(
    store: Conversations, arguments: dict[str, Any], sentence: str
) -> None:
    await store.add(HERE, (ADA, "the port is 9090"))
    assert sentence in await store.refused(**arguments)


# ---- who may read what --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", [GUEST, BEN, ADA])
async def test_nobody_reads_a_conversation_of_others(store: Conversations, reader: PublicKey) -> None:
    """An owner too reads only where they wrote."""
    await store.add(OTHER, (BEN if reader == ADA else ADA, "the secret is heliotrope"), title="Secrets")
    await store.add(HERE, (reader, "what is the secret?"))
    assert "heliotrope" not in await store.found(reader, query="secret")
    for name in ("dddd", OTHER, "secrets"):
        assert "No conversation that may be read here" in await store.refused(reader, conversation=name, around=2)
    await store.add(OTHER, (reader, "tell me"))
    assert "heliotrope" in await store.found(reader, query="secret")
    assert "heliotrope" in await store.found(reader, conversation="dddd", around=2)


@pytest.mark.parametrize(
    ("reader", "here"),
    [
        (BEN, [BEN, GUEST]),  # the agent works for one of them, and both read its answer
        (None, [None]),
        (ADA, []),  # a conversation that is not stored is one whose readers are not known
    ],
)
async def test_only_what_all_readers_of_the_answer_may_read_is_found(
    store: Conversations, reader: PublicKey | None, here: list[PublicKey | None]
) -> None:
    await store.add(OTHER, (reader or ADA, "my secret is heliotrope"))
    if here:
        await store.add(HERE, *((one, "what secret?") for one in here))
    await store.add(THIRD, (BEN, "our secret is magnolia"), (GUEST, "I know"))
    shown = await store.found(reader, query="secret")
    assert "heliotrope" not in shown
    assert ("magnolia" in shown) == (GUEST in here)
    assert "No conversation that may be read here" in await store.refused(reader, conversation="dddd")


SECRET = (ADA, "the secret is heliotrope")
WRITES = {"event_id": EventId("e"), "author": GUEST, "name": "Gus", "role": Role.GUEST, "created_at": 1}
TEXT = {**WRITES, "text": "hello"}


def back_to(seq: int) -> tuple[type[Record], dict[str, Any]]:
    return RolledBack, {"to": seq, "by": "Ada", "reason": "", "state": new_conversation(OTHER)}


NOT_WRITING: dict[str, list[tuple[type[Record], dict[str, Any]]]] = {
    "a command": [(CommandGiven, {**WRITES, "command": "help", "argument": ""})],
    "a message that is not decided yet": [
        (
            EvaluationRequested,
            {
                "signal": MessageReceived(
                    message=InboundMessage(
                        event_id=EventId("e"), author=GUEST, text="hi", created_at=1, conversation=OTHER, starts=False
                    ),
                    role=Role.GUEST,
                    name="Gus",
                )
            },
        )
    ],
    "a message from outside the group": [(MessageRecorded, {**TEXT, "is_outside": True})],
    "a message that counts no more": [(MessageRecorded, TEXT), back_to(2)],
    "a message of an import": [(MessageRecorded, TEXT), (ConversationImported, {})],
    "a message of an import that goes on": [
        (MessageRecorded, TEXT),
        (ConversationImported, {}),
        (Waiting, {"reason": "user"}),
    ],
    "a name in a list of received messages": [(JournalRebuilt, {"source": "relay", "known_events": (EventId("e"),)})],
    "an answer of an agent with that key": [
        (MessageSent, {"speaker": GUEST, "name": "Gus", "text": "hi", "purpose": "completion", "phase": Phase.CHAT})
    ],
}


@pytest.mark.parametrize("way", list(NOT_WRITING))
@pytest.mark.parametrize("is_lost", [False, True], ids=["grown index", "index built from the journals"])
async def test_only_who_has_written_in_a_conversation_reads_it(
    store: Conversations, way: str, *, is_lost: bool
) -> None:
    """What a stranger can do to a thread whose id they know, and what a file can say, is not taking part in it."""
    await store.add(OTHER, SECRET, title="Secrets")
    await store.append(OTHER, *NOT_WRITING[way])
    await store.add(HERE, (GUEST, "what is the secret?"))
    if is_lost:
        await store.rebuilt()
    assert "heliotrope" not in await store.found(GUEST, query="secret")
    for name in ("dddd", OTHER, "secrets"):
        assert "No conversation that may be read here" in await store.refused(GUEST, conversation=name, around=2)
    await store.append(OTHER, (MessageRecorded, {**TEXT, "event_id": EventId("f"), "author": PublicKey(GUEST.upper())}))
    assert "heliotrope" in await store.found(GUEST, query="secret"), "in whatever case a key is written"


@pytest.mark.parametrize("is_lost", [False, True], ids=["grown index", "index built from the journals"])
async def test_what_was_said_before_a_rollback_is_not_found_until_it_counts_again(
    store: Conversations, *, is_lost: bool
) -> None:
    await store.add(OTHER, (ADA, "the port is 9090"), (ADA, "no, the port is 9191"))
    await store.append(OTHER, back_to(2))
    await store.add(HERE, (ADA, "which port?"), (ADA, "the port is 8080"))
    await store.append(HERE, back_to(2))
    if is_lost:
        await store.rebuilt()
    shown = await store.found(query="port")
    assert ("9090" in shown, "9191" in shown, "8080" in shown) == (True, False, False)
    assert "9191" not in await store.found(conversation="dddd", around=3)
    assert "8080" not in await store.found(around=2)
    await store.append(OTHER, back_to(3))
    assert "9191" in await store.found(query="port")


async def test_who_only_gave_a_command_here_reads_the_answer_too(store: Conversations) -> None:
    await store.add(OTHER, SECRET)
    await store.add(HERE, (ADA, "what is the secret?"))
    assert "heliotrope" in await store.found(query="secret")
    await store.append(HERE, (CommandGiven, {**WRITES, "command": "help", "argument": ""}))
    assert "heliotrope" not in await store.found(query="secret")


async def test_results_of_an_imported_conversation_say_so(store: Conversations) -> None:
    await store.add(OTHER, (ADA, "the port was 8080"), title="Old")
    await store.append(OTHER, (ConversationImported, {}))
    await store.add(OTHER, (ADA, "I looked it up"))
    await store.add(HERE, (ADA, "which port?"))
    assert 'In dddddddddddd "Old" (imported):' in await store.found(query="8080")
    assert 'In dddddddddddd "Old" (imported):' in await store.found(conversation="dddd", around=2)
    await store.append(HERE, (ConversationImported, {}))
    assert (await store.found(query="port")).startswith("In this conversation (imported):")


# ---- an index that lags or is lost --------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["removed", "overwritten"])
async def test_a_lost_index_costs_only_the_other_conversations(store: Conversations, damage: str) -> None:
    await store.add(OTHER, (ADA, "the old port"))
    await store.add(HERE, (ADA, "the port is 9090"))
    await store.add(HERE, (ADA, "no, the port is 9191"), noted=False)  # is read from the journal
    assert "9191" in await store.found(around=4)
    await store.index.flush()
    path = store.folder.root / "index.sqlite"
    path.unlink()
    if damage == "overwritten":
        path.write_text("nonsense")
    shown = await store.found(query="port")
    assert "9090" in shown
    assert "9191" in shown
    assert shown.splitlines()[-1].startswith("Other conversations cannot be searched now: their index")
    assert "9090" in await store.found(around=2)
    await store.add(HERE, (ADA, "go on"))
    async with asyncio.timeout(30):
        while "the old port" not in await store.found(query="port"):
            await store.index.flush()


async def test_where_the_journal_cannot_be_read_either_a_sentence_says_so(store: Conversations) -> None:
    await store.add(HERE, (ADA, "the port is 9090"))
    await store.index.flush()
    (store.folder.root / "index.sqlite").unlink()
    journal = store.folder.path(HERE) / "journal.jsonl"
    journal.write_text(journal.read_text().replace("a title", "no title"))
    assert "journal.jsonl" in await store.refused(query="port")


@pytest.mark.parametrize("was_read", [False, True])
async def test_what_its_author_deleted_is_found_no_more(store: Conversations, was_read: bool) -> None:
    await store.add(HERE, (ADA, "hello"))
    await store.add(OTHER, (ADA, "the code is heron"), (ADA, "and the colour is teal"), title="the code is heron")
    assert "heron" in await store.found(query="heron")
    await store.append(OTHER, (MessageWithdrawn, {"message": 2, "was_read": was_read, "was_title": True}))
    for _ in range(2):
        assert "Nothing was found" in await store.found(query="heron")
        assert "heron" not in await store.found(conversation=OTHER, around=2)
        assert "teal" in await store.found(query="colour")
        await store.rebuilt()


async def test_what_was_written_and_deleted_before_the_index_was_written_is_not_found(store: Conversations) -> None:
    await store.add(HERE, (ADA, "hello"))
    await store.add(OTHER, (ADA, "the code is heron"), (ADA, "and teal"))
    await store.append(OTHER, (MessageWithdrawn, {"message": 2}))
    assert "Nothing was found" in await store.found(query="heron")
    assert "teal" in await store.found(query="teal")


async def test_the_words_of_a_quoted_event_follow_the_same_rule_of_who_may_read(store: Conversations) -> None:
    await store.add(HERE, (ADA, "hello"))
    await store.add(OTHER, (ADA, "the code is heron"), (None, "so it is"))
    await store.add(THIRD, (BEN, "the word is teal"))
    past = PastMessages(store.index, store.folder)
    events = [EventId("d2"), EventId("e2"), EventId("f9")]

    async def quoted(here: ConversationId, person: PublicKey) -> list[tuple[str, str]]:
        return [(one.event_id, one.text) for one in await past.quoted(events, here, person)]

    new = ConversationId("9" * 64)
    for _ in range(2):
        assert await quoted(HERE, ADA) == await quoted(new, ADA) == [("d2", "the code is heron"), ("e2", "")]
        assert await quoted(new, BEN) == [("d2", ""), ("e2", "the word is teal")]
        assert await quoted(HERE, GUEST) == [("d2", ""), ("e2", "")]
        await store.rebuilt()
        past = PastMessages(store.index, store.folder)
    await store.add(HERE, (BEN, "hello"))
    assert await quoted(HERE, ADA) == [("d2", ""), ("e2", "")], "Ben reads the answer too"
    await store.append(OTHER, (MessageWithdrawn, {"message": 2}))
    assert await quoted(new, ADA) == [("e2", "")], "its author deleted it"
