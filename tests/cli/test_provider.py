"""`tenex init` with a provider: by options and in a terminal, the key checked, kept private and never shown."""

import asyncio
import json
import os
import re
import shutil
import stat
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tenex.cli.main import main
from tenex.cli.provider import CALLS, READ, WRITTEN, Chosen, Options, cost, from_options, models_of
from tenex.core.errors import UsageError
from tenex.nostr.keys import KeyRing
from tenex.settings import load
from tests.fakes.forkserver import run
from tests.fakes.modelprotocol import Answer
from tests.fakes.modelserver import ModelServer, model_server
from tests.service.test_terminal import Terminal

from .conftest import environment

KEY = "sk-loopback"


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """A server of the OpenAI protocol that knows two models and one key."""
    async with model_server(lambda _: Answer(text="OK"), key=KEY, models=("small", "test")) as server:
        yield server


async def init(data: Path, *words: str, key: str = "", **env: str) -> tuple[int, str, str]:
    """Run the command with a key on its stdin: exit code, stdout, stderr."""
    whole = ["tenex.cli.main", "init", "--dir", str(data), *words]
    done = await asyncio.to_thread(run, whole, environment(**env), data.parent, given=key.encode())
    return done.returncode, done.stdout, done.stderr


def own(server: ModelServer, model: str = "test") -> list[str]:
    """The options that name that server."""
    return ["--model", f"local:{model}", "--base-url", server.url, "--api-key-file", "-"]


# ---- options ------------------------------------------------------------------------------------------------------


async def test_a_model_that_answers_is_written_and_its_key_kept_apart(server: ModelServer, tmp_path: Path) -> None:
    data = tmp_path / "data"
    code, out, stderr = await init(data, *own(server), key=f"{KEY}\n")
    assert code == 0, stderr
    assert out == f"{KeyRing(data / 'keys').get('project').npub}\n"
    assert "It answers, in " in stderr
    assert "costs" in stderr
    assert [bool(exchange.request.get("max_tokens")) for exchange in server.exchanges] == [True, True]
    assert [exchange.stream for exchange in server.exchanges] == [True, False]
    kept = data / "keys" / "local.api-key"
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == (f"{KEY}\n", 0o600)
    written = tomllib.loads((data / "tenex.toml").read_text())["models"]
    assert written == {"default": "local:test", "providers": {"local": {"kind": "openai", "base_url": server.url}}}
    assert load(None, data, env={}).models.default == "local:test"
    assert "local" not in KeyRing(data / "keys").names()
    assert KEY not in out + stderr + (data / "tenex.toml").read_text()


async def test_a_key_that_is_refused_makes_nothing(server: ModelServer, tmp_path: Path) -> None:
    code, out, stderr = await init(tmp_path / "data", *own(server), key="sk-of-somebody-else-0000000\n")
    assert (code, out) == (1, "")
    assert "does not accept the key" in stderr
    assert "--no-check" in stderr
    assert "sk-of-somebody-else" not in stderr
    assert not (tmp_path / "data").exists()


async def test_a_server_that_is_away_can_be_set_up_all_the_same(server: ModelServer, tmp_path: Path) -> None:
    await server.down()
    code, _, stderr = await init(tmp_path / "data", *own(server), key=KEY)
    assert code == 1
    assert "local:test" in stderr
    assert not (tmp_path / "data").exists()
    code, _, stderr = await init(tmp_path / "data", *own(server), "--no-check", key=KEY)
    assert code == 0, stderr
    assert (tmp_path / "data" / "keys" / "local.api-key").read_text() == f"{KEY}\n"


async def test_json_is_all_there_is_on_stdout_and_a_key_comes_from_a_file(server: ModelServer, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f'"{KEY}"\n')
    words = ["--model", "test", "--provider", "mine", "--base-url", server.url, "--api-key-file", str(file), "--json"]
    code, out, _ = await init(tmp_path / "data", *words)
    assert code == 0
    made = json.loads(out)
    assert made["models"] == ["mine:test"]
    assert str(tmp_path / "data" / "keys" / "mine.api-key") in made["created"]
    assert KEY not in out


