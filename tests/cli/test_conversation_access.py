"""What a program may do with conversations: nothing that only a person decides, and no more than a page at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tenex.cli.shared import conversation_access
from tenex.cli.shared.conversation_access import PAGE_CHARACTERS, TEXT_CHARACTERS, ConversationAccess, messages_of
from tenex.core import records as r
from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId, EventId
from tenex.core.rollback.whole import RolledBack
from tenex.store.disk import Disk
from tenex.store.repository import ConversationFolder
from tests.fakes.scenario import ID, Scenario, longest_way, model_by_phase
from tests.fakes.virtual import virtual_time
from tests.kits.approvals import planned
from tests.kits.call_approvals import asked
from tests.kits.gates import asked_now
from tests.kits.tool_questions import parked
from tests.store.kit import StillClock

Opened = Callable[[Scenario], Any]


class Sent:
    """Notes what would be sent."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def send(self, text: str, *_: object) -> str:
        self.texts.append(text)
        return "e" * 64


class Growing:
    """The journal of a scenario, which is longer from each of these times of the loop on."""

    def __init__(self, scenario: Scenario, times: list[float]) -> None:
        self.seq = scenario.conversation.next_seq - 1
        self._records = [record for decision in scenario.journal for record in decision]
        self._times = times

    async def size(self, _name: ConversationId) -> int:
        return sum(asyncio.get_running_loop().time() >= time for time in self._times)

    async def read(self, _name: ConversationId, _after: int) -> list[r.Record]:
        return self._records


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
async def opened(tmp_path: Path, sent: Sent) -> AsyncIterator[Opened]:
    """Writes the journal of a scenario, and gives access to it."""
    disk = Disk()
    folder = ConversationFolder(tmp_path, disk, StillClock())

    async def open_(scenario: Scenario) -> ConversationAccess:
        journal, _ = await folder.open(ID)
        await journal.append([tuple(decision) for decision in scenario.journal])
        await folder.close()
        sender: Any = sent
        return ConversationAccess(folder, sender)

    yield open_
    disk.close()


@pytest.mark.parametrize(
    ("scenario", "waiting"),
    [(planned, ["the approval of the plan"]), (asked_now, ["whether verification may be skipped"])],
)
async def test_what_only_a_person_decides_is_named_and_not_answered(
    opened: Opened, sent: Sent, scenario: Callable[[], Scenario], waiting: list[str]
) -> None:
    held = scenario()
    access = await opened(held)
    shown = await access.read_conversation(ID, None, 20)
    assert shown["personDecides"] == waiting
    assert shown["openQuestions"] == []
    with pytest.raises(UsageError, match=f"waits for {waiting[0]}. Only a person decides that"):
        await access.send_message("Yes, please", ID)
    question = next(one.events[0].id for one in reversed(held.records(r.MessageSent)) if one.asks)
    with pytest.raises(UsageError, match=r"That question was not answered\. Only a person decides that"):
        await access.answer_question(ID, question, "yes")
    assert sent.texts == []
    answer = await access.send_message("What does it change?", ID)
    assert sent.texts == ["What does it change?"]
    assert (answer["conversation"], answer["after"]) == (ID, held.conversation.next_seq - 1)


@pytest.mark.parametrize(
    ("scenario", "waiting"),
    [
        (asked, "permission for Executor to run git push origin main"),
        (lambda: parked("Delete everything?"), "an answer to what shop__order asks"),
    ],
    ids=["a call that asks", "a question of a server"],
)
async def test_what_waits_for_a_person_in_a_call_is_named_and_not_answered(
    opened: Opened, sent: Sent, scenario: Callable[[], Scenario], waiting: str
) -> None:
    held = scenario()
    access = await opened(held)
    shown = await access.read_conversation(ID, None, 20)
    assert (shown["personDecides"], shown["openQuestions"]) == ([waiting], [])
    with pytest.raises(UsageError, match=f"waits for {waiting}. Only a person decides that"):
        await access.send_message("yes", ID)
    question = held.records(r.MessageSent)[-1].events[0].id
    with pytest.raises(UsageError, match=r"That question was not answered\. Only a person decides that"):
        await access.answer_question(ID, question, "yes")
    assert sent.texts == []


@pytest.mark.parametrize("text", ["", " \n", "x" * 70_000])
async def test_a_message_has_words_and_a_bound(opened: Opened, sent: Sent, text: str) -> None:
    access = await opened(planned())
    for call in (access.send_message(text), access.answer_question(ID, "e" * 64, text)):
        with pytest.raises(UsageError, match="The message "):
            await call
    assert sent.texts == []


async def test_a_page_is_bounded_and_the_rest_follows(opened: Opened) -> None:
    scenario = Scenario(longest_way, model_by_phase())
    for number in range(30):
        scenario.user_writes(f"{number} {'x' * 5_000}")
    access = await opened(scenario)
    pages: list[list[dict[str, Any]]] = []
    before = None
    while not pages or before is not None:
        page = await access.read_conversation(ID, before, 50)
        assert sum(len(message["text"]) for message in page["messages"]) <= PAGE_CHARACTERS
        pages.insert(0, page["messages"])
        before = page["earlier"]
    texts = [message["text"] for page in pages for message in page if message["person"]]
    assert len(pages) > 1
    assert [int(text.split()[0]) for text in texts] == list(range(30))
    assert pages[0][0]["charactersLeftOut"] == len("0 ") + 5_000 - TEXT_CHARACTERS

    first = await access.wait_for_messages(ID, 0, 0)
    assert len(first["messages"]) < 30
    second = await access.wait_for_messages(ID, first["next"], 0)
    assert int(second["messages"][0]["text"].split()[0]) == len(first["messages"])


async def test_a_conversation_at_rest_is_not_waited_for(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_access, "RESTS_AFTER", 0.0)
    scenario = planned()
    access = await opened(scenario)
    shown = await access.wait_for_messages(ID[:8], scenario.conversation.next_seq - 1, 50)
    assert (shown["messages"], shown["status"]) == ([], "waiting")
    with pytest.raises(UsageError, match="No conversation begins with"):
        await access.wait_for_messages("beef", 0, 50)


@virtual_time
async def test_a_conversation_that_has_just_changed_is_waited_for_a_moment(tmp_path: Path) -> None:
    """A message may be on its way to it: each change begins the moment anew."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    folder = Growing(planned(), [began, began + 1.5, began + 3])
    sender: Any = Sent()
    access = ConversationAccess(cast("Any", folder), sender)
    shown = await access.wait_for_messages(ID, folder.seq, 50)
    waited = loop.time() - began
    assert (shown["messages"], shown["status"]) == ([], "waiting")
    assert 3 + conversation_access.RESTS_AFTER <= waited < 3 + conversation_access.RESTS_AFTER + 1


def test_what_was_withdrawn_or_undone_is_no_message() -> None:
    scenario = planned()
    written = scenario.records(r.MessageRecorded)[0]
    later = [replace(written, seq=seq, event_id=EventId(f"{seq:064x}")) for seq in (50, 51, 52)]
    withdrawn = r.MessageWithdrawn(seq=53, at=written.at, message=50)
    back = RolledBack(seq=54, at=written.at, to=51, state=scenario.conversation, by="x", reason="")
    assert [message["seq"] for message in messages_of([*later, withdrawn])] == [51, 52]
    assert [message["seq"] for message in messages_of([*later, withdrawn, back])] == [51]
