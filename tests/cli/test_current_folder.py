"""What a command does in a folder that somebody else has filled: an agent's workspace, a download, a shared disk."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tenex.nostr.keys import KeyRing
from tests.fakes.forkserver import run
from tests.kits.commands import Done
from tests.service.kit import environment

Tenex = Callable[..., Done]
COMMANDS = (
    "agents list, agents show spy, agents show spy --prompt, agents add, chat, config check, config path, config show, "
    "conversations list, demo --message hi, doctor --probe, eval, graph check, graph show spy, init, relay, run, "
    "status, workflows run spy.py"
)
STATES = 'from pathlib import Path\nPath(__file__).with_name("ran").touch()\n'
AGENT = STATES + "from tenex.workflows.agents import BaseAgent\nclass Spy(BaseAgent):\n    'A spy.'\n"
MARKDOWN = """---
name: Spy
role: a spy
use_when: never
output: {plan: [thoughts.py:Thought], act: [tool_call]}
---
You spy.
"""


@pytest.fixture
def forked(cwd: Path) -> Tenex:
    """The program in a fork of a process that has loaded it."""
    return lambda *words, **env: run(["tenex.cli.main", *map(str, words)], environment(**env), cwd)


@pytest.fixture
def hostile(cwd: Path) -> Path:
    """The current folder, with a configuration, a key and Python in every place it is loaded from."""
    KeyRing(cwd / "keys").get_or_create("project")
    (cwd / "tenex.toml").write_text('[people]\nopen = true\n[relays]\nurls = ["ws://127.0.0.1:1"]\n')
    for folder in ("agents", "config/workflows"):
        (cwd / folder).mkdir(parents=True)
        (cwd / folder / "spy.py").write_text(AGENT)
    (cwd / "agents" / "thoughts.py").write_text(STATES)
    (cwd / "agents" / "thinker.md").write_text(MARKDOWN)
    return cwd


def ran(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("ran")]


@pytest.mark.parametrize("command", COMMANDS.split(", "))
def test_no_command_uses_a_folder_that_was_only_the_current_one(forked: Tenex, hostile: Path, command: str) -> None:
    before = sorted(hostile.rglob("*"))
    done = forked(*command.split())
    assert (done.returncode, done.stdout) == (3, "")
    refusal = (
        f"{hostile} is not trusted: you neither made nor named it. Look into it, then run `tenex trust {hostile}`."
    )
    assert done.stderr == f"tenex: {refusal}\n"
    assert len(refusal.split()) < 25
    assert sorted(hostile.rglob("*")) == before


@pytest.mark.parametrize("how", ["--data", "TENEX_DATA", "STATE_DIRECTORY", "XDG_STATE_HOME"])
def test_python_of_a_folder_that_was_named_runs(forked: Tenex, hostile: Path, how: str) -> None:
    if how == "XDG_STATE_HOME":
        hostile = hostile.rename(hostile.with_name("tenex"))
        hostile.with_name("cwd").mkdir()
        forked("config", "check", XDG_STATE_HOME=str(hostile.parent))
    elif how == "--data":
        forked("config", "check", "--data", ".")
    else:
        forked("config", "check", **{how: str(hostile)})
    assert "agents/ran" in ran(hostile)


def test_a_module_that_the_current_folder_names_and_holds_is_not_imported(hostile: Path) -> None:
    shutil.rmtree(hostile / "agents")
    (hostile / "tenex.toml").write_text('workflows = ["spying:workflow"]\n')
    for name in ("spying.py", "typer.py", "sqlite3.py"):
        (hostile / name).write_text(AGENT)
    env = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    line = [sys.executable, "-m", "tenex", "graph", "check"]
    done = subprocess.run(line, env=env, cwd=hostile, capture_output=True, text=True, timeout=60, check=False)
    assert ran(hostile) == []
    assert "is not trusted" in done.stderr


@pytest.mark.parametrize("is_configured", [True, False])
def test_a_folder_in_a_workspace_is_never_a_data_folder(
    forked: Tenex, cwd: Path, tmp_path: Path, is_configured: bool
) -> None:
    data = tmp_path / "data"
    assert forked("init", "--dir", data, "--model", "offline").returncode == 0
    if not is_configured:
        (data / "tenex.toml").unlink()
    inside = data / "workspace" / "deep"
    inside.mkdir()
    (inside / "tenex.toml").touch()
    cwd.rmdir()
    cwd.symlink_to(inside)
    for command in ("status", "agents list --data .", "init"):
        done = forked(*command.split())
        assert done.returncode == 3
        refusal = f"is in the workspace {data / 'workspace'}, where agents write. Choose another with --data."
        assert refusal in done.stderr
    assert [path.name for path in inside.iterdir()] == ["tenex.toml"]
    assert forked("agents", "list", "--data", data).returncode == 0


def test_the_workspace_of_the_users_own_data_folder_is_known_wherever_it_lies(
    forked: Tenex, cwd: Path, tmp_path: Path
) -> None:
    data = tmp_path / "tenex"
    data.mkdir()
    (data / "tenex.toml").write_text(f'[paths]\nworkspace = "{cwd}"\n')
    (cwd / "tenex.toml").touch()
    for env in ({"XDG_STATE_HOME": str(tmp_path)}, {"STATE_DIRECTORY": str(data)}):
        assert f"is in the workspace {cwd}" in forked("status", **env).stderr
    assert "is in the workspace" in forked("status", "--data", cwd, TENEX_DATA=str(data)).stderr


@pytest.mark.parametrize(
    ("where", "commands"),
    [("agents", ("agents list", "config check", "graph check", "doctor")), ("workflows", ("config check", "doctor"))],
)
def test_python_in_the_workspace_never_runs(
    forked: Tenex, hostile: Path, data: Path, where: str, commands: tuple[str, ...]
) -> None:
    (data / "tenex.toml").write_text(f'[paths]\nworkspace = "{hostile}"\n{where} = "{hostile}/agents"\n')
    for command in commands:
        done = forked(*command.split(), "--data", data)
        assert f"no code runs from the workspace {hostile}. Move it out of there" in done.stdout + done.stderr
    assert ran(hostile) == []
