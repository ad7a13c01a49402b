"""The project's key in NDK's remote signer: a whole conversation is signed there (NIP-46)."""

import json
from pathlib import Path

import nostr_sdk as sdk
import pytest

from tenex.nostr.keys import SecretKey
from tests.service.kit import Folder, daemon, tenex_here

from .scripts import script

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("javascript")]


async def test_ndk_signs_for_the_project(relay: str, tmp_path: Path) -> None:
    """The address connects one client, once; an old one is refused in the signer's words."""
    folder = Folder(tmp_path / "data", relay)
    keys = sdk.Keys.generate()
    address = tmp_path / "address"
    connect = ("keys", "connect", "project", address, "--replace", "--data", folder.data)
    async with script("bunker.mjs", relay, keys.secret_key().to_hex()) as signer:
        address.write_text(f"bunker://{signer.pubkey}?relay={relay}&secret=once")
        await signer.do("offer", secret="once")
        code, _, err = await tenex_here(*connect)
        assert code == 0, err
        folder.project = SecretKey.from_nsec(keys.secret_key().to_bech32())
        assert folder.project.npub in err
        async with daemon(folder) as process:
            name = await folder.write("Create hello.py that prints hello")
            await folder.until(name, "ended")
            await folder.delivered(name)
            assert (await folder.facts("status"))["signers"][0]["state"] == "ready"
            code, _, err = await tenex_here(*connect)
            assert code == 2
            assert "The signer refused: this address was used already" in err
        assert not [log for log in process.logs if log["event"].startswith("signer.")]
        asked = await signer.do("asked")
    sent = [sdk.Event.from_json(json.dumps(event)) for event in await folder.sent(authors=[signer.pubkey])]
    assert sent
    assert all(event.verify() for event in sent)
    assert set(asked) == {"connect", "switch_relays", "ping", "sign_event"}
