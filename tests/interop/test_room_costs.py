"""What answers cost, reported to the owner in a room (NIP-AM): heard by buzzkit, decrypted by rust-nostr."""

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import nostr_sdk as sdk
import pytest

from tenex.core import records as r
from tenex.core.messages import NO_USAGE
from tenex.core.totals.costs import cost_of
from tests.fakes.modelscripts import Team
from tests.kits.daemon_approvals import UNCONFINED
from tests.kits.room_relay import Raw, RoomRelay, room_relay
from tests.kits.room_work import workplace
from tests.service.kit import Folder, deaths, of_kind, ordered, tenex
from tests.service.loopback import MODEL, serving
from tests.service.moments import APPENDS, Moment
from tests.service.person import note

from .buzz import buzz_person

SETTINGS = f"{UNCONFINED}[rooms]\ncosts = true\n"
WORK = "Write notes-10.txt and count its words"


async def attest(folder: Folder, *words: str) -> None:
    code, _, error = await tenex("--data", folder.data, "rooms", "attest", *words)
    assert code == 0, error


def opened(folder: Folder, event: Raw) -> dict[str, Any]:
    """The report as its owner reads it."""
    secret = sdk.SecretKey.parse(folder.owner.nsec)
    read: dict[str, Any] = json.loads(sdk.nip44_decrypt(secret, sdk.PublicKey.parse(event["pubkey"]), event["content"]))
    return read


def cents(amount: float) -> float:
    return round(amount, 9)


def begin(relay: RoomRelay, folder: Folder, room: str, text: str = WORK) -> str:
    """Have the owner write, by another connection; the conversation."""
    return relay.write(note(folder.owner, text, ["h", room], ["p", folder.project.public], kind=9))


async def test_an_owner_reads_what_each_answer_has_cost_and_the_sum_is_that_of_the_conversation(tmp_path: Path) -> None:
    async with workplace(tmp_path / "data", Team(), SETTINGS) as place:
        folder = place.folder
        await attest(folder)
        async with serving(folder, place.server), buzz_person(place.relay.url, folder.owner, place.room) as alice:
            await alice.listen(kinds=[44200], _p=[folder.owner.public])
            name = await alice.say(place.room, WORK, mentions=(folder.project.public,))
            await folder.until(name, "ended")
            await folder.delivered(name)
            sent = of_kind(folder.records(name), r.CostReported)
            await alice.until(lambda heard: len([it for it in heard if it["kind"] == 44200]) == len(sent))
            heard = [event for event in alice.heard if event["kind"] == 44200]
            assert all(output["verified"] for output in alice.outputs)

        assert sorted(event["id"] for event in heard) == sorted(event.id for each in sent for event in each.events)
        ended = of_kind(folder.records(name), r.RunEnded)
        read = [opened(folder, event) for event in heard]
        assert {each["turnId"] for each in read} >= {record.run for record in ended}
        assert len({each["turnId"] for each in read}) == len(read), "one report for each turn"
        for event, each in zip(heard, read, strict=True):
            assert event["tags"] == [["p", folder.owner.public], ["agent", event["pubkey"]]]
            assert (each["harness"], each["model"]) == ("tenex", MODEL.partition("/")[2] or MODEL)
            assert (each["channelId"], each["sessionId"]) == (place.room, name)
            assert each["stopReason"] == "end_turn"
            assert each["turn"]["totalTokens"] is None
        whole = sum((cost_of(record) for record in folder.records(name)), NO_USAGE)
        turns = [each["turn"] for each in read]
        assert sum(turn["inputTokens"] for turn in turns) == whole.input_tokens > 0
        assert sum(turn["outputTokens"] for turn in turns) == whole.output_tokens > 0
        assert cents(sum(turn["costUsd"] for turn in turns)) == cents(whole.cost_usd or 0)


@pytest.mark.parametrize("is_wanted", [True, False])
async def test_nothing_is_reported_of_a_key_without_attestation_or_where_the_settings_do_not_ask(
    tmp_path: Path, *, is_wanted: bool
) -> None:
    async with workplace(tmp_path / "data", Team(), SETTINGS if is_wanted else UNCONFINED) as place:
        folder = place.folder
        if is_wanted:
            await attest(folder, "--agent", "executor")
        else:
            await attest(folder)
        _, found, _ = await tenex("--data", folder.data, "doctor")
        assert ("are reported: no owner has attested them" in " ".join(found.split())) is is_wanted
        async with serving(folder, place.server):
            name = begin(place.relay, folder, place.room)
            await folder.until(name, "ended")
            await folder.delivered(name)
        speakers = {record.name for record in of_kind(folder.records(name), r.CostReported)}
        assert speakers == ({"Executor"} if is_wanted else set())
        runs = of_kind(folder.records(name), r.RunEnded, lambda record: record.run.endswith(".executor"))
        assert len(place.relay.accepted(44200)) == (len(runs) if is_wanted else 0)


async def test_a_relay_that_refuses_a_report_gets_none_of_that_key_again_and_the_room_reads_nothing_of_it(
    tmp_path: Path,
) -> None:
    async with workplace(tmp_path / "data", Team(), SETTINGS) as place:
        folder, relay = place.folder, place.relay
        await attest(folder)
        relay.owners |= dict.fromkeys(folder.public_keys, "an earlier owner")
        async with serving(folder, place.server):
            for _ in range(2):
                name = begin(place.relay, folder, place.room)
                await folder.until(name, "ended")
                await folder.delivered(name)
        tried = Counter(event["pubkey"] for event in relay.published if event["kind"] == 44200)
        assert tried
        assert max(tried.values()) == 1
        assert not relay.accepted(44200)
        assert not [event for event in relay.accepted(9) if "owner of this agent" in event["content"]]


@pytest.mark.parametrize(
    ("moment", "at"),
    deaths([("published", 2), ("publish", 4)], (APPENDS, 12), (["publish", "published"], 7)),
)
async def test_after_a_kill_each_report_is_there_once(moment: Moment, at: int, tmp_path: Path) -> None:
    async with room_relay() as relay:
        folder = Folder(tmp_path / "data", relay.url, "[rooms]\ncosts = true\n")
        room = relay.make("room", folder.owner.public, *folder.public_keys)
        await attest(folder)
        async with ordered(folder, moment, at, model="paid") as first:
            name = begin(relay, folder, room, "Create hello.py that prints hello")
            assert await first.ended() == -signal.SIGKILL, first.stderr
        async with ordered(folder, model="paid") as second:
            await folder.until(name, "ended")
            await folder.delivered(name)
            assert await second.stop() == 0
        records = folder.records(name)
        sent = [event.id for record in of_kind(records, r.CostReported) for event in record.events]
        assert sorted(event["id"] for event in relay.accepted(44200)) == sorted(sent)
        read = [opened(folder, event) for event in relay.accepted(44200)]
        assert {each["turnId"] for each in read} >= {record.run for record in of_kind(records, r.RunEnded)}
        whole = sum((cost_of(record) for record in records), NO_USAGE)
        assert sum(each["turn"]["inputTokens"] for each in read) == whole.input_tokens
