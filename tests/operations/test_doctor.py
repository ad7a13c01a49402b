"""`tenex doctor`: how checks are run, and the checks of settings, agents and models."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.init import prepare
from tenex.core.errors import ConfigurationError, InternalError, RelayUnavailable, StoreError
from tenex.nostr.keys import KeyRing
from tenex.operations.doctor import machine
from tenex.operations.doctor.configuration import agents, consistency, models, settings
from tenex.operations.doctor.findings import Case, Check, Finding, Level, Repair, fault, ok, warning
from tenex.operations.doctor.runner import CHECKS, FIRST, MAX_FINDINGS, Report, examine, repair_all
from tenex.store.lock import FolderLock

from .doctor_kit import bad, case_of, change, text_of


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder as `tenex init` leaves it."""
    return prepare(tmp_path / "data", None, ["ws://127.0.0.1:1"]).data


# ---- how checks are run -------------------------------------------------------------------------------------------


async def test_a_check_that_hangs_or_breaks_costs_only_itself(data: Path) -> None:
    """Its earlier findings count, the others run, and a thread that never ends blocks nothing."""
    never = threading.Event()

    def hangs(_: Case) -> Iterator[Finding]:
        yield warning("seen before", "here", "fix")
        never.wait(30)

    def breaks(_: Case) -> Iterator[Finding]:
        yield ok("seen before")
        raise RuntimeError("unforeseen")

    async def waits(_: Case) -> AsyncIterator[Finding]:
        yield ok("asked")
        await asyncio.Event().wait()

    def works(_: Case) -> Iterator[Finding]:
        yield ok("well")

    checks = [Check(name=look.__name__, examine=look, timeout=0.2) for look in (hangs, breaks, waits, works)]
    began = time.monotonic()
    found = await examine(case_of(data), (), checks)
    never.set()
    assert time.monotonic() - began < 5
    by_check = {name: [f.message for f in found if f.check == name] for name in ("hangs", "breaks", "waits", "works")}
    assert by_check["hangs"] == ["seen before", "the check did not finish within 0.2 s"]
    assert by_check["breaks"] == ["the check failed: RuntimeError: unforeseen", "seen before"]
    assert by_check["waits"][0].startswith("the check did not finish")
    assert by_check["works"] == ["well"]
    (broken,) = [f for f in found if f.check == "breaks" and f.level is Level.FAULT]
    assert broken.error is InternalError


async def test_what_is_reported_is_bounded_on_one_line_and_without_secrets(data: Path) -> None:
    secret = KeyRing(data / "keys").get("project").nsec

    def talks(_: Case) -> Iterator[Finding]:
        yield fault(f"a\nb \x1b[2J {secret}", "/x/\udcff", "y")
        yield from (warning("again", "there", "fix") for _ in range(200))

    found = await examine(case_of(data), (), [Check(name="talks", examine=talks, timeout=5)])
    assert len(found) == MAX_FINDINGS + 1
    assert found[0].message == "a b \\x1b[2J [redacted]"
    assert found[0].location == "/x/\\udcff"
    assert found[-1].message == "161 more findings are not shown"


def test_the_exit_code_is_the_highest_of_the_faults_branches() -> None:
    world = fault("x", "y", "z", RelayUnavailable)
    assert Report(findings=(ok("x"), warning("x", "y", "z"))).exit_code == 0
    assert Report(findings=(world,)).exit_code == 1
    assert Report(findings=(fault("x", "y", "z"), world)).exit_code == 3
    assert Report(findings=(world, fault("x", "y", "z", StoreError), fault("x", "y", "z"))).exit_code == 4


async def test_a_repair_that_needs_the_lock_is_not_done_beside_a_daemon(data: Path) -> None:
    done: list[str] = []

    def fix(name: str, *, needs_lock: bool) -> Repair:
        def act() -> str:
            done.append(name)
            return name

        return Repair(run=act, needs_lock=needs_lock)

    fixes = [fix("any", needs_lock=False), fix("rest", needs_lock=True)]
    findings = [warning("x", "y", "z", one) for one in fixes]
    with FolderLock(data / "conversations"):
        busy = await repair_all(data / "conversations", findings)
    assert done == ["any"]
    assert [m.success for m in busy] == [True, False]
    assert f"process {os.getpid()}" in busy[1].done
    assert [m.success for m in await repair_all(data / "conversations", findings)] == [True, True]
    assert done == ["any", "any", "rest"]


