"""The layout of `tenex status`; its content is tested in tests/service."""

from pathlib import Path
from typing import Any

import pytest

from tenex.cli.main import main
from tenex.cli.status import lines

NOW = "2026-01-02T12:00:00Z"
ID = "ab12cd34" * 8


def report(**more: Any) -> dict[str, Any]:
    """A daemon that is well, with some things different."""
    return {
        "state": "running",
        "at": NOW,
        "process": {"pid": 7, "version": "1.2", "startedAt": NOW, "seconds": 93_784, "address": "npub1abc"},
        "configuration": {"data": "/data", "file": "/data/tenex.toml"},
        "disk": {"freeBytes": 5_000_000_000, "totalBytes": 20_000_000_000, "isLow": False},
        "relays": [],
        "models": {"providers": [], "held": 0},
        "conversations": {"counts": {}, "open": [], "waiting": [], "suspended": [], "quarantined": []},
        **more,
    }


def found(**more: Any) -> dict[str, Any]:
    """What was found of conversations."""
    return {"counts": {}, "open": [], "waiting": [], "suspended": [], "quarantined": [], **more}


def conversation(**more: Any) -> dict[str, Any]:
    """One that is open."""
    return {
        "id": ID,
        "kind": "active",
        "title": "Make it so",
        "status": "active",
        "phase": "execute",
        "cycle": 1,
        "updatedAt": NOW,
        "undelivered": 0,
        **more,
    }


def text(given: dict[str, Any]) -> str:
    return "\n".join(lines(given))


def test_a_daemon_that_is_well_takes_six_lines() -> None:
    assert text(report()).splitlines() == [
        "tenex          1.2, running for 1 d 2 h, pid 7",
        "address        npub1abc",
        "data           /data (5.0 of 20 GB free)",
        "settings       /data/tenex.toml",
        "relays         0 of 0 connected",
        "models         no conversation on hold",
        "conversations  none",
    ]


def test_a_full_disk_and_one_that_is_not_there() -> None:
    assert "(LOW: 0.1 of 20 GB free)" in text(report(disk={"freeBytes": 1e8, "totalBytes": 2e10, "isLow": True}))
    assert "(/data: gone)" in text(report(disk={"fault": "/data: gone"}))


def test_a_wrong_clock_is_shown_with_what_to_do() -> None:
    assert "clock          WRONG: 3 h ahead of the relays' clocks. Set it: timedatectl" in text(
        report(clock={"aheadSeconds": 10_800})
    )
    assert "2 h behind the relays'" in text(report(clock={"aheadSeconds": -7_200}))
    assert "clock" not in text(report(clock={}))


def test_a_reload_that_was_refused_or_left_something_for_a_restart() -> None:
    here = {"data": "/data", "file": None, "readAgainAt": NOW}
    shown = text(report(configuration={**here, "refused": ["a fault"], "needsRestart": []}))
    assert "no tenex.toml: the defaults" in shown
    assert f"reloaded at {NOW}: REJECTED, the old ones stay\n  - a fault" in shown
    shown = text(report(configuration={**here, "refused": [], "needsRestart": ["[relays] has changed"]}))
    assert "REFUSED" not in shown
    assert "  - [relays] has changed" in shown


def test_a_conversation_without_phases_is_shown_with_its_agent() -> None:
    assert "ab12cd34  @writer" in text(report(conversations=found(open=[conversation(place="@writer")])))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"state": "model"}, "executor waits for its model"),
        ({"state": "tools", "tools": ["check", "shell"]}, "executor uses check, shell"),
        (
            {"state": "parked", "since": "2026-01-02T09:30:00Z", "questions": ["Which?", "Why?"]},
            "executor has asked 2 h 30 min ago: Which?\n      executor has asked 2 h 30 min ago: Why?",
        ),
        (
            {"state": "held", "nextTry": "2026-01-02T12:04:00Z", "why": "refused"},
            "executor held, next try in 4 min: refused",
        ),
        (
            {"state": "retrying", "nextTry": "2026-01-02T11:59:00Z", "why": "refused"},
            "executor retrying, next try in 0 s: refused",
        ),
    ],
)
def test_each_agent_at_work_is_shown_or_why_it_waits(part: dict[str, Any], expected: str) -> None:
    one = conversation(turn={"seconds": 61}, runs=[{"agent": "executor", **part}], undelivered=2)
    shown = text(report(conversations=found(counts={"active": 1}, open=[one])))
    assert "  active      ab12cd34  execute, turn open for 1 min 1 s  Make it so" in shown
    assert expected in shown
    assert "2 events undelivered" in shown


def test_a_workflow_shows_its_speaker_and_a_mission_its_node() -> None:
    """Its phase means nothing there."""
    mission = {"workflow": "digest", "node": "Write", "state": "running", "steps": ["write"]}
    several = [
        conversation(workflow={"name": "Draft", "speaker": "critic"}, turn={"seconds": 2}),
        conversation(mission=mission),
    ]
    shown = text(report(conversations=found(counts={"active": 2}, open=several)))
    assert "  active      ab12cd34  Draft: critic, turn open for 2 s  Make it so" in shown
    assert "  active      ab12cd34  digest: Write  Make it so\n      mission running: write" in shown


def test_providers_that_ask_us_to_wait() -> None:
    busy = {"name": "openai", "active": 3, "waiting": 2, "paused": 12.4}
    failure = {"at": NOW, "conversation": ID, "who": "executor", "why": "429"}
    shown = text(report(models={"providers": [busy], "held": 1, "lastFailure": failure}))
    assert "models         1 conversation on hold" in shown
    assert "openai      3 calls, 2 queued, paused for 12 s at its request" in shown
    assert "last failure 0 s ago, executor in ab12cd34: 429" in shown


def test_without_a_daemon_the_first_line_reports_it() -> None:
    given = report(state="stopped", undelivered={"wss://a": 3}, fault="process 9 holds it")
    for name in ("process", "relays", "models"):
        del given[name]
    shown = text(given).splitlines()
    assert shown[0] == "tenex          NOT RUNNING: process 9 holds it"
    assert text({**given, "state": "unresponsive"}).startswith("tenex          NOT ANSWERING: process 9 holds it\n")
    assert "undelivered    3 for wss://a" in shown


def test_strangers_cannot_steer_the_terminal() -> None:
    """Titles, questions and reasons of servers are somebody else's text."""
    one = conversation(title="\x1b[2Jgone\r\nforged")
    shown = text(report(conversations=found(open=[one], quarantined=[{"id": ID, "why": "\x07bell"}])))
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert len(shown.splitlines()) == 9


@pytest.mark.parametrize(("command", "code"), [("status", 1), ("conversations list", 0)])
def test_a_missing_data_folder_is_named_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, code: int
) -> None:
    missing = tmp_path / "missing"
    assert main([*command.split(), "--data", str(missing)]) == code
    shown = "".join(capsys.readouterr())
    assert f"{missing}" in shown
    assert "no such folder" in shown
    assert f"tenex --data {missing} init" in shown
    assert not missing.exists()
