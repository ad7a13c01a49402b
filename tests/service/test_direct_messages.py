"""A real daemon, a real relay, and a conversation that only its people can read."""

import asyncio
import json
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tenex.app.direct_messages import GUESTS_PER_DAY
from tenex.core import records as r
from tenex.core.ids import EventId
from tenex.nostr.direct import GIFT_WRAP, SEAL, nip44_decrypt, nip44_encrypt
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.events import sign, to_wire, unsigned_event
from tenex.nostr.keys import KeyRing, SecretKey, nevent, npub
from tenex.nostr.threading.direct import CHAT, ENCRYPTED
from tests.fakes.faultrelay import FaultRelay
from tests.fakes.modelscripts import Team
from tests.kits.daemon_approvals import COMMAND, UNCONFINED, runs, times
from tests.kits.direct_messages import began, encrypted, listening, sdk, theirs

from . import person
from .chats import Chat, overheard
from .kit import Folder, Process, daemon, of_kind, ordered
from .loopback import at_work

BEN, STRANGER = SecretKey.generate(), SecretKey.generate()
NOTE = 1
HELLO = "Create hello.py that prints hello"
DEBUG = {"TENEX_LOG__LEVEL": "debug"}


def of_another_library(by: SecretKey, to: str, text: str) -> person.Wire:
    """A gift wrap as rust-nostr makes it."""
    made: person.Wire = json.loads(sdk.nip17_make_private_msg(theirs(by), sdk.PublicKey.parse(to), text).as_json())
    return made


async def taken(process: Process, *events: person.Wire) -> None:
    """Wait until a daemon with `DEBUG` has looked at these events."""

    def are_there() -> bool:
        known = {log.get("event_id") for log in process.logs if log["event"] == "direct_message.received"}
        return known >= {event["id"] for event in events}

    await person.until(are_there)


