"""`tenex demo` without a terminal: relay, daemon and chat in one process, to the end of one conversation."""

import asyncio
import json
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tenex.nostr.keys import KeyRing
from tests.fakes.forkserver import run
from tests.fakes.modelscripts import team
from tests.fakes.modelserver import model_server

from .kit import FULL_CYCLE, ROOT, TENEX, environment, phases, tenex

WAITING = 6


def views(data: Path) -> list[dict[str, Any]]:
    """Every conversation's view, oldest first."""
    found = [json.loads(file.read_text()) for file in data.glob("conversations/*/conversation.json")]
    return sorted(found, key=lambda view: str(view["createdAt"]))


def printed(file: Path) -> str:
    """What a program of the workspace prints."""
    return subprocess.run([sys.executable, file], capture_output=True, text=True, check=True, timeout=20).stdout


async def test_the_demo_makes_what_it_is_asked_for_and_leaves_a_story(tmp_path: Path) -> None:
    """Exit code 0; the program runs; phases and turns can be followed on the screen and in the file it names."""
    code, out, err = await tenex("demo", "--data", tmp_path)
    assert code == 0, err
    assert printed(tmp_path / "workspace" / "hello.py") == "hello\n"
    (view,) = views(tmp_path)
    assert phases(view) == FULL_CYCLE
    assert [turn["phase"] for turn in view["orchestratorTurns"]] == FULL_CYCLE
    assert all(turn["completions"][0]["text"] for turn in view["orchestratorTurns"])
    before = ["chat", *FULL_CYCLE]
    steps = [f"{came} → {went}" for came, went in zip(before, FULL_CYCLE, strict=False)]
    places = [out.index(step) for step in steps]
    assert places == sorted(places)
    for turn in view["orchestratorTurns"]:
        assert turn["completions"][0]["text"].splitlines()[0] in out
    assert "write_file(path=hello.py" in out
    first, second = out.splitlines()[:2]
    assert first.startswith("Model: offline, fixed rules, free, because this is no terminal.")
    assert second.startswith("you  "), "the first message is read after its author's name"
    assert str(tmp_path / "conversations" / view["id"] / "conversation.json") in out
    assert "\x1b" not in out, "no colours where there is no terminal"


async def test_its_log_is_json_without_words_or_keys(tmp_path: Path) -> None:
    """`tenex.log`, 0600: one object a line, and neither messages nor a secret."""
    code, _, err = await tenex("demo", "--data", tmp_path, "--message", "Create zebra.py that prints xylophone")
    assert code == 0, err
    log = tmp_path / "tenex.log"
    text = log.read_text()
    events = [json.loads(line)["event"] for line in text.splitlines()]
    assert {"runtime.ready", "runtime.stopped"} <= set(events)
    ring = KeyRing(tmp_path / "keys")
    for secret in ("xylophone", "nsec1", *(ring.get(name).nsec for name in ring.names())):
        assert secret not in text
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


async def test_where_it_would_wait_for_a_user_it_asks(tmp_path: Path) -> None:
    """Exit code 6 and the question, for scripts that cannot answer."""
    code, out, _ = await tenex("demo", "--data", tmp_path, "--message", "What do you think?")
    assert code == WAITING
    assert "It waits for a user: " in out
    (view,) = views(tmp_path)
    assert view["status"] == "waiting"
    assert "?" in view["messages"][-1]["text"]
    assert view["messages"][-1]["text"].splitlines()[0] in out.split("It waits for a user: ")[1]


async def test_what_is_piped_in_is_what_it_is_asked_for(tmp_path: Path) -> None:
    words, asked = (TENEX[-1], "demo", "--data", str(tmp_path)), b"Create bye.py that prints bye\n"
    done = await asyncio.to_thread(run, words, environment(), ROOT, given=asked)
    assert done.returncode == 0, done.stderr
    assert printed(tmp_path / "workspace" / "bye.py") == "bye\n"
    assert not (tmp_path / "workspace" / "hello.py").exists()


