"""`tenex eval`: the shipped scenarios hold, what fails is named, and real models are asked by the settings."""

import json
import shutil
from pathlib import Path

import pytest

from tenex.features.evaluation.scenario import SHIPPED, read_scenarios
from tests.fakes.modelscripts import Team, swift
from tests.fakes.modelserver import model_server
from tests.kits.commands import Tenex
from tests.programs import BUBBLEWRAP_WORKS, needs_bubblewrap, needs_git
from tests.service.kit import tenex as run_tenex

FIELDS = "scenario model passed skipped failures calls sequentialCalls promptTokens cached notes costUsd seconds"

SCENARIOS = sorted(SHIPPED.glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_shipped_scenario_holds(path: Path, tenex: Tenex, data: Path) -> None:
    (scenario,) = read_scenarios([path])
    (result,) = json.loads(tenex(f"eval {path.stem} --json", code=None).out)
    assert set(result) == set(FIELDS.split())
    assert (result["scenario"], result["failures"]) == (path.stem, [])
    is_lacking = not all(map(shutil.which, scenario.needs))
    assert bool(result["skipped"]) is (is_lacking or (scenario.needs_sandbox and not BUBBLEWRAP_WORKS))
    if result["passed"]:
        assert result["calls"]
        assert result["notes"]
        assert result["costUsd"] == 0
    assert list(data.iterdir()) == []


def test_all_shipped_scenarios_are_listed_and_run_where_none_is_named(
    tenex: Tenex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ["repair", "scripted"] in [line.split()[:2] for line in tenex("eval --list").out.splitlines()]
    listed = json.loads(tenex("eval --list --json").out)
    assert [one["name"] for one in listed] == [path.stem for path in SCENARIOS]
    names = ["minutes", "simple-request"]
    for name in names:
        (tmp_path / f"{name}.yaml").symlink_to(SHIPPED / f"{name}.yaml")
    monkeypatch.setattr("tenex.features.evaluation.scenario.SHIPPED", tmp_path)
    assert [one["scenario"] for one in json.loads(tenex("eval --json").out)] == names
    (small_fix,) = read_scenarios([SHIPPED / "small-fix.yaml"])
    assert small_fix.needs_sandbox


def test_what_differs_is_known_without_a_sandbox_too(
    tenex: Tenex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or chores would be entered for every change."""
    git = shutil.which("git")
    assert git is not None
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").symlink_to(git)
    monkeypatch.setenv("PATH", str(programs))
    (minutes,) = json.loads(tenex("eval minutes --json").out)
    assert minutes["passed"]


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("[Create a.py that prints b]\nmodels: offline\nturns: 1\nexpect: {phases: [plan]}", "phases were execute"),
        ("[Hello]\nscript: {orchestrator: [execute: executor]}", "the script has no further answer of executor in ex"),
        ("[Hello]\nmodels: offline\ntimeout: 0.000001", "not finished within 1e-06 s"),
    ],
)
def test_a_scenario_that_fails_is_named_with_what_failed(text: str, failure: str, tenex: Tenex, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"messages: {text}\n")
    out = tenex(f"eval {file} --keep {tmp_path / 'kept'}", code=1).out
    head, row = out.splitlines()[:2]
    assert head.split()[:6] == ["SCENARIO", "MODEL", "RESULT", "CALLS", "SEQUENTIAL", "PROMPT"]
    assert (row.split()[0], row.split()[2]) == ("mine", "FAILED")
    assert f": {failure}" in out
    assert out.endswith("0 passed, 1 failed\n")
    (kept,) = (tmp_path / "kept").iterdir()
    assert (kept / "conversations").is_dir()


@pytest.mark.parametrize("is_shipped", [True, False])
def test_without_a_sandbox_only_shipped_scripts_run_programs(
    is_shipped: bool, tenex: Tenex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of somebody else must not run code as this user, unless the settings permit that."""
    monkeypatch.setattr("tenex.app.root.probe_bubblewrap", lambda: False)
    file = tmp_path / "mine.yaml"
    file.write_text((SHIPPED / "repair.yaml").read_text())
    out = tenex(f"eval {'repair' if is_shipped else file}", code=0 if is_shipped else 1).out
    is_unproved = "check was called without success" in out or "the script has no further answer" in out
    assert is_unproved is not is_shipped


def test_without_a_sandbox_scenarios_that_run_commands_are_skipped(
    tenex: Tenex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others pass, and the exit code is 0."""
    for user in ("app.root", "features.evaluation.run"):
        monkeypatch.setattr(f"tenex.{user}.probe_bubblewrap", lambda: False)
    skipped, passed = json.loads(tenex("eval small-fix simple-request --json").out)
    assert skipped["passed"] is None
    assert "there is no sandbox here" in skipped["skipped"]
    assert passed["passed"]
    out = tenex("eval small-fix").out
    assert out.splitlines()[1].split()[:4] == ["small-fix", "scripted", "skipped", "-"]
    assert out.endswith("\n0 passed, 0 failed, 1 skipped\n")


@needs_git
@needs_bubblewrap
def test_a_scenario_has_its_own_checks_and_lessons_and_needs_programs(tenex: Tenex, tmp_path: Path, data: Path) -> None:
    """Those of the user's settings are of another project; without the programs it is skipped."""
    (data / "tenex.toml").write_text('checks.test.run = "exit 9"\n')
    text = (
        "messages: ['Write a.txt']\nlessons: {executor: [Files are short.]}\n"
        "script:\n"
        "  orchestrator: [execute: executor]\n"
        "  executor:\n"
        "    execute:\n"
        "      - write_file: {path: a.txt, content: a}\n"
        "        shell: {command: 'true'}\n"
        "      - complete: {response: It is there., summary: a.txt}\n"
        "    chores: [complete: {response: Tidy., summary: tidy}]\n"
        "  project-manager:\n"
        "    - read_file: {path: a.txt}\n"
        "    - complete: {response: It is right., verdict: verified}\n"
        "expect: {status: ended, phases: [execute, verification, chores], replies: ['%s'], never: [exit 9]}\n"
    )
    (tmp_path / "bare.yaml").write_text(text % "Done.")
    (tmp_path / "own.yaml").write_text(
        "checks: {lint: {run: test -e a.txt}}\n" + text % "Lint: passed (`test -e a.txt`"
    )
    (tmp_path / "lacking.yaml").write_text("needs: [sh, no-such-program]\n" + text % "Done.")
    results = json.loads(tenex(f"eval {tmp_path}/bare.yaml {tmp_path}/own.yaml {tmp_path}/lacking.yaml --json").out)
    assert [one["failures"] for one in results] == [[], [], []]
    assert [one["skipped"] for one in results] == ["", "", "no-such-program not installed"]


@needs_git
@needs_bubblewrap
def test_a_repository_has_its_own_environment_and_one_commit(tenex: Tenex, tmp_path: Path) -> None:
    """Programs see the workspace's own interpreter; the folder that was copied is not changed."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "lib.py").write_text("print('of the library')\n")
    (tmp_path / "lib" / ".gitignore").write_text(".venv/\n")
    (tmp_path / "mine.yaml").write_text(
        "messages: ['Which interpreter?']\nrepository: lib\nvenv: true\n"
        "script:\n"
        "  orchestrator: [execute: executor, END]\n"
        "  executor:\n"
        "    - shell: {command: 'command -v python; python lib.py; git log --format=%s; git status --short'}\n"
        "    - It is shown.\n"
        "expect:\n"
        "  ran: {execute: [python lib.py: 0]}\n"
        '  results: {shell: ".venv/bin/python\\nof the library\\nBegin"}\n'
        "turns: 1\n"
    )
    tenex(f"eval {tmp_path / 'mine.yaml'} --keep {tmp_path / 'kept'}")
    assert sorted(path.name for path in (tmp_path / "lib").iterdir()) == [".gitignore", "lib.py"]
    (kept,) = (tmp_path / "kept").iterdir()
    assert (kept / "workspace" / ".venv" / "pyvenv.cfg").is_file()


def test_a_message_comes_in_mid_work_and_another_begins_a_thread(tenex: Tenex, tmp_path: Path) -> None:
    """After the tool that it names, however fast the agent is; a new thread is another conversation."""
    (tmp_path / "mine.yaml").write_text(
        "messages: [Begin, {text: /stop, after: list_files}, {text: Again, new_thread: true}]\n"
        "script:\n"
        "  orchestrator: [execute: executor, execute: executor, END]\n"
        "  executor:\n"
        "    - list_files: {}\n"
        "    - complete: {response: This is the answer of the second thread.}\n"
        "    - complete: {response: This is the answer of the second thread.}\n"
        "expect: {status: ended, phases: [execute], replies: ['Stopped: Executor', of the second thread], notes: 2}\n"
    )
    tenex(f"eval {tmp_path / 'mine.yaml'} --keep {tmp_path / 'kept'}")
    (kept,) = (tmp_path / "kept").iterdir()
    assert len(list((kept / "conversations").glob("*/conversation.json"))) == 2


def test_a_wrong_file_is_refused_before_anything_runs(tenex: Tenex, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("message: hi\n")
    err = tenex(f"eval {file}", code=3).err
    assert f"{file}:1: message: there is no such key. Did you mean `messages`?" in err


async def test_models_are_compared_on_the_same_file(tmp_path: Path, data: Path) -> None:
    """`settings` asks the models of the settings, over HTTP, and tokens are those the server reports."""
    file = tmp_path / "mine.yaml"
    file.write_text("messages: [Please create note-01.txt.]\nexpect: {files: {note-01.txt: all done}}\n")
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
        assert code == 1  # the offline model does not understand the request
        assert [(one["model"], one["passed"]) for one in json.loads(out)] == [("local:two", True), ("offline", False)]
        assert {exchange.request["model"] for exchange in server.exchanges} == {"one", "two"}
    assert not (data / "conversations").exists()
