"""A real daemon, a real relay, in quiet hours: whose phone rings, in the open and in direct messages."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tenex.core import records as r
from tenex.nostr.keys import SecretKey, npub
from tests.kits.direct_messages import began, listening

from . import person
from .chats import Chat
from .kit import Folder, daemon, of_kind

BEN = SecretKey.generate()


def folder_at_night(data: Path, relay: str) -> Folder:
    """Settings by which it is night for some hours, with Ben as a member."""
    now = datetime.now(UTC)
    hours = "-".join((now + timedelta(hours=each)).strftime("%H:%M") for each in (-4, 4))
    folder = Folder(data, relay)
    quiet = f'members = ["{npub(BEN.public)}"]\nquiet_hours = "{hours}"\ntime_zone = "UTC"\n'
    folder.edit("[people]\n", f"[people]\n{quiet}")
    return folder


async def commanded(folder: Folder, name: str, count: int) -> set[str]:
    """The people whom the answer to the newest of so many commands notifies."""
    await person.until(lambda: len(of_kind(folder.records(name), r.CommandGiven)) == count)
    await folder.delivered(name)
    return {tag[1] for tag in (await folder.sent(_e=[name]))[-1]["tags"] if tag[0] == "p"}


async def write(folder: Folder, text: str, by: SecretKey, root: str, *people: str) -> None:
    tags = [["e", root, folder.url, "root"], *(["p", key] for key in (folder.project.public, *people))]
    await person.publish(folder.url, person.note(by, text, *tags))


async def test_who_sleeps_is_not_named_and_who_writes_is_until_they_ask_for_quiet(tmp_path: Path, relay: str) -> None:
    folder = folder_at_night(tmp_path / "data", relay)
    me = folder.owner.public
    async with daemon(folder):
        note = person.note(BEN, "/status", ["p", folder.project.public], ["p", me])
        await person.publish(relay, note)
        name = str(note["id"])
        assert await commanded(folder, name, 1) == {BEN.public}
        await write(folder, "/status", folder.owner, name)
        assert await commanded(folder, name, 2) == {me}
        await write(folder, "/help", BEN, name, me)
        assert await commanded(folder, name, 3) == {BEN.public, me}
        await write(folder, "/quiet", folder.owner, name)
        assert await commanded(folder, name, 4) == {me}
        await write(folder, "/status", BEN, name, me)
        assert await commanded(folder, name, 5) == {BEN.public}


async def test_a_private_message_waits_for_who_sleeps_also_across_a_death(tmp_path: Path, relay: str) -> None:
    folder = folder_at_night(tmp_path / "data", relay)
    me = Chat(folder.owner, relay, folder.project.public, BEN.public)
    ben = Chat(BEN, relay, folder.owner.public, folder.project.public)
    async with daemon(folder) as first:
        await listening(folder)
        await ben.write("/status")
        await ben.until("Used so far")
        name = await began(folder, 2)
        await first.die()
    async with daemon(folder):
        await ben.write("/help")
        await ben.until("Write what you want")
        assert [message for message in await me.received() if message.pubkey == folder.project.public] == []
        assert set(folder.state(name).delivery.missed) == {folder.owner.public}
        await me.write("/status")
        await me.until("Used so far", count=2)
        await me.until("Write what you want")
        await folder.delivered(name)
        assert not folder.state(name).delivery.missed