async def test_standard_input_that_is_closed_is_an_empty_one(tmp_path: Path) -> None:
    line = f"exec {sys.executable} -m tenex.cli.main demo --data {tmp_path} <&-"
    done = await asyncio.create_subprocess_shell(line, cwd=ROOT, env=environment(), stdout=asyncio.subprocess.DEVNULL)
    assert await done.wait() == 0
    assert printed(tmp_path / "workspace" / "hello.py") == "hello\n"


async def test_a_second_demo_on_the_same_folder_is_a_second_conversation(tmp_path: Path) -> None:
    """Keys, files and the first conversation stay."""
    assert (await tenex("demo", "--data", tmp_path))[0] == 0
    first = views(tmp_path)[0]
    keys = {name: KeyRing(tmp_path / "keys").get(name).public for name in KeyRing(tmp_path / "keys").names()}
    code, _, err = await tenex("demo", "--data", tmp_path, "--message", "Change hello to goodbye in hello.py")
    assert code == 0, err
    assert printed(tmp_path / "workspace" / "hello.py") == "goodbye\n"
    assert views(tmp_path)[0] == first
    assert [view["status"] for view in views(tmp_path)] == ["ended", "ended"]
    assert keys == {name: KeyRing(tmp_path / "keys").get(name).public for name in KeyRing(tmp_path / "keys").names()}


async def test_a_port_that_is_taken_is_a_sentence(tmp_path: Path, relay: str) -> None:
    code, _, err = await tenex("demo", "--data", tmp_path, "--port", relay.rpartition(":")[2])
    assert code == 2
    assert "cannot start on port" in err
    assert "Traceback" not in err


async def test_a_folder_in_use_is_a_sentence(tmp_path: Path) -> None:
    """The demo, too, is a daemon on its folder."""
    from tenex.store.lock import FolderLock

    (tmp_path / "conversations").mkdir()
    with FolderLock(tmp_path / "conversations"):
        code, _, err = await tenex("demo", "--data", tmp_path)
    assert code == 4
    assert re.search(r"is in use by process \d+", err)
    assert "Traceback" not in err


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here; `tenex demo` is tested without it")
def test_make_demo_is_that_command() -> None:
    """The README's first command runs it on the checkout."""
    done = subprocess.run(
        ["make", "-n", "demo", "ARGS=--message x"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ".venv/bin/tenex demo --data . --message x" in done.stdout


def test_a_demo_that_was_killed_goes_on_in_the_next_and_that_is_shown(tmp_path: Path) -> None:
    """`kill -9` in mid-work: the next demo in that folder names what it resumes, and shows it to the end."""
    words = [sys.executable, "-m", "tenex.cli.main", "demo", "--data", str(tmp_path)]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment()
    ) as first:
        assert first.stdout is not None
        seen = next(line for line in first.stdout if "execute" in line)
        first.kill()
    assert seen
    second = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True, env=environment()
    )
    assert "Continuing an unfinished conversation: Create hello.py" in second.stdout
    assert "executor · write_file(" in second.stdout or "executor · list_files(" in second.stdout
    assert [view["status"] for view in views(tmp_path)] == ["ended", "ended"]


async def test_without_a_terminal_only_a_named_model_is_used(tmp_path: Path) -> None:
    async with model_server(team, key="", models=("nomic-embed-text", "test")) as server:
        (tmp_path / "tenex.toml").write_text(f'[models.providers.local]\nkind = "openai"\nbase_url = "{server.url}"\n')
        words, host = ("demo", "--data", tmp_path, "--message"), server.url.split("/")[2]
        free = await tenex(*words, "Hello", OLLAMA_HOST=host, OPENAI_API_KEY="sk-x")
        assert not server.exchanges
        code, out, stderr = await tenex(*words, "Write note-01.txt.", "--model", "local:test")
    assert free[1].startswith("Model: offline")
    assert code == 0, out + stderr
    assert out.startswith("Model: local:test, as configured.")
    assert (tmp_path / "workspace" / "note-01.txt").read_text() == "note-01.txt: all done\n"
