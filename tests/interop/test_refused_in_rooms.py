"""What a relay of rooms refuses reaches the people in the room all the same, once."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.nostr.keys import KeyRing
from tenex.operations.doctor.daemon import problems_in_status
from tests.fakes.modelprotocol import Reply
from tests.fakes.modelscripts import Asked, Team, brisk, complete
from tests.fakes.modelserver import model_server
from tests.kits.room_person import room_person
from tests.kits.room_relay import Raw, RoomRelay, Rules, room_relay
from tests.service import person
from tests.service.kit import Folder, daemon, of_kind, ordered, tenex
from tests.service.loopback import folder_with_model, serving

TOO_OLD = "invalid: event timestamp too far from server time"


Takes = Callable[[Raw], bool]


def halts_for(relay: RoomRelay, is_lost: Takes) -> list[str]:
    """Have the relay neither take nor answer such events; their ids are in the list."""
    lost: list[str] = []
    publish = relay.publish

    def halted(client: Any, event: Raw) -> None:
        if is_lost(event):
            lost.append(event["id"])
        else:
            publish(client, event)

    relay.publish = halted  # type: ignore[method-assign]
    return lost


def answers_none(relay: RoomRelay, is_wanted: Takes) -> list[str]:
    """Have the relay take the first such event, and answer nothing any more on that connection; its id is listed."""
    taken: list[str] = []
    publish = relay.publish

    def silent(client: Any, event: Raw) -> None:
        if is_wanted(event) and not taken:
            taken.append(event["id"])
            client.send = lambda *_frame: None
        publish(client, event)

    relay.publish = silent  # type: ignore[method-assign]
    return taken


async def test_an_answer_older_than_the_relay_takes_arrives_once_with_a_new_date(tmp_path: Path) -> None:
    """The relay halts for an hour when the agent answers; and then the daemon is killed before it has the OK."""
    async with room_relay(Rules()) as relay:
        folder = Folder(tmp_path / "data", relay.url)
        room = relay.make("room", folder.owner.public, *folder.public_keys)
        publish = relay.publish
        lost = halts_for(relay, lambda event: event["kind"] == 9 and event["pubkey"] != folder.owner.public)
        async with room_person(relay, folder.owner, room) as owner, ordered(folder, ahead=-3600) as process:
            name = await owner.say(room, "Which colour?", ["p", folder.project.public])
            await person.until(lambda: lost)
            await process.die()
        (said,) = of_kind(folder.records(name), r.MessageSent)
        (old,) = said.events
        assert old.id in lost

        relay.publish = publish  # type: ignore[method-assign]
        taken = answers_none(relay, lambda event: event["content"] == old.content and event["id"] != old.id)
        async with daemon(folder) as process:
            await person.until(lambda: taken)
            await process.die()
        assert folder.state(name).delivery.outbox
        async with daemon(folder):
            await person.until(lambda: not folder.state(name).delivery.outbox)

        (event,) = [event for event in relay.accepted(9) if event["pubkey"] != folder.owner.public]
        assert event["id"] == taken[0]
        assert abs(event["created_at"] - time.time()) < 60
        assert (event["content"], event["tags"]) == (old.content, [list(tag) for tag in old.tags])
        assert {why for each, _, why in relay.answers if each["id"] == old.id} >= {TOO_OLD}
        (record,) = of_kind(folder.records(name), r.Delivered, lambda each: each.again is not None)
        assert (record.refused, record.again.id) == (old.id, event["id"])


async def test_what_an_agent_may_not_write_is_said_in_its_thread_by_the_project(tmp_path: Path) -> None:
    """The agent is removed from a private room while it works; also after a restart it is said once."""

    def worker(asked: Asked) -> Reply:
        if asked.phase != "execute":
            return brisk(asked)
        relay.remove(room, KeyRing(folder.data / "keys").get("executor").public)
        return complete(response="It is blue.", summary="done")

    async with room_relay(Rules()) as relay, model_server(Team(worker=worker)) as server:
        folder = folder_with_model(tmp_path / "data", relay.url, server)
        room = relay.make("room", folder.owner.public, *folder.public_keys, private=True)
        async with room_person(relay, folder.owner, room) as owner:
            async with serving(folder, server):
                name = await owner.say(room, "Which colour?", ["p", folder.project.public])
                said = await owner.until(lambda event: "It is blue." in event["content"])
                _, shown, _ = await tenex("status", "--json", "--data", folder.data)
                await folder.until(name, "ended")
            async with serving(folder, server):
                assert not folder.state(name).delivery.outbox
        assert said["pubkey"] == folder.project.public
        assert said["content"].startswith(
            "Executor cannot write here (“restricted: not a channel member”). Add Executor "
        )
        assert ["e", name, "", "reply"] in said["tags"]
        assert ["p", folder.owner.public] in said["tags"]
        assert len([event for event in relay.accepted(9) if "It is blue." in event["content"]]) == 1
        status = json.loads(shown)
        reason = "Executor: restricted: not a channel member"
        assert [(each["relay"], each["reason"]) for each in status["refusals"]] == [(relay.url, reason)]
        (finding,) = problems_in_status(status)
        assert finding.message == f"it has refused 1 event of ours; the last: {reason}"


@pytest.mark.parametrize("is_said", [True, False])
async def test_an_answer_longer_than_the_relay_takes_is_sent_in_parts_or_said_to_be_too_long(
    tmp_path: Path, *, is_said: bool
) -> None:
    """In parts where the relay's document says what it takes."""
    words = " ".join(f"{number:04}" for number in range(1000))

    def worker(asked: Asked) -> Reply:
        return complete(response=words, summary="done") if asked.phase == "execute" else brisk(asked)

    async with (
        room_relay(Rules(largest=2000, says_largest=is_said)) as relay,
        model_server(Team(worker=worker)) as server,
    ):
        folder = folder_with_model(tmp_path / "data", relay.url, server)
        room = relay.make("room", folder.owner.public, *folder.public_keys)
        async with room_person(relay, folder.owner, room) as owner, serving(folder, server):
            name = await owner.say(room, "Count", ["p", folder.project.public])
            if is_said:
                await owner.until(lambda event: "0999" in event["content"])
            else:
                said = await owner.until(lambda event: "Executor cannot write here" in event["content"])
                assert "invalid: content exceeds maximum size of 2000 bytes" in said["content"]
                assert f"tenex conversations show {name}" in said["content"]
                assert ["p", folder.owner.public] in said["tags"]
            await folder.until(name, "ended")
        parts = [event["content"] for event in relay.accepted(9) if event["content"][:1] == "0"]
        assert " ".join(parts).startswith(words) if is_said else not parts
        assert all(len(part) <= 2000 for part in parts)
