"""`tenex demo` without a terminal: relay, daemon and chat in one process, to the end of one conversation."""

import asyncio
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from tenex.nostr.keys import KeyRing
from tests.fakes.forkserver import run
from tests.fakes.modelscripts import team
from tests.fakes.modelserver import model_server
from tests.programs import needs_git

from .kit import FULL_CYCLE, ROOT, TENEX, environment, phases, tenex

WAITING = 6


def views(data: Path) -> list[dict[str, Any]]:
    found = [json.loads(file.read_text()) for file in data.glob("conversations/*/conversation.json")]
    return sorted(found, key=lambda view: str(view["createdAt"]))


def printed(file: Path) -> str:
    return subprocess.run([sys.executable, file], capture_output=True, text=True, check=True, timeout=20).stdout


async def test_it_makes_what_it_is_asked_for_and_the_next_one_begins_another_conversation(tmp_path: Path) -> None:
    line = f"exec {sys.executable} -m tenex.main demo --data {tmp_path} <&-"
    done = await asyncio.create_subprocess_shell(line, cwd=ROOT, env=environment(), stdout=asyncio.subprocess.PIPE)
    out = (await done.communicate())[0].decode()
    assert done.returncode == 0
    assert printed(tmp_path / "workspace" / "hello.py") == "hello\n"
    (view,) = views(tmp_path)
    assert phases(view) == [turn["phase"] for turn in view["orchestratorTurns"]] == FULL_CYCLE
    steps = [f"{came} → {went}" for came, went in zip(["chat", *FULL_CYCLE], FULL_CYCLE, strict=False)]
    places = [out.index(step) for step in steps]
    assert places == sorted(places)
    for turn in view["orchestratorTurns"]:
        assert turn["completions"][0]["text"].splitlines()[0] in out
    assert "write_file(path=hello.py" in out
    assert "✗" not in out, "nothing fails in a demo"
    first, folder, third = out.splitlines()[:3]
    assert first.startswith("Model: offline, fixed rules, free, because this is no terminal.")
    assert folder == f"Folder: {tmp_path / 'workspace'}, where the agents work."
    assert third.startswith("you  "), "the first message is read after its author's name"
    assert str(tmp_path / "conversations" / view["id"] / "conversation.json") in out
    assert "\x1b" not in out, "no colours where there is no terminal"

    ring = KeyRing(tmp_path / "keys")
    keys = {name: ring.get(name).nsec for name in ring.names()}
    words, asked = (TENEX[-1], "demo", "--data", str(tmp_path)), b"Change hello to goodbye in hello.py\n"
    ran = await asyncio.to_thread(run, words, environment(), ROOT, given=asked)
    assert ran.returncode == 0, ran.stderr
    assert printed(tmp_path / "workspace" / "hello.py") == "goodbye\n"
    assert views(tmp_path)[0] == view
    assert [view["status"] for view in views(tmp_path)] == ["ended", "ended"]
    assert {name: KeyRing(tmp_path / "keys").get(name).nsec for name in keys} == keys

    log = tmp_path / "tenex.log"
    text = log.read_text()
    assert {"runtime.ready", "runtime.stopped"} <= {json.loads(line)["event"] for line in text.splitlines()}
    assert not [secret for secret in ("goodbye", "nsec1", *keys.values()) if secret in text]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


async def test_where_it_would_wait_for_a_user_it_asks(tmp_path: Path) -> None:
    code, out, _ = await tenex("demo", "--data", tmp_path, "--message", "What do you think?")
    assert code == WAITING
    (view,) = views(tmp_path)
    assert (view["status"], "?" in view["messages"][-1]["text"]) == ("waiting", True)
    question = view["messages"][-1]["text"].splitlines()[0]
    assert out.count(question) == 1, "it is printed once"
    assert "It waits for your answer" in out.split(question)[1]


async def test_an_own_request_without_a_model_says_once_what_to_do(tmp_path: Path) -> None:
    code, out, _ = await tenex("demo", "--data", tmp_path, "--message", "Write a poem about rivers")
    assert code == WAITING
    assert out.count("--model openai:gpt-5-mini") == 1


