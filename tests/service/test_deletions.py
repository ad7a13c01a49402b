"""A real daemon, a real relay: a person deletes what they wrote before work on it began, in both orders of arrival."""

from pathlib import Path

from tenex.core import records as r
from tests.fakes.modelprotocol import Hangs

from . import person
from .kit import of_kind
from .loopback import QUICK, at_work


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
