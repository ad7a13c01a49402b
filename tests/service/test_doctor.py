"""`tenex doctor` as an operator runs it: real files, real processes, each fault with its location and its fix."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tenex.nostr.keys import SecretKey, npub
from tests.programs import BUBBLEWRAP_WORKS

from . import person
from .kit import PATIENCE, ROOT, TENEX, Folder, daemon, environment, tenex, tenex_here

Found = dict[str, Any]

KEYS = {"data", "version", "exit_code", "faults", "warnings", "findings", "fixed"}
FINDING = {"check", "level", "message", "location", "fix", "fixable"}


async def examined(data: Path, *options: str, **env: str) -> tuple[int, Found]:
    """The exit code and the report of `--json`, which is all there is on stdout."""
    code, out, errors = await tenex_here("doctor", "--data", data, "--json", *options, **env)
    assert "Traceback" not in errors
    report: Found = json.loads(out)
    assert set(report) == KEYS
    assert all(set(finding) == FINDING for finding in report["findings"])
    assert report["exit_code"] == code
    return code, report


def wrong(report: Found) -> list[Found]:
    """The faults and warnings, except for those of this machine: a disk that other tests keep busy, no sandbox."""

    def is_of_machine(finding: Found) -> bool:
        is_slow = str(finding["message"]).startswith("a flush to this disk takes")
        return is_slow or (finding["check"] == "sandbox" and not BUBBLEWRAP_WORKS)

    return [finding for finding in report["findings"] if finding["level"] != "ok" and not is_of_machine(finding)]


async def test_faults_are_reported_each_once_with_location_and_fix_and_nothing_is_changed(worked_in: Folder) -> None:
    """Exit code 3 for the key and the folder, 4 for the journal: the highest counts."""
    (worked_in.data / "keys/project.nsec").chmod(0o644)
    shutil.rmtree(worked_in.data / "workspace")
    (worked_in.data / "workspace").write_text("mine")
    (name,) = worked_in.names
    journal = worked_in.conversation(name) / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"seq":5', b'"seq":6', 1))
    before = {path: path.lstat().st_mtime_ns for path in worked_in.data.rglob("*") if not path.is_dir()}
    code, report = await examined(worked_in.data)
    assert code == 4
    assert {f["check"]: f["location"] for f in wrong(report) if f["level"] == "fault"} == {
        "permissions": str(worked_in.data / "keys/project.nsec"),
        "folders": str(worked_in.data / "workspace"),
        "conversations": str(journal),
    }
    text = json.dumps(report)
    for words in ("others may read this key", "chmod 600", "line 5 cannot be right", f"rebuild {name[:12]}"):
        assert words in text
    assert before == {path: path.lstat().st_mtime_ns for path in worked_in.data.rglob("*") if not path.is_dir()}


async def test_a_model_is_asked_only_with_probe(folder: Folder) -> None:
    table = 'default = "local:test"\n[models.providers.local]\nkind = "openai"\nbase_url = "http://127.0.0.1:1/v1"'
    folder.edit("[models]\n", f"[models]\n{table}\n")
    (folder.data / "keys" / "local.api-key").write_text("sk-the-secret-of-this-test\n")
    (folder.data / "keys" / "local.api-key").chmod(0o600)
    code, report = await examined(folder.data)
    assert code == 0
    code, report = await examined(folder.data, "--probe")
    assert code == 1
    assert any(finding["check"] == "models" and "local:test" in finding["message"] for finding in wrong(report))
    assert "sk-the-secret" not in json.dumps(report)


async def test_a_running_daemon_is_seen_and_not_disturbed(folder: Folder) -> None:
    """Its lock stays its own, it works on, and its files are not changed."""
    async with daemon(folder):
        name = await folder.write("Create hello.py that prints hello")
        reports = [await examined(folder.data, "--fix") for _ in range(3)]
        await folder.until(name, "ended")
        (folder.data / "keys" / "executor.nsec").chmod(0o640)
        code, report = await examined(folder.data, "--fix")
    for seen_code, seen in [*reports, (code, report)]:
        assert seen_code == 0, wrong(seen)
        (held,) = (f for f in seen["findings"] if f["check"] == "daemon")
        assert "a daemon runs: process " in held["message"]
        assert any(f["check"] == "control" and f["message"] == "the daemon answers" for f in seen["findings"])
    assert [fixed["done"] for fixed in report["fixed"]] == ["set to 0600"]
    _, after = await examined(folder.data)
    assert any("no daemon runs here" in finding["message"] for finding in after["findings"])


async def test_what_a_killed_daemon_left_is_repaired_and_a_folder_that_is_well_gives_no_fault(
    worked_in: Folder,
) -> None:
    async with daemon(worked_in) as process:
        await process.die()
    assert (worked_in.data / "tenex.sock").exists()
    (worked_in.data / "conversations" / "index.sqlite").write_bytes(b"nonsense")
    (worked_in.data / "keys" / "owner.nsec").chmod(0o644)
    (worked_in.data / "agents").rmdir()
    code, out, _ = await tenex("doctor", "--data", worked_in.data, "--fix")
    assert code == 0, out
    assert out.count("fixed: ") == 4
    assert "not fixed" not in out
    assert not (worked_in.data / "tenex.sock").exists()
    assert not (worked_in.data / "conversations" / "index.sqlite").exists()
    async with daemon(worked_in) as process:
        assert await process.stop() == 0
    code, report = await examined(worked_in.data)
    assert (code, wrong(report)) == (0, [])
    checks = {finding["check"] for finding in report["findings"]}
    looked_at = "settings daemon program configuration folders permissions keys disk conversations index relays models"
    assert checks >= set(looked_at.split())
    code, out, _ = await tenex("doctor", "--data", worked_in.data)
    assert (code, "\nno faults, " in out) == (0, True)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs another user to be")
async def test_a_user_without_permission_gets_faults_and_no_traceback(folder: Folder) -> None:
    """Nothing hangs either."""
    for part in (folder.data, *folder.data.parents):
        if part == Path("/tmp"):
            break
        part.chmod(0o755)
    (folder.data / "keys").chmod(0o700)
    (folder.data / "conversations").chmod(0o700)
    words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, *TENEX[1:]]
    words += ["doctor", "--data", str(folder.data), "--json"]
    done = await asyncio.to_thread(
        subprocess.run, words, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert "Traceback" not in done.stderr
    if not done.stdout:
        pytest.skip(f"the program itself cannot be read by others here: {done.stderr[:200]}")
    report = json.loads(done.stdout)
    assert done.returncode == report["exit_code"] != 0
    text = json.dumps(wrong(report))
    assert "Permission denied" in text or "may not" in text
    assert "this is a bug in tenex" not in text


async def test_an_owner_without_inbox_relays_is_named(folder: Folder) -> None:
    phone = SecretKey.generate()
    folder.edit("owners = [", f'owners = ["{npub(phone.public)}", ')

    def of_inboxes(report: Found) -> list[Found]:
        return [finding for finding in report["findings"] if finding["check"] == "inboxes"]

    (finding,) = of_inboxes((await examined(folder.data))[1])
    assert (finding["level"], finding["location"]) == ("warning", npub(phone.public))
    await person.publish(folder.url, person.note(phone, "", ["relay", folder.url], kind=10050))
    (finding,) = of_inboxes((await examined(folder.data))[1])
    assert (finding["level"], finding["message"]) == ("ok", "1 owner with inbox relays for direct messages")
