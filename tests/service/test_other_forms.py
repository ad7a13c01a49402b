"""A real daemon, a real relay, and what people do without our documents: pictures, comments, chats, reactions."""

from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.nostr.keys import SecretKey, npub
from tests.fakes.modelprotocol import Reply
from tests.fakes.modelscripts import Asked, Team, brisk, complete

from . import person
from .kit import Folder, Process, daemon, of_kind, ordered
from .loopback import at_work

STRANGER, BEN = SecretKey.generate(), SecretKey.generate()
URL = "https://example.com/herons"
DEBUG = {"TENEX_LOG__LEVEL": "debug"}


async def received(folder: Folder, process: Process, *events: person.Wire) -> list[bool]:
    """Publish events of kinds that are not read; which of them the daemon answers."""
    await person.publish(folder.url, *events)
    ids = [event["id"] for event in events]

    def all_there() -> dict[str, bool] | None:
        logs = (log for log in process.logs if log["event"] == "unread_kind.received")
        found = {log["event_id"]: log["is_answered"] for log in logs}
        return found if all(one in found for one in ids) else None

    found = await person.until(all_there)
    return [found[one] for one in ids]


def mention(folder: Folder) -> str:
    return f"nostr:{npub(folder.project.public)}"


async def answered(folder: Folder, count: int = 1, **wanted: Any) -> list[person.Wire]:
    """What our keys have published of a kind, once there is so much."""
    while len(sent := await folder.sent(**wanted)) < count:
        pass  # each look is a connection of its own
    return sent


async def test_a_picture_is_answered_once_a_day_by_a_comment_on_it_and_a_reply_to_that_is_read(
    tmp_path: Path, relay: str
) -> None:
    folder = Folder(tmp_path / "data", relay)
    tags = (["p", folder.project.public], ["imeta", "url https://example.com/a.png"])
    async with daemon(folder, **DEBUG) as process:
        picture = person.note(folder.owner, "What is this?", *tags, kind=20)
        assert await received(folder, process, picture) == [True]
        (answer,) = await answered(folder, kinds=[1111])
        assert answer["content"].startswith("I read text and cannot read a picture.")
        assert ["E", picture["id"], relay, folder.owner.public] in answer["tags"]
        voice = person.note(folder.owner, "https://example.com/a.m4a", *tags, kind=1222)
        assert await received(folder, process, voice) == [False]
        assert folder.names == []
        reply = person.note(
            folder.owner,
            "Hello there",
            *(tag for tag in answer["tags"] if tag[0] in "EKP"),
            ["e", answer["id"], relay, answer["pubkey"]],
            ["k", "1111"],
            ["p", answer["pubkey"], relay],
            kind=1111,
        )
        await person.publish(relay, reply)
        await folder.until(str(reply["id"]), "waiting")
    async with daemon(folder, **DEBUG) as process:
        again = person.note(folder.owner, "And this?", *tags, kind=20)
        assert await received(folder, process, again) == [False], "of the same day"


async def test_a_public_message_is_answered_in_its_own_kind_and_strangers_get_no_answer(
    tmp_path: Path, relay: str
) -> None:
    folder = Folder(tmp_path / "data", relay)
    tags = (["p", folder.project.public],)
    async with daemon(folder, **DEBUG) as process:
        await person.publish(relay, person.note(STRANGER, "hello", *tags, kind=24))
        assert await received(folder, process, person.note(folder.owner, "hello", *tags, kind=24)) == [True]
        (answer,) = await answered(folder, kinds=[24])
    assert [tag[1] for tag in answer["tags"] if tag[0] == "p"] == [folder.owner.public]
    assert mention(folder) in answer["content"]


