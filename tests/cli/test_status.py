"""The layout of `tenex status`; its content is tested in tests/service."""

import json
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.status import lines
from tenex.main import FEATURES
from tests.kits.commands import Tenex

NOW = "2026-01-02T12:00:00Z"
ID = "ab12cd34" * 8


def text(conversations: dict[str, Any] | None = None, **more: Any) -> str:
    """What is shown of a daemon that is well, with some things different."""
    found: dict[str, Any] = {"counts": {}, "open": [], "waiting": [], "suspended": [], "quarantined": []}
    report = {
        "state": "running",
        "at": NOW,
        "process": {"pid": 7, "version": "1.2", "startedAt": NOW, "seconds": 93_784, "address": "npub1abc"},
        "configuration": {"data": "/data", "file": "/data/tenex.toml"},
        "disk": {"freeBytes": 5_000_000_000, "totalBytes": 20_000_000_000, "isLow": False},
        "relays": [],
        "models": {"providers": [], "held": 0},
        "conversations": {**found, **(conversations or {})},
        **more,
    }
    parts = [part for feature in FEATURES for part in feature.status()]
    return "\n".join(lines({name: value for name, value in report.items() if value is not None}, parts))


def conversation(**more: Any) -> dict[str, Any]:
    base = {"kind": "active", "title": "Make it so", "status": "active", "phase": "execute", "cycle": 1}
    return {"id": ID, "updatedAt": NOW, "undelivered": 0, **base, **more}


HERE: dict[str, Any] = {"data": "/data", "file": None, "readAgainAt": NOW, "refused": [], "needsRestart": []}
DRAFT = {"where": "Draft: critic"}
DIGEST = {"where": "digest: Write", "does": "mission running: write"}
MODELS = {
    "providers": [{"name": "openai", "active": 3, "waiting": 2, "paused": 12.4}],
    "held": 1,
    "lastFailure": {"at": NOW, "conversation": ID, "who": "executor", "why": "429"},
}
WORKER = {
    "name": "a:/b",
    "state": "running",
    "version": "1.2",
    "seconds": 9,
    "unseen": 2,
    "conversations": 1,
    "isOwn": True,
    "hasWorkspace": True,
}
SILENT = {**WORKER, "name": "b:/c", "state": "silent", "unseen": 180, "isOwn": False, "hasWorkspace": False}
STOPPED = {"process": None, "relays": None, "models": None, "fault": "process 9 holds it"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"disk": {"freeBytes": 1e8, "totalBytes": 2e10, "isLow": True}}, "(LOW: 0.1 of 20 GB free)"),
        ({}, "tenex          1.2, running for 1 d 2 h, pid 7\naddress        npub1abc\n"),
        ({}, "data           /data (5.0 of 20 GB free)\nsettings       /data/tenex.toml\n"),
        ({}, "relays         0 of 0 connected\nmodels         no conversation held\n"),
        ({"disk": {"fault": "/data: gone"}}, "(/data: gone)"),
        (
            {
                "workers": [
                    WORKER,
                    SILENT,
                ]
            },
            (
                "workers        1 of 2 running\n"
                "  running     a:/b  1 conversation, has the workspace, of this data folder\n"
                "  SILENT      b:/c  1 conversation, last seen 3 min ago\n"
            ),
        ),
        ({"clock": {"aheadSeconds": 10_800}}, "clock          WRONG: 3 h ahead of the relays' clocks. Set it: timed"),
        ({"clock": {"aheadSeconds": -7_200}}, "2 h behind the relays'"),
        ({"configuration": {**HERE, "refused": ["a fault"]}}, "REJECTED, the old ones stay\n  - a fault"),
        ({"configuration": {**HERE, "needsRestart": ["[relays] has changed"]}}, f"{NOW}\n  - [relays] has changed"),
        ({"configuration": HERE}, "no tenex.toml: the defaults"),
        ({**STOPPED, "state": "stopped"}, "tenex          NOT RUNNING: process 9 holds it\n"),
        ({**STOPPED, "state": "unresponsive"}, "tenex          NOT ANSWERING: process 9 holds it\n"),
        ({**STOPPED, "state": "stopped", "undelivered": {"wss://a": 3}}, "undelivered    3 for wss://a"),
        ({"conversations": {"open": [conversation(place="@writer")]}}, "ab12cd34  @writer"),
        ({"conversations": {"open": [conversation(**DRAFT)]}}, "  Draft: critic  Make it so"),
        (
            {"conversations": {"open": [conversation(**DIGEST)]}},
            ": Write  Make it so\n      mission running: write",
        ),
        ({"models": MODELS}, "models         1 conversation held"),
        ({"models": MODELS}, "openai      3 calls, 2 queued, paused for 12 s at its request"),
        ({"models": MODELS}, "last failure 0 s ago, executor in ab12cd34: 429"),
    ],
)
def test_what_differs_is_shown_with_what_to_do(given: dict[str, Any], expected: str) -> None:
    assert expected in text(**given)