async def test_no_check_breaks_on_odd_files(tmp_path: Path) -> None:
    """Folders for files, files for folders, pipes, links in circles, bytes that are not text."""
    data = tmp_path / "data"
    for name in (
        "tenex.toml",
        "config/tenex.toml",
        "conversations/.lock",
        "conversations/index.sqlite",
        "conversations/_daemon/journal.jsonl",
        f"conversations/{'a' * 64}/journal.jsonl/x",
        f"conversations/{'a' * 64}/conversation.json",
        f"conversations/{'b' * 64}",
        "keys/project.nsec",
        "keys/openai.api-key",
        "agents/planner.md",
        "checkpoints",
    ):
        (data / name).mkdir(parents=True)
    os.mkfifo(data / "keys" / "executor.nsec")
    os.mkfifo(data / "conversations" / ("b" * 64) / "journal.jsonl")
    (data / "conversations" / ("c" * 64)).symlink_to("c" * 64)
    (data / "conversations" / os.fsdecode(b"\xff\xfe")).write_bytes(b"\xff")
    (data / "tenex.sock").symlink_to("tenex.sock")
    (data / "workspace").write_bytes(b"\x00")
    checks = [check for check in CHECKS if check.name not in ("sandbox", "relays")]
    found = await examine(Case(data=data, config=None, env={}), FIRST, checks)
    assert not [f for f in found if f.error is InternalError and f.level is Level.FAULT], text_of(list(found))
    assert not [f for f in found if "did not finish" in f.message], text_of(list(found))
    assert {"folders", "keys", "conversations", "index", "agents"} <= {f.check for f in found if f.level is Level.FAULT}


# ---- what the operator wrote --------------------------------------------------------------------------------------


def test_all_faults_of_the_settings_are_reported_and_the_rest_is_examined(data: Path) -> None:
    change(data, '[limits]\nturns_per_message = 0\nsame_rout = 3\n[paths]\nkeys = "secrets"\n')
    case = Case(data=data, config=None, env={})
    found = bad(settings, case)
    assert [f.level for f in found] == [Level.FAULT, Level.FAULT, Level.WARNING]
    assert "did you mean `same_route`" in text_of(found)
    assert "as if limits were not set" in found[-1].message
    assert case.paths is not None
    assert case.paths.keys == data / "secrets"  # what holds no fault still counts
    assert case.invalid_sections == {"limits"}


@pytest.mark.parametrize(
    ("raw", "what"),
    [(b"[people\n", "not valid TOML"), (b"x = '\xff'", "UTF-8"), (b"colour = 1\n", "no such setting")],
)
def test_a_file_that_cannot_be_read_is_a_fault_with_its_place(data: Path, raw: bytes, what: str) -> None:
    (data / "tenex.toml").write_bytes(raw)
    found = bad(settings, Case(data=data, config=None, env={}))
    assert what in found[0].message
    assert found[0].location == str(data / "tenex.toml")
    assert found[0].error is ConfigurationError