def test_a_line_that_quits_ends_what_is_piped(tmp_path: Path) -> None:
    words = (TENEX[-1], "demo", "--data", str(tmp_path))
    done = run(words, environment(), ROOT, given=b"/quit\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert views(tmp_path) == []
    done = run(words, environment(), ROOT, given=b"Create hello.py that prints hello\n/quit\nCreate bye.py\n")
    assert done.returncode == 0, done.stderr
    (view,) = views(tmp_path)
    assert view["messages"][0]["text"] == "Create hello.py that prints hello"
    assert not (tmp_path / "workspace" / "bye.py").exists()


async def test_a_port_that_is_taken_is_a_sentence(tmp_path: Path, relay: str) -> None:
    code, _, err = await tenex("demo", "--data", tmp_path, "--port", relay.rpartition(":")[2])
    assert (code, "cannot start on port" in err, "Traceback" in err) == (2, True, False)


def test_a_demo_that_was_killed_goes_on_in_the_next_and_that_is_shown(tmp_path: Path) -> None:
    words = [*TENEX, "demo", "--data", str(tmp_path)]
    nothing, env = subprocess.DEVNULL, environment()
    with subprocess.Popen(words, stdin=nothing, stdout=subprocess.PIPE, text=True, env=env) as first:
        assert first.stdout is not None
        assert next(line for line in first.stdout if "execute" in line)
        first.kill()
    second = subprocess.run(words, stdin=nothing, capture_output=True, text=True, timeout=60, check=True, env=env)
    assert "Continuing an unfinished conversation: Create hello.py" in second.stdout
    assert "executor · write_file(" in second.stdout or "executor · list_files(" in second.stdout
    assert [view["status"] for view in views(tmp_path)] == ["ended", "ended"]


async def test_a_named_model_is_used(tmp_path: Path) -> None:
    async with model_server(team, key="", models=("test",)) as server:
        (tmp_path / "tenex.toml").write_text(f'[models.providers.local]\nkind = "openai"\nbase_url = "{server.url}"\n')
        words = ("demo", "--data", tmp_path, "--message", "Write note-01.txt.", "--model", "local:test")
        code, out, err = await tenex(*words)
    assert code == 0, out + err
    assert out.startswith("Model: local:test, as configured.")
    assert (tmp_path / "workspace" / "note-01.txt").read_text() == "note-01.txt: all done\n"


def here(cwd: Path, state: Path, *words: str) -> Any:
    """The demo typed in a folder, by a user whose state folder is `state`."""
    env = environment(XDG_STATE_HOME=str(state))
    return run((TENEX[-1], "demo", *words), env, cwd, given=b"Create hello.py that prints hello\n")


@needs_git
def test_it_works_in_the_current_folder_and_its_settings_are_not_used(tmp_path: Path) -> None:
    """A clone holds what others wrote: settings, agents, and files that are not committed."""
    clone, state = tmp_path / "a clone ü", tmp_path / "state"
    (clone / "agents").mkdir(parents=True)
    (clone / "agents" / "executor.md").write_text("not an agent\n")
    (clone / "tenex.toml").write_text('[paths]\nworkspace = "/etc"\n[people]\nopen = true\n')
    (clone / ".gitignore").write_text("*.log\n")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all"]):
        subprocess.run(["git", *words], cwd=clone, check=True, timeout=20)
    (clone / "notes.txt").write_text("mine\n")
    refused = here(clone, state)
    assert (refused.returncode, "is not trusted" in refused.stderr) == (3, True)
    done = here(clone, state, "--workspace", ".")
    assert done.returncode == 0, done.stderr
    assert f"Folder: {clone}, where the agents work." in done.stdout.splitlines()[1]
    assert printed(clone / "hello.py") == "hello\n"
    changed = subprocess.run(["git", "status", "--short"], cwd=clone, capture_output=True, text=True, check=True)
    assert changed.stdout.splitlines() == ["?? hello.py", "?? notes.txt"]
    (data,) = (state / "tenex" / "workspaces").iterdir()
    assert len(views(data)) == 1
    *_, again = done.stdout.splitlines()
    assert again == f"To read it again: tenex --data {data} conversations show"
    assert here(clone, state, "--workspace", str(clone)).returncode == 0
    assert len(views(data)) == 2, "one folder has one data folder, however it is written"


def test_in_an_empty_folder_it_says_where_it_writes_and_how_it_writes_here(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    state = tmp_path / "state"
    empty.mkdir()
    done = here(empty, state)
    assert done.returncode == 0, done.stderr
    workspace = state / "tenex" / "workspace"
    hint = "To work in this one: `tenex demo --workspace .`"
    assert done.stdout.splitlines()[1] == f"Folder: {workspace}, where the agents work. {hint}"
    assert printed(workspace / "hello.py") == "hello\n"
    assert [*empty.iterdir()] == []
    assert hint not in here(empty, state, "--workspace", ".").stdout


def test_unfinished_work_of_one_folder_is_not_continued_in_another(tmp_path: Path) -> None:
    state = tmp_path / "state"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    words = [*TENEX, "demo", "--workspace", "."]
    env = environment(XDG_STATE_HOME=str(state))
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(words, stdin=nothing, stdout=pipe, text=True, env=env, cwd=tmp_path / "one") as first:
        assert first.stdout is not None
        assert next(line for line in first.stdout if "execute" in line)
        first.kill()
    done = here(tmp_path / "two", state, "--workspace", ".")
    assert done.returncode == 0, done.stderr
    assert "Continuing" not in done.stdout
    done = here(tmp_path / "one", state, "--workspace", ".")
    assert "Continuing an unfinished conversation" in done.stdout


def test_a_folder_that_agents_must_not_have_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    state, home = tmp_path / "home" / "state", tmp_path / "home"
    home.mkdir()
    (tmp_path / "file").write_text("mine\n")
    (tmp_path / "other" / "keys").mkdir(parents=True)
    (tmp_path / "other" / "keys" / "project.nsec").write_text("nsec1\n")
    for folder, code, sentence in (
        (home, 2, "contains the data folder"),
        (Path("/"), 2, "contains the data folder"),
        (tmp_path / "file", 2, "is not a folder; name another one with --workspace"),
        (tmp_path / "other", 2, "holds keys of tenex"),
        (Path("/proc"), 3, "/proc: cannot be written"),
    ):
        done = here(tmp_path, state, "--workspace", str(folder))
        assert (done.returncode, done.stdout, sentence in done.stderr) == (code, "", True), done.stderr
        assert done.stderr.count("\n") == 1
    named = here(home, state, "--workspace", ".", "--data", ".")
    assert (named.returncode, "contains the data folder" in named.stderr) == (2, True)
    assert not state.exists()


def test_a_folder_that_is_missing_is_made_and_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert here(tmp_path, tmp_path / "state", "--workspace", "new/deep").returncode == 0
    assert printed(tmp_path / "new" / "deep" / "hello.py") == "hello\n"
    assert here(tmp_path, tmp_path / "state", "--workspace", "link").returncode == 0
    assert printed(tmp_path / "real" / "hello.py") == "hello\n"


def test_the_commands_it_prints_work_as_printed_where_it_is_not_on_the_path(tmp_path: Path) -> None:
    script = tmp_path / "bin" / "tenex"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom tenex.main import main\nmain()\n")
    script.chmod(0o755)
    env = environment(PATH="/usr/bin:/bin", HOME=str(tmp_path))
    words = ["bin/tenex", "demo", "--data", str(tmp_path / "data"), "--message", "List the files"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60)
    *_, again = done.stdout.splitlines()
    command = again.removeprefix("To read it again: ")
    assert command.startswith("bin/tenex --data ")
    shown = subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert "List the files" in shown.stdout