async def test_a_whole_conversation_of_which_the_relay_holds_only_wraps(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    me = Chat(folder.owner, relay, folder.project.public)
    async with daemon(folder) as process:
        started = await listening(folder)
        await folder.delivered(started)
        before = await person.stored(relay, kinds=[1, 1111])
        async with overheard(relay) as events:
            events.clear()
            await person.publish(relay, of_another_library(folder.owner, folder.project.public, HELLO))
            name = await began(folder, 2)
            await folder.until(name, "ended")
            await folder.delivered(name)
            answers = await me.received()
            await me.write("/status")
            status = await me.until("Used so far")
        assert events == [], "nothing of it is public, not even that somebody is typing"
        assert await person.stored(relay, kinds=[1, 1111]) == before
    assert (folder.workspace / "hello.py").read_text() == 'print("hello")\n'
    assert {message.kind for message in answers} == {CHAT}
    assert {message.pubkey for message in [*answers, status]} == {folder.project.public}, "one chat for all agents"
    sent = of_kind(folder.records(name), r.MessageSent, lambda record: record.is_published)
    assert len(answers) == sum(len(record.events) for record in sent) - 1
    assert any(message.content.startswith("Executor: ") for message in answers), "and each says who it is"
    stored = await person.stored(relay)
    assert {event["kind"] for event in stored} <= {0, 1, 10002, 10044, 10050, GIFT_WRAP}
    assert HELLO not in json.dumps(stored)
    assert "hello.py" not in json.dumps(stored)
    assert HELLO not in process.stderr
    gift = next(event for event in stored if ["p", folder.owner.public] in event["tags"] and event["kind"] == GIFT_WRAP)
    opened = sdk.UnwrappedGift.from_gift_wrap(theirs(folder.owner), sdk.Event.from_json(json.dumps(gift)))
    assert opened.sender().to_hex() == folder.project.public, "another library reads it"
    assert sorted(folder.names) == sorted([started, name])


async def test_our_keys_say_where_they_want_private_messages(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    async with daemon(folder):
        async with asyncio.timeout(60):
            while len(lists := await person.stored(relay, kinds=[10050])) < len(folder.public_keys):
                pass
    assert {event["pubkey"] for event in lists} == folder.public_keys
    assert all(event["tags"] == [["relay", relay]] for event in lists)


async def test_messages_go_on_with_the_newest_conversation_until_the_next_begins(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    me = Chat(folder.owner, relay, folder.project.public)
    async with daemon(folder):
        await listening(folder)
        first = await me.write("Hello there")
        assert await began(folder, 2) == first
        await me.until(count=1)
        await me.write("/status")
        await me.until("Used so far")
        second = await me.write("/new Hello again")
        assert await began(folder, 3) == second
        wrote = await person.until(lambda: of_kind(folder.records(second), r.MessageRecorded))
        assert [record.text for record in wrote] == ["Hello again"]
        ended = await person.until(lambda: of_kind(folder.records(first), r.Ended))
        assert "began another conversation" in ended[0].reason
        third = await me.write("And this", ["subject", "Another subject"])
        assert await began(folder, 4) == third
        assert folder.state(third).identity.title == "Another subject"
        await me.write("/status", ["subject", "Another subject"])
        await person.until(lambda: of_kind(folder.records(third), r.CommandGiven))
        answer = of_kind(folder.records(first), r.MessageSent)[0]
        await me.write("/status", ["e", answer.events[0].id])
        await person.until(lambda: len(of_kind(folder.records(first), r.CommandGiven)) == 2)
    async with daemon(folder):
        await me.write("/status")
        await person.until(lambda: len(of_kind(folder.records(third), r.CommandGiven)) == 2)
        blank = await me.write("/new")
        assert await began(folder, 5) == blank
        await me.until("This is a new conversation")
    assert len(folder.names) == 5


async def test_the_key_that_was_written_to_answers(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    planner = KeyRing(folder.data / "keys").get("planner").public
    me = Chat(folder.owner, relay, planner)
    async with daemon(folder):
        await listening(folder)
        await me.write("/status")
        answer = await me.until("Used so far")
        name = await began(folder, 2)
        assert answer.pubkey == planner
        assert folder.state(name).identity.address["people"] == [folder.owner.public]
        other = Chat(folder.owner, relay, folder.project.public)
        await other.write("/status")
        assert await began(folder, 3) != name, "the chat with the project is another one"


async def test_answers_go_where_their_reader_looks_for_them(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    own = SecretKey.generate()
    async with embedded_relay() as inbox, embedded_relay() as reads:
        folder.edit(f'urls = ["{relay}"]', f'urls = ["{relay}", "{inbox}", "{reads}"]')
        folder.edit("[people]\n", f'[people]\nmembers = ["{npub(BEN.public)}"]\n')
        await person.publish(relay, person.note(folder.owner, "", ["relay", inbox], kind=10050))
        await person.publish(relay, person.note(folder.owner, "", ["r", reads], kind=10002))
        await person.publish(relay, person.note(BEN, "", ["r", relay, "write"], ["r", reads, "read"], kind=10002))
        await person.publish(relay, person.note(BEN, "", ["n", own.public], kind=10044))
        async with daemon(folder) as process:
            await listening(folder)
            await Chat(folder.owner, relay, folder.project.public).write("/status")
            await Chat(folder.owner, inbox, folder.project.public).until("Used so far")
            await Chat(BEN, relay, folder.project.public).write("/status")
            await Chat(BEN, reads, folder.project.public).until("Used so far")
            log = await process.until("direct_message.no_inbox_relays")
            assert (log["author"], "10002" in log["used"]) == (BEN.public[:8], True)
            for name in folder.names:
                await folder.delivered(name)
        for url, key in ((relay, folder.owner), (reads, folder.owner), (relay, BEN), (inbox, BEN)):
            assert await Chat(key, url).received() == []
        answers = await person.stored(reads, kinds=[GIFT_WRAP], _p=[BEN.public])
        for_that_key = [wrap for wrap in answers if _can_open(own, wrap)]
        assert (len(answers), len(for_that_key)) == (2, 1), "for clients with that key, and for all others"


@pytest.mark.parametrize(("moment", "at"), [("publish", 1), ("published", 1), ("appended", 3)])
async def test_a_wrap_is_the_same_after_a_death(tmp_path: Path, relay: str, moment: Any, at: int) -> None:
    folder = Folder(tmp_path / "data", relay)
    me = Chat(folder.owner, relay, folder.project.public)
    async with daemon(folder):
        await listening(folder)
    async with ordered(folder, moment, at) as first:
        await me.write(HELLO)
        assert await first.ended() == -signal.SIGKILL, first.stderr
    async with daemon(folder):
        name = await began(folder, 2)
        await folder.until(name, "ended")
        await folder.delivered(name)
    sent = of_kind(folder.records(name), r.MessageSent)
    wraps = [wrap.event.id for record in sent for wrap in record.wraps]
    kept = await person.stored(relay, kinds=[GIFT_WRAP], _p=[folder.owner.public])
    assert Counter(event["id"] for event in kept) == Counter(wraps), "each that the journal holds, once"
    messages = [message.id for message in await me.received()]
    assert sorted(messages) == sorted(event.id for record in sent for event in record.events)


async def test_what_is_forged_repeated_or_by_strangers_begins_nothing(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    me = Chat(folder.owner, relay, folder.project.public)
    async with daemon(folder, **DEBUG) as process:
        started = await listening(folder)
        rumor = me.rumor("I am the owner")
        inner = {name: getattr(rumor, name) for name in ("id", "pubkey", "created_at", "kind", "tags", "content")}
        forged = _wrapped_by(STRANGER, inner, folder.project.public)
        strange = Chat(STRANGER, relay, folder.project.public)
        events = [forged, *strange.wraps(strange.rumor("Hello"))]
        await person.publish(relay, *events)
        await taken(process, *events)
        again = me.rumor("/status")
        twice = [*me.wraps(again), *me.wraps(again)]
        assert twice[0]["id"] != twice[1]["id"]
        await person.publish(relay, *twice)
        await taken(process, *twice)
        name = await began(folder, 2)
        await me.until("Used so far")
        await person.publish(relay, *me.wraps(me.rumor("/help")))
        await me.until("Write what you want")
        assert len(of_kind(folder.records(name), r.CommandGiven)) == 2
    assert sorted(folder.names) == sorted([started, name])
    assert await strange.received() == []


def _can_open(key: SecretKey, wrap: person.Wire) -> bool:
    with suppress(ValueError):
        return bool(nip44_decrypt(wrap["content"], key.shared_secret(wrap["pubkey"])))
    return False


def _wrapped_by(key: SecretKey, rumor: dict[str, Any], to: str) -> person.Wire:
    """A rumor of somebody in a seal of somebody else."""
    secret = key.shared_secret(to)  # type: ignore[arg-type]
    seal = sign(unsigned_event(key.public, 1, SEAL, (), nip44_encrypt(json.dumps(rumor), secret)), key)
    once = SecretKey.generate()
    content = nip44_encrypt(json.dumps(to_wire(seal)), once.shared_secret(to))  # type: ignore[arg-type]
    return to_wire(sign(unsigned_event(once.public, 1, GIFT_WRAP, (("p", to),), content), once))


async def test_what_is_private_and_what_is_public_never_meet(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    me = Chat(folder.owner, relay, folder.project.public)
    async with daemon(folder):
        public = await listening(folder)
        await me.write("/status", ["e", public])
        private = await began(folder, 2)
        assert private != public
        await me.until("Used so far")
        await folder.write("/help", to=private)
        later = await folder.write("/status")
        await person.until(lambda: of_kind(folder.records(later), r.CommandGiven))
        assert len(of_kind(folder.records(private), r.CommandGiven)) == 1
        assert [record.command for record in of_kind(folder.records(public), r.CommandGiven)] == ["status"]
    assert sorted(folder.names) == sorted([public, private, later])


async def test_a_reaction_and_a_deletion_in_a_wrap_count_as_they_do_in_public(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, Team(worker=runs()), UNCONFINED) as (folder, _):
        me = Chat(folder.owner, relay, folder.project.public)
        await listening(folder)
        await me.write("Publish it")
        name = await began(folder, 2)
        asks = await me.until(f"Allow {COMMAND}?")
        mistaken = await me.write("A mistake")
        await person.until(lambda: len(of_kind(folder.records(name), r.MessageRecorded)) == 2)
        await me.write("", ["e", mistaken], ["k", str(CHAT)], kind=5)
        await person.until(lambda: of_kind(folder.records(name), r.MessageWithdrawn))
        assert times(folder) == 0
        await me.write("👍", ["e", asks.id], ["k", str(CHAT)], kind=7)
        (answer,) = await person.until(lambda: of_kind(folder.records(name), r.ApprovalAnswered))
        assert (answer.outcome, answer.by) == ("yes", folder.owner.public)
        await person.until(lambda: times(folder) == 1)


async def test_a_room_of_three_has_one_conversation(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    folder.edit("[people]\n", f'[people]\nmembers = ["{npub(BEN.public)}"]\n')
    project = folder.project.public
    me = Chat(folder.owner, relay, project, BEN.public)
    ben = Chat(BEN, relay, folder.owner.public, project)
    async with daemon(folder):
        await listening(folder)
        await me.write("/status")
        for chat in (me, ben):
            answer = await chat.until("Used so far")
            people = {tag[1] for tag in answer.tags if tag[0] == "p"}
            assert people == {folder.owner.public, BEN.public}
        name = await began(folder, 2)
        await ben.write("/help")
        await me.until("Write what you want")
        assert len(of_kind(folder.records(name), r.CommandGiven)) == 2
        await Chat(folder.owner, relay, project).write("/status")
        assert await began(folder, 3) != name


async def test_a_kind_4_is_answered_by_kinds_4(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    async with daemon(folder):
        await listening(folder)
        await person.publish(relay, encrypted(folder.owner, folder.project.public, HELLO))
        name = await began(folder, 2)
        await folder.until(name, "ended")
        await folder.delivered(name)
    kept = await person.stored(relay, kinds=[4], _p=[folder.owner.public])
    texts = [_decrypted(event, folder.owner) for event in kept]
    sent = of_kind(folder.records(name), r.MessageSent, lambda record: record.is_published)
    assert len(texts) == len(sent)
    assert any("hello.py" in text for text in texts)
    assert {tag[0] for event in kept for tag in event["tags"]} == {"p", "e"}
    assert await person.stored(relay, kinds=[GIFT_WRAP]) == []


def _decrypted(event: person.Wire, key: SecretKey) -> str:
    sender = sdk.PublicKey.parse(event["pubkey"])
    return str(sdk.nip04_decrypt(theirs(key).secret_key(), sender, event["content"]))


@pytest.mark.parametrize("kind", [CHAT, ENCRYPTED])
async def test_relays_are_asked_for_nothing_that_people_talk_about_but_a_note_which_they_name(
    tmp_path: Path, kind: int
) -> None:
    async with FaultRelay() as relay:
        folder = Folder(tmp_path / "data", relay.url)
        me = Chat(folder.owner, relay.url, folder.project.public)
        shared = person.note(STRANGER, "Herons fish at dawn.")
        cited = person.note(STRANGER, "Storks do not.")
        before = me.rumor("This was said before you came")
        named = f"See nostr:{sdk.EventId.parse(shared['id']).to_bech32()}"
        inner = f"And nostr:{nevent(EventId(before.id), relay.url, folder.owner.public, CHAT)}"
        async with daemon(folder):
            await listening(folder)
            await person.publish(relay.url, shared, cited)
            for text, *tags in (
                ("What do you say?", ["e", before.id]),
                ("And now?", ["q", cited["id"], relay.url]),
                (inner, ["q", before.id, relay.url]),
                (named, ["q", shared["id"], relay.url]),
            ):
                if kind == CHAT:
                    await me.write(text, *tags)
                else:
                    await person.publish(relay.url, encrypted(folder.owner, folder.project.public, text, *tags))
            name = await began(folder, 2)
            await person.until(lambda: len(of_kind(folder.records(name), r.MessageRecorded)) == 4)
        asked = json.dumps(relay.reqs())
        messages = of_kind(folder.records(name), r.MessageRecorded)
        assert shared["id"] in asked, "the answer may come too late on a busy machine"
        secret = {before.id, cited["id"], *(message.event_id for message in messages)}
        assert not [event_id for event_id in secret if event_id in asked]


async def test_what_is_not_read_is_answered_once_a_day(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    me = Chat(folder.owner, relay, folder.project.public)
    crowd = Chat(folder.owner, relay, folder.project.public, *(SecretKey.generate().public for _ in range(9)))
    async with daemon(folder, **DEBUG) as process:
        started = await listening(folder)
        await me.write("A public note", kind=NOTE)
        await me.until("Only text and files are read")
        events = [*me.wraps(me.rumor("Again", kind=NOTE)), *crowd.wraps(crowd.rumor("Hello"))[:1]]
        await person.publish(relay, *events)
        await taken(process, *events)
    async with daemon(folder, **DEBUG) as process:
        events = me.wraps(me.rumor("And again", kind=NOTE))
        await person.publish(relay, *events)
        await taken(process, *events)
        await me.write("/status")
        await me.until("Used so far")
        assert len(await me.received()) == 2
    assert len(folder.names) == 2
    assert started in folder.names


async def test_of_many_guests_only_so_many_get_that_answer_in_a_day(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    folder.edit("[people]\n", "[people]\nopen = true\n")
    guests = [Chat(SecretKey.generate(), relay, folder.project.public) for _ in range(GUESTS_PER_DAY + 20)]
    async with daemon(folder, **DEBUG) as process:
        await listening(folder)
        events = [guest.wraps(guest.rumor("a note", kind=NOTE))[0] for guest in guests]
        await person.publish(relay, *events)
        await taken(process, *events)
        await Chat(folder.owner, relay, folder.project.public).write("/status")
        await Chat(folder.owner, relay, folder.project.public).until("Used so far")
    answered = [guest for guest in guests if await guest.received()]
    assert len(answered) == GUESTS_PER_DAY
