"""A person of Buzz in a room: buzzkit, made of the builders of Buzz itself, writes, answers and reacts."""

from pathlib import Path

from tenex.core import records as r
from tenex.nostr.keys import SecretKey, npub
from tests.fakes.modelscripts import Team
from tests.kits.daemon_approvals import UNCONFINED, answers, ended, runs, times
from tests.kits.room_relay import room_relay
from tests.kits.room_work import workplace
from tests.service import person
from tests.service.kit import of_kind
from tests.service.loopback import serving

from .answers import Answer, closed, tags
from .buzz import buzz_person
from .daemons import as_process

HELLO = "Create hello.py that prints hello"


def is_below(answer: Answer, root: str, room: str) -> bool:
    """Whether clients of Buzz show it in the thread of the root, and not at the top of the room."""
    return tags(answer, "e") == [["e", root, "", "reply"]] and tags(answer, "h") == [["h", room]]


async def test_a_person_of_buzz_is_answered_in_the_thread_and_goes_on_without_a_mention(tmp_path: Path) -> None:
    owner = SecretKey.generate()
    async with room_relay() as relay, as_process(tmp_path / "data", relay.url, npub(owner.public)) as daemon:
        room = relay.make("room", owner.public, *daemon.agent_keys)
        async with buzz_person(relay.url, owner, room) as alice:
            root = await alice.say(room, HELLO, mentions=(daemon.project,))
            await alice.until(closed())
            assert (daemon.workspace / "hello.py").exists()
            assert any(["p", alice.key] in answer["tags"] for answer in alice.heard)

            heard = len(alice.heard)
            await alice.say(room, "/status", to=root)
            await alice.until(lambda answers: len(answers) > heard)
            direct = alice.heard[heard]
            await alice.say(room, "/status", to=direct["id"], root=root)
            await alice.until(lambda answers: len(answers) > heard + 1)
            nested = alice.heard[heard + 1]
            assert direct["pubkey"] == nested["pubkey"] == daemon.project

            other = await alice.say(room, "/status", mentions=(daemon.project,))
            await alice.until(lambda answers: len(answers) > heard + 2)
            *of_first, of_other = alice.heard
            assert all(is_below(answer, root, room) for answer in of_first)
            assert is_below(of_other, other, room)
            assert all(output["verified"] for output in alice.outputs)
            assert {answer["pubkey"] for answer in alice.heard} <= daemon.agent_keys


async def test_a_reaction_of_buzz_to_a_request_for_permission_lets_the_work_go_on(tmp_path: Path) -> None:
    """It names the request alone: neither the room nor the agent."""
    async with workplace(tmp_path / "data", Team(worker=runs()), UNCONFINED) as place:
        relay, folder, server, room = place
        async with serving(folder, server), buzz_person(relay.url, folder.owner, room) as alice:
            root = await alice.say(room, "Publish it", mentions=(folder.project.public,))
            await person.until(lambda: of_kind(folder.records(root), r.ApprovalRequested))
            await alice.until(lambda answers: len(answers) == 1)
            (wanted,) = alice.heard
            assert wanted["content"].startswith("Allow ")
            assert is_below(wanted, root, room)
            assert times(folder) == 0

            thumb = await alice.react(wanted["id"], "👍")
            assert [event["tags"] for event in relay.accepted(7) if event["id"] == thumb] == [[["e", wanted["id"]]]]
            assert await ended(folder, root) == "finished"
            assert times(folder) == 1
            (given,) = answers(folder, root)
            assert (given.outcome, given.by) == ("yes", folder.owner.public)
            await alice.until(lambda answers: len(answers) > 1)
            result = alice.heard[1]
            assert "It is done." in result["content"]
            assert is_below(result, root, room)
