"""A project whose key is at a remote signer (NIP-46): connected by a command, silent, killed, going on."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tenex.feature import checks_of, problems_of
from tenex.main import FEATURES
from tenex.nostr.events import is_genuine, parse_event
from tenex.nostr.keys import KeyRing, RemoteKey, SecretKey
from tenex.operations.doctor.daemon import problems_in_status
from tenex.operations.doctor.findings import Case
from tenex.operations.doctor.runner import CHECKS, FIRST, examine
from tests.fakes import bunker as fake
from tests.fakes.bunker import Bunker, bunker

from . import person
from .kit import Folder, Process, daemon, tenex_here

USER = SecretKey.generate()
SIGNER = SecretKey.generate()


@asynccontextmanager
async def signer(folder: Folder) -> AsyncIterator[Bunker]:
    async with bunker(folder.url, USER, signer=SIGNER) as there:
        yield there


async def connect(folder: Folder, there: Bunker, *more: str, code: int = 0) -> tuple[str, str]:
    """What `tenex keys connect project` prints, with the signer's address in a file."""
    file = folder.data.parent / "address"
    file.write_text(f"{there.address}\n")
    ended, out, err = await tenex_here("keys", "connect", "project", file, *more, "--data", folder.data)
    assert ended == code, err
    assert there.secret not in out + err
    return out, err


async def doctor(folder: Folder, *checks: str) -> list[str]:
    """What these checks of the doctor say."""
    case = Case(data=folder.data, config=None, env={})
    findings = await examine(case, FIRST, [check for check in (*CHECKS, *checks_of(FEATURES)) if check.name in checks])
    return [finding.message for finding in findings]


async def test_a_key_moves_to_a_signer(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file stays; what shows keys shows where this one is, and what needs the secret says so."""
    async with signer(folder) as there:
        _, err = await connect(folder, there, code=2)
        assert "project has a key" in err
        assert "--replace" in err
        assert not there.requests
        there.answer = lambda *_: {"result": "", "error": "used already"}
        assert "The signer refused: used already" in (await connect(folder, there, "--replace", code=2))[1]
        assert KeyRing(folder.data / "keys").get("project") == folder.project
        there.answer = fake.good
        _, err = await connect(folder, there, "--replace")
    ring = KeyRing(folder.data / "keys")
    key = ring.read("project")
    assert isinstance(key, RemoteKey)
    assert (key.public, key.signer, key.relays) == (USER.public, SIGNER.public, (folder.url,))
    assert key.client.public == there.requests[-1]["client"]
    assert "sign_event:1," in there.asked("connect")[-1]["params"][2]
    kept = folder.data / "keys" / "project.nsec.old-1"
    assert SecretKey.from_nsec(kept.read_text()) == folder.project
    assert str(kept) in err
    assert ring.file("project").stat().st_mode & 0o777 == 0o600
    rows = {row["name"]: row for row in await folder.facts("keys", "list")}
    assert rows["project"]["npub"] == USER.npub
    assert rows["project"]["signer"] == [folder.url]
    assert "signer" not in rows["planner"]
    assert (await folder.facts("address"))["signer"] == [folder.url]
    code, _, err = await tenex_here("keys", "export", "project", "--data", folder.data)
    assert code == 3
    with monkeypatch.context() as patched:
        patched.setattr("tenex.features.signers.checks.TIMEOUT", 0.5)
        said = await doctor(folder, "keys", "signers")
    assert any("is silent" in sentence for sentence in said), said
    async with signer(folder):
        said = await doctor(folder, "keys", "signers")
    assert any("the remote signer of project answers" in sentence for sentence in said), said
    assert any("direct messages" in sentence for sentence in said), said
    assert "a remote signer holds the key of project" in err


async def test_what_a_silent_signer_has_not_signed_is_sent_once_after_a_kill(folder: Folder) -> None:
    """The agents' own messages are sent meanwhile; status and doctor say which key waits, since when and why.

    The signer does not come back: the daemon that runs then is connected to another one of that key.
    """
    async with signer(folder) as there:
        await connect(folder, there, "--replace")
    folder.project = USER
    async with daemon(folder) as process:
        name, waiting = await _ask_without_signer(folder, process)
        await process.die()
    assert waiting == _unsent(folder, name)
    async with daemon(folder), bunker(folder.url, USER, signer=SecretKey.generate()) as there:
        assert "The running daemon has read it." in (await connect(folder, there, "--replace"))[1]
        await folder.delivered(name)
        (one,) = (await folder.facts("status"))["signers"]
        assert (one["name"], one["state"]) == ("project", "ready")
        status = await folder.facts("status")
        assert list(problems_in_status(status)) == []
        assert list(problems_of(FEATURES)["signers"](status["signers"])) == []
    events = await folder.sent(authors=[USER.public], kinds=[1])
    assert {event["id"] for event in events} >= waiting
    assert len({event["id"] for event in events}) == len(events)
    assert all(is_genuine(parse_event(event)) for event in events)
    kinds = [json.loads(request["params"][0])["kind"] for request in there.asked("sign_event")]
    assert 10050 not in kinds, "direct messages to it are not read"
    profiles = await person.stored(folder.url, authors=[USER.public], kinds=[0, 10002, 10050])
    assert {event["kind"] for event in profiles} == {0, 10002}


def _unsent(folder: Folder, name: str) -> set[str]:
    rows = folder.state(name).delivery.outbox.values()
    return {event.id for row in rows for event in row.events if event.pubkey == USER.public}


def _is_all_that_waits(folder: Folder, name: str) -> bool:
    rows = folder.state(name).delivery.outbox.values()
    return all(event.pubkey == USER.public for row in rows for event in row.events)


async def _ask_without_signer(folder: Folder, process: Process) -> tuple[str, set[str]]:
    name = await folder.write("Create hello.py that prints hello")
    await folder.until(name, "ended")
    await process.until("signer.silent")
    await person.until(lambda: _is_all_that_waits(folder, name))
    waiting = _unsent(folder, name)
    assert waiting
    assert await folder.sent(authors=[USER.public]) == []
    assert await folder.sent(), "what other keys sign is sent"
    status = await folder.facts("status")
    (one,) = status["signers"]
    assert (one["name"], one["npub"], one["state"]) == ("project", USER.npub, "silent")
    assert one["waiting"] >= len(waiting)
    (finding,) = problems_of(FEATURES)["signers"](status["signers"])
    assert (finding.level, finding.location) == ("fault", "the key project")
    assert "its remote signer is silent: it does not answer; " in finding.message
    code, out, _ = await tenex_here("status", "--data", folder.data)
    assert code == 0
    assert "0 of 1 remote signer ready" in out
    assert re.search(r"SILENT +project, noticed .* ago, \d+ events to sign, the first .* ago: it does not answer", out)
    assert process.events().count("signer.silent") == 1
    return name, waiting


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"relays": []}', "nsec1"])
async def test_a_file_that_describes_no_signer_is_refused(folder: Folder, text: str, tmp_path: Path) -> None:
    file = folder.data / "keys" / "project.bunker"
    (folder.data / "keys" / "project.nsec").rename(tmp_path / "elsewhere")
    file.write_text(text)
    file.chmod(0o600)
    code, _, err = await tenex_here("config", "check", "--data", folder.data)
    assert code == 3, err
    assert "project.bunker: describes no remote signer" in err
