"""A real daemon, a real relay: a person deletes what they wrote, before work on it began and later, also in a wrap."""

from pathlib import Path

from tenex.core import records as r
from tenex.nostr.threading.direct import CHAT
from tests.fakes.modelprotocol import Hangs
from tests.fakes.modelscripts import Team
from tests.kits.direct_messages import began

from . import person
from .chats import Chat
from .kit import of_kind
from .loopback import QUICK, at_work

STOPPED = "You deleted what this was for. Stopped: Executor. Write to go on, or `/retry`."


async def test_a_message_that_is_deleted_before_work_began_starts_none(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, lambda _: Hangs(), QUICK) as (folder, _):
        name = await folder.write("Write note-01.txt.")
        await person.until(lambda: folder.state(name).router.question)
        event = of_kind(folder.records(name), r.MessageRecorded)[0].event_id
        await person.publish(relay, person.note(folder.owner, "a mistake", ["e", event], ["k", "1"], kind=5))
        await person.until(lambda: of_kind(folder.records(name), r.MessageWithdrawn))
        assert folder.state(name).cycle.waiting_for == "user"
        assert not of_kind(folder.records(name), r.TurnOpened)


async def test_a_deletion_that_arrives_before_its_message_holds_for_it(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, lambda _: Hangs(), QUICK) as (folder, _):
        wrong = person.note(folder.owner, "Write note-02.txt.", ["p", folder.project.public])
        gone = person.note(folder.owner, "a mistake", ["e", wrong["id"]], ["k", "1"], kind=5)
        await person.publish(relay, gone, wrong)
        later = await folder.write("/status")
        await person.until(lambda: of_kind(folder.records(later), r.CommandGiven))
        assert not of_kind(folder.records(wrong["id"]), r.TurnOpened)
        state = folder.state(wrong["id"])
        assert (state.cycle.messages, state.router.question) == ((), None), "it never came, or was taken back at once"


async def test_work_ends_when_its_request_is_deleted_in_the_open_and_in_a_wrap(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, Team(worker=lambda _: Hangs()), QUICK) as (folder, _):
        name = await folder.write("Write note-03.txt.")
        await person.until(lambda: of_kind(folder.records(name), r.TurnOpened))
        await person.publish(relay, person.note(folder.owner, "", ["e", name], ["k", "1"], kind=5))
        await person.until(lambda: of_kind(folder.records(name), r.Stopped))
        await folder.delivered(name)
        assert [event["content"] for event in await folder.sent()] == [STOPPED]

        me = Chat(folder.owner, relay, folder.project.public)
        asked = await me.write("Write note-04.txt.")
        assert await began(folder, 2) == asked
        await person.until(lambda: of_kind(folder.records(asked), r.TurnOpened))
        await me.write("", ["e", asked], ["k", str(CHAT)], kind=5)
        assert (await me.until("You deleted")).content.endswith(STOPPED)
        assert of_kind(folder.records(asked), r.Stopped)
        await me.write("Write note-05.txt.")  # as clients edit: a deletion, and another message
        await person.until(lambda: len(of_kind(folder.records(asked), r.TurnOpened)) == 2)
        await me.write("/stop")
        await me.until("Stopped: Executor", count=2)
        assert [event["content"] for event in await folder.sent()] == [STOPPED], "nothing of it is public"
