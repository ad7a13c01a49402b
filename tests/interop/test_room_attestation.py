"""`tenex rooms attest`: an owner's signature lets agents in where only members may be, and is in their profiles."""

import json
from pathlib import Path

from tenex.core.ids import PublicKey
from tenex.nostr.attestations import attest
from tenex.nostr.keys import SecretKey, npub
from tests.kits.room_relay import Rules, room_relay
from tests.service.kit import tenex
from tests.service.person import until

from .daemons import in_process, reopened


async def test_attested_keys_are_let_in_and_name_their_owner(tmp_path: Path) -> None:
    data = tmp_path / "data"
    owner = SecretKey.generate()
    async with room_relay(Rules(keys=frozenset({owner.public}))) as relay:
        async with in_process(data, relay.url, npub(owner.public)) as daemon:
            assert daemon.app is not None
            pool = daemon.app.pool
            await until(lambda: "not a relay member" in str(pool.status()[0].refused))
            _, found, _ = await tenex("--data", data, "doctor")
            found = " ".join(found.split())
            assert "it does not let in 1 key of the project, project: restricted: not a relay member" in found
            assert "rooms attest`; else have them added there" in found
            code, printed, error = await tenex("--data", data, "rooms", "attest", TENEX_OWNER_NSEC=owner.nsec)
            assert (code, printed.count("attested by")) == (0, len(daemon.agent_keys)), error
            assert "The running daemon has read it." in error
        stored = data / "attestations.json"
        assert owner.nsec not in stored.read_text()
        assert json.loads(stored.read_text()).keys() == set(daemon.agent_keys)

        async with reopened(daemon) as again:
            assert again.app is not None
            room = relay.make("kitchen", owner.public, *daemon.agent_keys)
            rooms = again.app.rooms
            await until(lambda: rooms.is_read(relay.url, room))
            await until(lambda: {each["pubkey"] for each in relay.accepted(0)} == daemon.agent_keys)
            code, printed, _ = await tenex("--data", data, "rooms", "list")
            assert "executor (attested)" in printed
        for profile in relay.accepted(0):
            tags = [tag for tag in profile["tags"] if tag[0] == "auth"]
            assert tags == [list(attest(owner, PublicKey(profile["pubkey"])))]


async def test_only_an_owner_of_the_project_attests_and_nothing_else_is_stored(tmp_path: Path) -> None:
    data = tmp_path / "data"
    owner, stranger = SecretKey.generate(), SecretKey.generate()
    async with room_relay(Rules()) as relay, in_process(data, relay.url, npub(owner.public)) as daemon:
        key = PublicKey(daemon.agents["executor"])
    file = tmp_path / "owner.nsec"
    file.write_text(stranger.nsec)
    forged = json.dumps(list(attest(owner, stranger.public)))
    for words, env, sentence in [
        (("--owner-file", str(file)), {}, "is no owner of the project"),
        ((), {}, "The owner's secret key is needed"),
        ((), {"TENEX_OWNER_NSEC": "nsec1broken"}, "The owner's key was not read"),
        (("--agent", "ghost"), {"TENEX_OWNER_NSEC": owner.nsec}, "There is no key 'ghost'"),
        (("--tag", forged), {}, "--tag is for one key"),
        (("--tag", forged, "--agent", "executor"), {}, "its signature is not that owner's for this key"),
        (("--tag", "auth", "--agent", "executor"), {}, "it is no JSON"),
    ]:
        code, _, error = await tenex("--data", data, "rooms", "attest", *words, **env)
        assert (code, sentence in error.replace("\n", " ")) == (2, True), (words, error)
    assert not (data / "attestations.json").exists()
    good = json.dumps(list(attest(owner, key)))
    code, _, error = await tenex("--data", data, "rooms", "attest", "--agent", "executor", "--tag", good)
    assert code == 0, error
    assert list(json.loads((data / "attestations.json").read_text())) == [key]