async def test_a_comment_on_a_page_begins_a_conversation_which_a_reply_goes_on_with(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    scope = (["I", URL], ["K", "web"])
    async with daemon(folder):
        asked = person.note(folder.owner, f"Hello {mention(folder)}", *scope, ["i", URL], ["k", "web"], kind=1111)
        await person.publish(relay, asked)
        name = str(asked["id"])
        state = await folder.until(name, "waiting")
        assert f"It comments on “{URL}”" in state.cycle.messages[0].context
        (answer,) = await answered(folder, kinds=[1111])
        assert [tag for tag in answer["tags"] if tag[0] in "IKei"] == [
            *map(list, scope),
            ["e", name, relay, folder.owner.public],
        ]
        reply = person.note(
            folder.owner, "Create heron.py that prints heron", *scope, ["e", answer["id"]], ["k", "1111"], kind=1111
        )
        await person.publish(relay, reply)
        await folder.until(name, "ended")
        assert folder.names == [name]
    assert (folder.workspace / "heron.py").exists()


async def test_a_chat_in_a_group_is_answered_in_it_and_only_where_we_are_meant(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    group = ["h", "kitchen"]
    async with daemon(folder):
        other = person.note(folder.owner, "Who has the key?", group, kind=9)
        asked = person.note(folder.owner, "Hello there", group, ["p", folder.project.public], kind=9)
        await person.publish(relay, other, asked)
        name = str(asked["id"])
        await folder.until(name, "waiting")
        (answer,) = await answered(folder, kinds=[9])
        assert group in answer["tags"]
        assert ["q", name, relay, folder.owner.public] in answer["tags"]
        reply = person.note(folder.owner, "/status", group, ["q", answer["id"], relay, answer["pubkey"]], kind=9)
        await person.publish(relay, reply)
        sent = await answered(folder, 2, kinds=[9])
        assert ["q", reply["id"], relay, folder.owner.public] in sent[-1]["tags"]
        assert folder.names == [name]
    assert await folder.sent(kinds=[1]) == []


async def test_a_stop_sign_on_the_own_request_stops_the_work(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    async with ordered(folder, model="asker"):
        name = await folder.write("Paint it")
        await person.until(lambda: of_kind(folder.records(name), r.QuestionAsked))
        tags = [["e", name, relay], ["p", folder.owner.public], ["k", "1"]]
        await person.publish(relay, person.note(folder.owner, "🛑", *tags, kind=7))
        await person.until(lambda: of_kind(folder.records(name), r.Stopped))
        await folder.delivered(name)
        assert (await folder.sent(_e=[name]))[-1]["content"].startswith("Stopped: ")


async def test_a_thread_that_calls_us_in_is_shown_with_its_authors(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    async with daemon(folder):
        root = person.note(STRANGER, "Herons are grey.")
        name = str(root["id"])
        first = person.note(BEN, "Some are white.", ["e", name, relay, "root"])
        second = person.note(
            STRANGER, "Those are egrets.", ["e", name, relay, "root"], ["e", first["id"], relay, "reply"]
        )
        asked = person.note(
            folder.owner,
            f"Who is right, {mention(folder)}?",
            ["e", name, relay, "root"],
            ["e", second["id"], relay, "reply"],
        )
        await person.publish(relay, root, first, second, asked)
        (wrote,) = await person.until(lambda: of_kind(folder.records(name), r.MessageRecorded))
        context = wrote.context
        ben, stranger = (f"person-{key.public[:8]}" for key in (BEN, STRANGER))
        assert f"It replies to a public note of {stranger}: “Those are egrets.”" in context
        assert f"The thread begins with a public note of {stranger}: “Herons are grey.”" in context
        assert f"Before it in the thread, the oldest first: {ben}: “Some are white.”" in context


async def test_a_comment_on_a_poll_is_shown_with_its_answers_and_answered_below_it(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    options = (["option", "a", "Grey herons"], ["option", "b", "White ones"], ["option"], ["option", "c"])
    poll = person.note(STRANGER, "Which bird?", *options, ["polltype", "singlechoice"], kind=1068)
    tags = (["E", poll["id"], relay, STRANGER.public], ["K", "1068"], ["P", STRANGER.public])
    link = (["e", poll["id"], relay, STRANGER.public], ["k", "1068"], ["p", STRANGER.public])
    asked = person.note(folder.owner, f"What do you think, {mention(folder)}?", *tags, *link, kind=1111)
    async with daemon(folder):
        await person.publish(relay, poll, asked)
        (wrote,) = await person.until(lambda: of_kind(folder.records(str(asked["id"])), r.MessageRecorded))
        stranger = f"person-{STRANGER.public[:8]}"
        assert wrote.context == (
            f"It replies to a public note of {stranger}: “Which bird? [ ] Grey herons [ ] White ones”"
        )
        (answer,) = await answered(folder, kinds=[1111])
    assert [tag for tag in answer["tags"] if tag[0] in "EKPek"] == [
        *tags,
        ["e", asked["id"], relay, folder.owner.public],
        ["k", "1111"],
    ]


MARKDOWN = "## Done\n\n- **one**: see [the file](a.md)\n\n```py\n# **code**\n```"
PLAIN = "Done\n\n- one: see the file (a.md)\n\n```py\n# **code**\n```"


async def test_an_answer_in_markdown_is_plain_in_a_note(tmp_path: Path, relay: str) -> None:
    def worker(asked: Asked) -> Reply:
        return complete(response=MARKDOWN, summary="done") if asked.phase == "execute" else brisk(asked)

    async with at_work(tmp_path, relay, Team(worker=worker)) as (folder, _):
        name = await folder.write("Write it")
        await person.until(lambda: of_kind(folder.records(name), r.RunEnded))
        await folder.delivered(name)
        texts = [event["content"] for event in await folder.sent(_e=[name])]
        assert any(text.startswith(PLAIN) for text in texts), texts
        assert any(record.text.startswith(MARKDOWN) for record in of_kind(folder.records(name), r.MessageSent))


@pytest.mark.parametrize("open_", [True, False])
async def test_of_guests_only_those_who_may_write_get_an_answer(tmp_path: Path, relay: str, *, open_: bool) -> None:
    folder = Folder(tmp_path / "data", relay)
    folder.edit("[people]\n", f"[people]\nopen = {str(open_).lower()}\n")
    async with daemon(folder, **DEBUG) as process:
        tags = (["p", folder.project.public],)
        await person.publish(relay, person.note(STRANGER, "look", *tags, kind=20))
        assert await received(folder, process, person.note(folder.owner, "look", *tags, kind=20)) == [True]
        sent = await answered(folder, 2 if open_ else 1, kinds=[1111])
        assert len(sent) == (2 if open_ else 1)
