"""Keys of the project and of agents that the service manager gives, as systemd's `LoadCredential=` does."""

import asyncio
from pathlib import Path

from tenex.nostr.keys import KeyRing, SecretKey

from . import person
from .kit import Folder, daemon, tenex, tenex_here


def moved(folder: Folder, *names: str) -> Path:
    """The folder of the credentials that these keys have become."""
    credentials = folder.data.parent / "credentials"
    credentials.mkdir()
    for name in names:
        (folder.data / "keys" / f"{name}.nsec").rename(credentials / f"{name}.nsec")
        (credentials / f"{name}.nsec").chmod(0o440)
    return credentials


async def test_a_daemon_signs_with_keys_of_credentials(folder: Folder) -> None:
    """None of them is made a second time; one that differs from a key in the folder is refused by name."""
    agent = KeyRing(folder.data / "keys").get("executor")
    credentials = moved(folder, "project", "executor")
    given = {"CREDENTIALS_DIRECTORY": str(credentials)}
    own = folder.data / "keys" / "executor.nsec"
    async with daemon(folder, **given) as process:
        assert (await folder.facts("status"))["process"]["address"] == folder.project.npub
        ours = {folder.project.public, agent.public}
        async with asyncio.timeout(60):
            while ours - {event["pubkey"] for event in await person.stored(folder.url, kinds=[0])}:
                pass  # each look waits for the relay
        assert "key.created" not in process.events()
        assert not own.exists()
        own.write_text(SecretKey.generate().nsec)
        own.chmod(0o600)
        await process.reload()
        assert str(own) in (await process.until("agent.disabled"))["faults"][0]
        assert list((await folder.facts("status"))["configuration"]["disabledAgents"]) == ["executor"]
    ended, _, err = await tenex_here("config", "check", "--data", folder.data, **given)
    assert ended == 3
    sentence = f"{own}: there is another key of executor in {credentials / 'executor.nsec'} too; move away the one"
    assert sentence in err
    code, out, _ = await tenex_here("doctor", "--data", folder.data, **given)
    assert code == 3
    assert f"another key of executor in {credentials / 'executor.nsec'}" in out


async def test_a_daemon_does_not_start_with_two_addresses(folder: Folder) -> None:
    credentials = moved(folder, "project")
    other = KeyRing(folder.data / "keys").get_or_create("project")
    ended, _, err = await tenex("run", "--data", folder.data, CREDENTIALS_DIRECTORY=str(credentials))
    assert ended == 3
    assert str(folder.data / "keys" / "project.nsec") in err
    assert str(credentials / "project.nsec") in err
    assert other.nsec not in err
    assert await person.stored(folder.url, authors=[folder.project.public, other.public]) == []