def test_a_wrong_variable_is_reported_as_one(data: Path) -> None:
    found = bad(settings, Case(data=data, config=None, env={"TENEX_LOG__LEVEL": "loud"}))
    assert found[0].location == "TENEX_LOG__LEVEL"


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ('[paths]\nworkspace = "."', "paths.workspace", "contains the"),
        ('[paths]\nworkspace = "keys/w"', "paths.workspace", "is in the keys folder"),
        ("[limits]\ncost_per_day_usd = 0", "limits.cost_per_day_usd", "no limit"),
        ("[limits]\ntokens_per_day = 0", "limits.tokens_per_day", "no limit"),
        ("[limits]\ntokens_per_member_day = 5000", "limits.tokens_per_member_day", "one call may take more"),
        ("[limits]\nturns_per_message = 3", "limits.turns_per_message", "too few"),
        ("[limits]\ntokens_per_cycle = 5000", "limits.tokens_per_cycle", "one call may take more"),
        (
            "[limits.expectations.default]\nwarn_after = 5\nclose_after = 10",
            "expectations.default",
            "before models.timeout",
        ),
        ("[shutdown]\ndeadline = 200", "shutdown.deadline", "after 90 s"),
        ('[relays]\nurls = ["ws://relay.example"]', "relays.urls", "not encrypted"),
        ('[relays]\nurls = ["wss://R.example", "wss://r.example/"]', "relays.urls", "listed twice"),
        ('[models.prices."openai:gpt"]\ninput = 1\noutput = 2', "models.prices", "never used"),
        ("[models.providers.mine]\nconcurrency = 1", "models.providers.mine", "no setting names a model"),
        ('[metrics]\nhost = "0.0.0.0"\nport = 1', "metrics.host", "others can reach"),
        ("[people]\nopen = true", "people.open", "cost money"),
    ],
)
def test_settings_that_contradict_each_other_are_reported(data: Path, text: str, where: str, what: str) -> None:
    file = data / "tenex.toml"
    if text.startswith("[people]"):
        text += '\n[models]\ndefault = "openai:gpt-5"'
    file.write_text(text if text.startswith(("[relays]", "[people]")) else f"{file.read_text()}\n{text}\n")
    found = [f for f in bad(consistency, case_of(data)) if where in f.location and what in f.message]
    assert found, text_of(bad(consistency, case_of(data)))
    assert found[0].fix


def test_the_settings_that_init_writes_give_no_warning(data: Path) -> None:
    assert not bad(consistency, case_of(data))
    assert not bad(agents, case_of(data))


def test_no_authorized_user_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "tenex.toml").write_text("[people]\nowners = []\n")
    found = bad(consistency, case_of(tmp_path))
    assert "no one may talk here" in text_of(found)
    assert "npub" in found[0].fix


def test_agents_with_faults_and_settings_for_missing_agents_are_reported(data: Path) -> None:
    change(data, '[models.agents.exector]\nmodel = "offline"')
    assert "there is no agent 'exector'" in text_of(bad(agents, case_of(data)))
    (data / "agents" / "critic.md").write_text("---\nname: Critic\n---\n")
    found = bad(agents, case_of(data))
    assert found
    assert all(str(data / "agents" / "critic.md") in f.location for f in found)


# ---- models -------------------------------------------------------------------------------------------------------


async def results(data: Path, **more: Any) -> list[Finding]:
    """The findings of the check of models."""
    return [f async for f in models(case_of(data, **more))]


async def test_models_that_cannot_be_used_are_reported_with_their_setting(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    text = (data / "tenex.toml").read_text().replace("[models]", '[models]\ndefault = ["openai:gpt-5", "what:x"]', 1)
    (data / "tenex.toml").write_text(text)
    found = [f for f in await results(data) if f.level is Level.FAULT]
    assert len(found) == 2, text_of(found)
    assert "openai" in text_of(found)
    assert "api-key" in text_of(found)
    assert '"what" is no provider' in text_of(found)


async def test_an_existing_key_makes_a_model_usable_and_is_not_shown(data: Path) -> None:
    secret = "sk-very-secret-indeed-0123456789"
    (data / "keys" / "openai.api-key").write_text(f"{secret}\n")
    (data / "keys" / "openai.api-key").chmod(0o600)
    text = (data / "tenex.toml").read_text().replace("[models]", '[models]\ndefault = "openai:gpt-5"', 1)
    (data / "tenex.toml").write_text(text)
    found = await results(data)
    assert not [f for f in found if f.level is Level.FAULT], text_of(found)
    assert secret not in text_of(found)


async def test_the_offline_model_needs_no_package(data: Path) -> None:
    (found,) = await results(data)
    assert found.level is Level.OK
    assert "only the offline model" in found.message


def test_no_check_changes_a_file(data: Path) -> None:
    """Modification times are compared: reading may change others."""
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    case = case_of(data)
    for check in CHECKS:
        if check.name not in ("relays", "models", "control", "sandbox"):
            list(check.examine(case))  # type: ignore[arg-type]
    after = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    assert {path for path in before if path.name != "conversations" and before[path] != after[path]} == set()
    assert sys.version_info >= machine.OLDEST_PYTHON
