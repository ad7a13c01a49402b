"""The input of the chat: what is kept of it, what Tab completes, and how conversations are listed and named."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from tenex.cli.init import prepare
from tenex.cli.shared.chat_places import OWN, ChatPlaces
from tenex.cli.shared.input_completion import InputCompleter
from tenex.cli.shared.input_history import KEPT, LONGEST, InputHistory
from tenex.cli.shared.read_marks import KEPT as MARKS_KEPT
from tenex.cli.shared.read_marks import ReadMarks
from tenex.core.errors import UsageError
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import Millis
from tenex.core.inbox.commands import slash_commands
from tenex.nostr.keys import SecretKey

from .journals import ONE, THREE, TWO, changed, worked, write_conversations


def kept(file: Path) -> list[str]:
    """What the next chat finds, the newest first."""
    return list(InputHistory(file).load_history_strings())


def test_what_was_typed_is_found_by_the_next_chat_in_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / "chat-history"
    history = InputHistory(file)
    for text in ("hello", "two\nlines", "ü"):
        history.append_string(text)
    assert history.get_strings() == ["hello", "two\nlines", "ü"]
    assert kept(file) == ["ü", "two\nlines", "hello"]
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text",
    [
        "x" * (LONGEST + 1),
        "look: [paste 1: 5,000 characters]",
        SecretKey(bytes([7]) * 32).nsec,
        "sk-ant-api03-abcdefghijk",
    ],
)
def test_pastes_and_secrets_are_not_kept(tmp_path: Path, text: str) -> None:
    file = tmp_path / "chat-history"
    history = InputHistory(file)
    history.append_string(text)
    history.append_string("hello")
    assert history.get_strings() == ["hello"]
    assert text not in file.read_text()


def test_a_file_that_is_damaged_or_cannot_be_written_disturbs_nothing(tmp_path: Path) -> None:
    file = tmp_path / "chat-history"
    file.write_bytes(b'"one"\n{"no": "text"}\n"cut of\n\xff\n"two"\n')
    assert kept(file) == ["two", "one"]
    nowhere = InputHistory(tmp_path / "none" / "chat-history")
    nowhere.append_string("hello")
    assert nowhere.get_strings() == ["hello"]
    InputHistory(None).append_string("hello")


def test_a_long_file_is_cut_to_the_newest(tmp_path: Path) -> None:
    file = tmp_path / "chat-history"
    file.write_text("".join(f"{json.dumps(str(number))}\n" for number in range(2 * KEPT + 1)))
    newest = [str(number) for number in range(2 * KEPT, KEPT, -1)]
    assert kept(file) == newest
    assert len(file.read_text().splitlines()) == KEPT
    assert kept(file) == newest
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.fixture
def places(tmp_path: Path) -> ChatPlaces:
    """A folder with two conversations and two agents."""
    data = tmp_path / "data"
    prepare(data, None, [])
    write_conversations(data, {ONE: worked(ONE), TWO: worked(TWO)})
    for age, name in enumerate((ONE, TWO)):
        os.utime(data / "conversations" / name, (age, age))
    return ChatPlaces(conversations=data / "conversations", agents=["executor", "planner"])


def completions(places: ChatPlaces, text: str) -> list[str]:
    completer = InputCompleter(places.commands(), places.agents, places.arguments)
    return [found.text for found in completer.get_completions(Document(text), CompleteEvent())]


def test_commands_agents_and_conversations_are_completed(places: ChatPlaces) -> None:
    assert set(completions(places, "/")) == {f"/{name}" for name in (*slash_commands(), *(name for name, _ in OWN))}
    assert completions(places, "/sto") == ["/stop"]
    assert completions(places, "/CONV") == ["/conversations"]
    assert completions(places, "ask @ex") == ["@executor"]
    assert completions(places, "@") == ["@executor", "@planner"]
    assert completions(places, "/open ") == [TWO[:12], ONE[:12]], "the newest first"
    assert completions(places, f"/open {ONE[:3]}") == [ONE[:12]]
    for text in ("", "hello", "hello /sto", "a/b", "/stop now ", "/ "):
        assert completions(places, text) == []
    assert all(about for _, about in places.commands())


async def test_conversations_are_listed_found_and_named_by_number_or_id(places: ChatPlaces) -> None:
    lines = await places.find("")
    listed = [str(row["id"]) for row in places.listed]
    assert sorted(listed) == sorted([ONE, TWO])
    assert [line.split()[:2] for line in lines[:2]] == [["1", listed[0][:12]], ["2", listed[1][:12]]]
    assert [await places.named(text) for text in ("2", ONE[:8].upper(), ONE)] == [listed[1], ONE, ONE]
    for text in ("3", "", "ffff"):
        with pytest.raises(UsageError):
            await places.named(text)
    title = str(places.listed[0]["title"])
    assert len(await places.find(title.split()[0])) > 1
    assert await places.find("nothingofthekind") == ["No conversation matches."]
    assert "elsewhere" in (await ChatPlaces().find(""))[0]


async def test_a_list_marks_what_has_happened_since_it_was_seen(places: ChatPlaces, tmp_path: Path) -> None:
    file = tmp_path / "chat-read.json"
    time = Millis(0)
    places.marks = ReadMarks(file, lambda: time)
    assert await places.count_new("") == 2, "both are of a later day"
    assert await places.count_new(ONE) == 1, "the one that is open is seen"
    time = Millis(10**13)
    places.marks.note(ONE)
    places.marks = ReadMarks(file, lambda: time)
    marked = [line.split()[0] for line in (await places.find(""))[:2]]
    new = {str(row["id"]): mark for row, mark in zip(places.listed, marked, strict=True)}
    assert [name for name, mark in new.items() if mark.endswith("*")] == [TWO]
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("[")
    places.marks = ReadMarks(file, lambda: time)
    assert await places.count_new("") == 0, "a file that cannot be read marks nothing"


def test_nothing_is_new_in_the_first_chat_and_so_many_marks_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "chat-read.json"
    time = Millis(5_000)
    marks = ReadMarks(file, lambda: time)
    marks.begin()
    row = {"id": ONE, "updated": "1970-01-01T00:00:04.000Z"}
    assert not marks.is_new(row)
    time = Millis(9_000)
    later = ReadMarks(file, lambda: time)
    later.begin()
    assert later.is_new({**row, "updated": "1970-01-01T00:00:06.000Z"}), "it came while no chat was open"
    for number in range(MARKS_KEPT + 5):
        later.note(f"{number:064x}")
    assert len(json.loads(file.read_text())) == MARKS_KEPT + 1


async def test_a_conversation_in_direct_messages_is_not_gone_on_with_in_notes(places: ChatPlaces) -> None:
    """What the chat asks and publishes names the conversation, and no relay is to learn its id."""
    assert places.conversations is not None
    private = changed(worked(THREE), ConversationStarted, address={"form": "direct", "root": THREE, "room": "e" * 64})
    await asyncio.to_thread(write_conversations, places.conversations.parent, {THREE: private})
    await places.refuse_private(ONE)
    with pytest.raises(UsageError, match="direct messages"):
        await places.refuse_private(THREE)