EARLIER, LATER = "2026-01-02T09:30:00Z", "2026-01-02T12:04:00Z"


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"state": "model"}, "waits for its model"),
        ({"state": "tools", "tools": ["check", "shell"]}, "uses check, shell"),
        ({"state": "parked", "since": EARLIER, "questions": ["Which?", "Why?"]}, "has asked 2 h 30 min ago: Why?"),
        ({"state": "held", "nextTry": LATER, "why": "refused"}, "held, next try in 4 min: refused"),
        ({"state": "retrying", "nextTry": EARLIER, "why": "refused"}, "retrying, next try in 0 s: refused"),
    ],
)
def test_each_agent_at_work_is_shown_or_why_it_waits(part: dict[str, Any], expected: str) -> None:
    one = conversation(turn={"seconds": 61}, runs=[{"agent": "executor", **part}], undelivered=2)
    shown = text({"counts": {"active": 1}, "open": [one]})
    assert "  active      ab12cd34  execute, turn open for 1 min 1 s  Make it so" in shown
    assert f"      executor {expected}\n" in shown
    assert "2 events undelivered" in shown


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('[relays]\nurls = [ "ws://127.0.0.1:9"\n', "this is not valid TOML: line 2, the last one: unclosed array"),
        ('[project]\nname = = "x"\n', "this is not valid TOML: line 2, column 8: invalid value"),
        ("[limits]\ncost = 3\n", "limits.cost: there is no such setting"),
    ],
)
def test_settings_that_cannot_be_read_are_named_with_their_line(
    data: Path, tenex: Tenex, content: str, place: str
) -> None:
    file = data / "tenex.toml"
    file.write_text(content)
    shown = " ".join(tenex("status", code=1).out.split())
    assert f"settings INVALID: {file}: {place}" in shown
    assert "used now: the default folders" in shown
    assert "no tenex.toml" not in shown
    (fault,) = json.loads(tenex("status --json", code=1).out)["configuration"]["invalid"]
    assert fault.startswith(f"{file}: {place}")


def test_what_waits_has_one_word_and_says_for_what() -> None:
    asks = {"agent": "executor", "state": "parked", "since": EARLIER, "questions": ["Which?"]}
    waiting = [
        {"id": ID, "title": "Make it so", "updatedAt": EARLIER, "status": "waiting", "waitingFor": reason}
        for reason in ("you", "user", "waiver", "own reason")
    ]
    shown = text(
        {
            "counts": {"ended": 1, "parked": 1, "waiting": 4},
            "open": [conversation(kind="parked", runs=[asks])],
            "waiting": waiting,
        }
    )
    assert "conversations  1 ended, 5 waiting\n  waiting     ab12cd34  execute" in shown
    assert shown.count("  waiting     ab12cd34  for you, since 2 h 30 min ago  Make it so\n") == 2
    assert "ab12cd34  for your decision, since 2 h 30 min ago" in shown
    assert "ab12cd34  for you (own reason), since 2 h 30 min ago" in shown
    assert "parked" not in shown


def test_strangers_cannot_steer_the_terminal() -> None:
    one = conversation(title="\x1b[2Jgone\r\nforged")
    shown = text({"open": [one], "quarantined": [{"id": ID, "why": "\x07bell"}]})
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert len(shown.splitlines()) == 9


@pytest.mark.parametrize(("line", "code"), [("status", 1), ("conversations list", 0)])
def test_a_missing_data_folder_is_named_with_what_to_do(tmp_path: Path, tenex: Tenex, line: str, code: int) -> None:
    missing = tmp_path / "missing"
    shown = "".join(tenex(f"{line} --data {missing}", code=code))
    for words in (f"{missing}", "no such folder", f"tenex --data {missing} init"):
        assert words in shown
    assert not missing.exists()
