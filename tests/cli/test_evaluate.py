"""`tenex eval`: the shipped scenarios hold, what fails is named, and real models are asked by the settings."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tenex.cli.main import main
from tenex.operations.evaluation.scenario import SHIPPED
from tests.fakes.modelscripts import Team, swift
from tests.fakes.modelserver import model_server
from tests.service.kit import tenex as run_tenex

Tenex = Callable[..., "CompletedProcess[str]"]
FIELDS = {
    "scenario",
    "model",
    "passed",
    "failures",
    "calls",
    "sequentialCalls",
    "promptTokens",
    "cached",
    "costUsd",
    "seconds",
}


def test_every_shipped_scenario_holds(tenex: Tenex, tmp_path: Path) -> None:
    """Scripted: no key, no network, no cost; with a bound on calls each."""
    done = tenex("eval", "--json", "--data", tmp_path / "data")
    results = json.loads(done.stdout)
    assert {one["scenario"]: one["failures"] for one in results if one["failures"]} == {}
    assert done.returncode == 0
    assert len(results) == 12
    assert all(set(one) == FIELDS and one["calls"] and one["costUsd"] == 0 for one in results)
    assert not (tmp_path / "data").exists(), "everything is in temporary folders"


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        (
            "messages: [Create hello.py that prints hello]\nmodels: offline\nturns: 1\nexpect: {phases: [plan]}\n",
            "phases were execute, not plan",
        ),
        (
            "messages: [Hello]\nscript: {orchestrator: [execute: executor]}\n",
            "the script has no further answer of executor in execute",
        ),
        ("messages: [Hello]\nmodels: offline\ntimeout: 0.000001\n", "not finished within 1e-06 s"),
    ],
)
def test_a_scenario_that_fails_is_named_with_what_failed(text: str, failure: str, tenex: Tenex, tmp_path: Path) -> None:
    """The exit code is 1, and the data folder can be kept."""
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    done = tenex("eval", file, "--data", tmp_path / "data", "--keep", tmp_path / "kept")
    assert done.returncode == 1
    head, row = done.stdout.splitlines()[:2]
    assert head.split()[:6] == ["SCENARIO", "MODEL", "RESULT", "CALLS", "SEQUENTIAL", "PROMPT"]
    assert row.split()[0] == "mine"
    assert "FAILED" in row
    assert f": {failure}" in done.stdout
    assert done.stdout.endswith("0 passed, 1 failed\n")
    (kept,) = (tmp_path / "kept").iterdir()
    assert (kept / "conversations").is_dir()


@pytest.mark.parametrize("is_shipped", [True, False])
def test_without_a_sandbox_only_shipped_scripts_run_programs(
    is_shipped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of somebody else must not run code as this user, unless the settings permit that."""
    monkeypatch.setattr("tenex.app.root.probe_bubblewrap", lambda: False)
    file = tmp_path / "mine.yaml"
    file.write_text((SHIPPED / "repair.yaml").read_text())
    code = main(["eval", "repair" if is_shipped else str(file), "--data", str(tmp_path / "data")])
    shown = capsys.readouterr().out
    assert code == (0 if is_shipped else 1), shown
    assert ("check was called without success" in shown) is not is_shipped


def test_a_wrong_file_is_refused_before_anything_runs(tenex: Tenex, tmp_path: Path) -> None:
    """With the exit code of a configuration."""
    file = tmp_path / "wrong.yaml"
    file.write_text("message: hi\n")
    done = tenex("eval", file)
    assert done.returncode == 3
    assert f"{file}:1: message: there is no such key. Did you mean `messages`?" in done.stderr
    assert not done.stdout


def test_the_list_names_every_shipped_scenario(tenex: Tenex) -> None:
    """With what each is about."""
    done = tenex("eval", "--list")
    assert done.returncode == 0
    assert [line.split()[:2] for line in done.stdout.splitlines() if "repair" in line] == [["repair", "scripted"]]
    assert len(json.loads(tenex("eval", "--list", "--json").stdout)) == 12


async def test_models_are_compared_on_the_same_file(tmp_path: Path) -> None:
    """A row for each; `settings` asks those of the settings, over HTTP, and tokens are those the server reports."""
    file, data = tmp_path / "mine.yaml", tmp_path / "data"
    file.write_text("messages: [Please create note-01.txt.]\nexpect: {files: {note-01.txt: all done}}\n")
    data.mkdir()
    (data / "keys").mkdir(mode=0o700)
    async with model_server(Team(worker=swift)) as server:
        (data / "keys" / "local.api-key").touch(mode=0o600)
        (data / "keys" / "local.api-key").write_text(server.key)
        (data / "tenex.toml").write_text(
            f'[models]\ndefault = "local:one"\nproviders.local = {{kind = "openai", base_url = "{server.url}"}}\n'
        )
        code, out, err = await run_tenex("eval", file, "--json", "--data", data)
        assert code == 0, (out, err)
        (alone,) = json.loads(out)
        assert (alone["model"], alone["calls"]) == ("settings", len(server.delivered()))
        assert alone["promptTokens"] == server.tokens().input
        names = ["--model", "local:two", "--model", "offline"]
        code, out, err = await run_tenex("eval", file, "--json", "--data", data, *names)
        assert code == 1, "the offline model does not understand the request"
        assert [(one["model"], one["passed"]) for one in json.loads(out)] == [("local:two", True), ("offline", False)]
        assert {exchange.request["model"] for exchange in server.exchanges} == {"one", "two"}
    assert sorted(path.name for path in data.iterdir()) == ["keys", "tenex.toml"], "nothing was written there"