async def test_a_second_run_changes_nothing_and_explains_how_to(server: ModelServer, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert (await init(data, "--model", "offline"))[0] == 0
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    code, _, stderr = await init(data, "--model", "openai:gpt-5-mini")
    assert code == 2
    assert f"{data / 'tenex.toml'} exists and was not changed" in stderr
    shown = re.search(r"(    \[models\]\n.*?)\n\n?The key", stderr, re.DOTALL)
    assert shown is not None
    assert tomllib.loads(shown.group(1))["models"]["default"] == "openai:gpt-5-mini"
    assert str(data / "keys" / "openai.api-key") in stderr
    assert before == {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    assert not server.exchanges
    assert (await init(data, "--model", "offline"))[0] == 0


async def test_a_return_to_offline_is_explained_too(server: ModelServer, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert (await init(data, *own(server), key=KEY))[0] == 0
    code, _, stderr = await init(data, "--model", "offline")
    assert code == 2
    assert 'set models.default = "offline"' in stderr


async def test_a_key_that_is_there_is_not_replaced(server: ModelServer, tmp_path: Path) -> None:
    """What a run that was cut short has left is used; another key beside it is refused."""
    data = tmp_path / "data"
    (data / "keys").mkdir(parents=True)
    kept = data / "keys" / "local.api-key"
    kept.write_text("sk-another\n")
    code, _, stderr = await init(data, *own(server), key=KEY)
    assert code == 2
    assert f"{kept} holds another key" in stderr
    assert kept.read_text() == "sk-another\n"
    assert not (data / "tenex.toml").exists()
    kept.write_text(f"{KEY}\n")
    code, _, _ = await init(data, "--model", "local:test", "--base-url", server.url)
    assert code == 0


@pytest.mark.parametrize(
    ("words", "stderr"),
    [
        (["--model", "gpt-5"], "names no provider"),
        (["--provider", "openai"], "needs a key"),
        (["--provider", "local", "--model", "x"], "--base-url"),
        (["--provider", "ollama"], "Name a model of ollama"),
        (["--model", "unknown:x"], "no provider that is known"),
        (["--model", "offline", "--base-url", "http://x"], "no server and no key"),
        (["--model", "UPPER:x"], "cannot name a provider"),
        (["--model", "local:x", "--base-url", "ftp://x"], "must be an address"),
        (["--model", "local:x", "--base-url", "http://[x"], "must be an address"),
        (["--model", "local:x", "--base-url", "http://u:p@x/v1"], "without a user or a password"),
        (["--model", "openai:x", "--api-key-file", "/nonexistent"], "cannot be read"),
        (["--model", "openai:x", "--owner", "npub1wrong"], "people.owners[0]"),
    ],
)
def test_wishes_that_cannot_be_met_make_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], stderr: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if "--owner" in words:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    assert main(["init", "--dir", str(tmp_path / "d"), "--no-check", *words]) in (2, 3)
    assert stderr in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


def test_a_key_is_in_no_repr_and_one_of_the_environment_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    chosen = from_options(Options(provider="openai"), tmp_path)
    assert chosen is not None
    assert (chosen.key, chosen.known_key) == (None, "sk-of-the-environment")
    assert "sk-of" not in f"{chosen!r} {chosen.toml()} {chosen.settings()}"
    assert chosen.model


@pytest.mark.parametrize("text", ["", "two words\n", "two\nlines\n", "schlüssel"])
def test_a_file_that_holds_no_key_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(UsageError, match="one line, the key and nothing else"):
        from_options(Options(model="openai:x", key_file=tmp_path / "key"), tmp_path)


def test_the_cost_is_printed_with_its_assumptions() -> None:
    text = cost(0.25, 2.0)
    assert "$0.25" in text
    assert "$2.00" in text
    whole = CALLS * (READ * 0.25 + WRITTEN * 2) / 1e6
    for words in (f"{CALLS} calls", f"{READ:,} tokens", f"{WRITTEN}, is then about ${whole:.2f}"):
        assert words in text
    assert "not known" in cost()
    assert cost(0, 0) == "It costs nothing per token."


def test_a_name_with_colons_belongs_to_the_model() -> None:
    """As Ollama's do."""
    chosen = from_options(Options(model="ollama:qwen3:4b"), Path("/nonexistent"))
    assert chosen == Chosen(provider="ollama", model="qwen3:4b", base_url="http://127.0.0.1:11434/v1")


async def test_the_models_of_a_server_are_listed(server: ModelServer) -> None:
    assert await asyncio.to_thread(models_of, server.url, KEY) == ["small", "test"]
    assert await asyncio.to_thread(models_of, server.url, "wrong") is None
    await server.down()
    assert await asyncio.to_thread(models_of, server.url, KEY) is None


# ---- in a terminal ------------------------------------------------------------------------------------------------

in_terminal = pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux here to be the terminal")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal without anything in it."""
    it = Terminal(tmp_path)
    try:
        yield it
    finally:
        it.close()


def command(data: Path) -> list[str]:
    """The command."""
    return [sys.executable, "-m", "tenex.cli.main", "init", "--dir", str(data)]


@in_terminal
async def test_a_person_chooses_mistypes_the_key_and_tries_again(
    server: ModelServer, terminal: Terminal, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    terminal.start(*command(data))
    await terminal.shows("1  offline", "Choose [1]:")
    terminal.type("9")
    await terminal.shows("Type a number from 1 to 6.")
    terminal.type("6")
    await terminal.shows("Its address")
    terminal.type(server.url)
    await terminal.shows("A name for it [local]:")
    terminal.type("")
    await terminal.shows("Its key (not shown")
    terminal.type("sk-mistyped")
    await terminal.shows("No models listed", "Its model:")
    terminal.type("test")
    await terminal.shows("That did not work.", "(t)ry again")
    assert not data.exists()
    terminal.type("t")
    await terminal.shows("Choose [6]:")
    for answer, then in (("", "Its address"), (server.url, "A name"), ("", "Its key"), (KEY, "It has: small, test")):
        count = terminal.screen().count(then)
        terminal.type(answer)
        await terminal.until(lambda screen, then=then, count=count: screen.count(then) > count)  # type: ignore[misc]
    terminal.type("test")
    screen = await terminal.shows("It answers, in", "npub1", "ended 0")
    assert KEY not in screen
    assert "sk-mistyped" not in screen
    assert (data / "keys" / "local.api-key").read_text() == f"{KEY}\n"
    assert tomllib.loads((data / "tenex.toml").read_text())["models"]["default"] == "local:test"


@in_terminal
@pytest.mark.parametrize("presses", [0, 1, 3])
async def test_ctrl_c_at_any_question_leaves_nothing(
    server: ModelServer, terminal: Terminal, tmp_path: Path, presses: int
) -> None:
    terminal.start("trap : INT;", *command(tmp_path / "data"))  # the shell gets Ctrl-C too, and is to continue
    steps = [("6", "Its address"), (server.url, "A name for it"), ("", "Its key")]
    await terminal.shows("Choose [1]:")
    for answer, then in steps[:presses]:
        terminal.type(answer)
        await terminal.shows(then)
    terminal.press("C-c")
    screen = await terminal.shows("ended 130")
    assert "interrupted" in screen
    assert "Traceback" not in screen
    assert not (tmp_path / "data").exists()


@in_terminal
async def test_enter_is_the_offline_model_and_a_failed_check_may_go_on_offline(
    server: ModelServer, terminal: Terminal, tmp_path: Path
) -> None:
    await server.down()
    terminal.start(*command(tmp_path / "one"), "&&", *command(tmp_path / "two"))
    await terminal.shows("Choose [1]:")
    terminal.type("")
    screen = await terminal.until(lambda screen: screen.count("Choose [1]:") == 2)
    assert "npub1" in screen
    for answer, then in (
        ("6", "Its address"),
        (server.url, "A name"),
        ("", "Its key"),
        (KEY, "Its model:"),
        ("test", "(t)ry again"),
    ):
        terminal.type(answer)
        await terminal.shows(then)
    terminal.type("o")
    await terminal.shows("ended 0")
    for name in ("one", "two"):
        assert load(None, tmp_path / name, env={}).models.default == "offline"
    assert not (tmp_path / "two" / "keys" / "local.api-key").exists()


def test_without_a_terminal_no_question_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if os.isatty(0):
        pytest.skip("pytest runs with -s in a terminal")
    assert main(["init", "--dir", str(tmp_path / "d")]) == 0
    assert "Choose" not in capsys.readouterr().err
