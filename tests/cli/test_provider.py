"""`tenex init` with a provider: by options and in a terminal, the key checked, kept private and never shown."""

import asyncio
import json
import re
import stat
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tenex.cli.shared.provider import CALLS, READ, WRITTEN, Chosen, Options, cost, from_options
from tenex.core.errors import UsageError
from tenex.core.text.foreign import is_like_key
from tenex.llm.config import Price
from tenex.main import main
from tenex.nostr.keys import KeyRing, SecretKey, nprofile
from tenex.settings import load
from tests.fakes.forkserver import run
from tests.fakes.modelprotocol import Answer
from tests.fakes.modelserver import ModelServer, model_server
from tests.kits.commands import Tenex
from tests.kits.init_questions import answer, init_command
from tests.kits.terminal import Terminal
from tests.programs import needs_tmux
from tests.service.kit import environment

KEY = "sk-loopback"


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """A server of the OpenAI protocol that knows two models and one key."""
    async with model_server(lambda _: Answer(text="OK"), key=KEY, models=("small", "test")) as server:
        yield server


async def init(data: Path, line: str, key: str = KEY, code: int = 0) -> tuple[str, str]:
    """Run the command with a key on its stdin: stdout, stderr."""
    words = ["tenex.main", "init", "--dir", str(data), *line.split()]
    done = await asyncio.to_thread(run, words, environment(), data.parent, given=key.encode())
    assert done.returncode == code, done.stderr
    assert KEY not in done.stdout + done.stderr
    return done.stdout, done.stderr


def own(server: ModelServer) -> str:
    """The options that name that server."""
    return f"--model local:test --base-url {server.url} --api-key-file -"


async def test_a_model_that_answers_is_written_and_its_key_kept_apart(server: ModelServer, tmp_path: Path) -> None:
    data = tmp_path / "new"
    out, err = await init(data, own(server))
    assert out == f"{KeyRing(data / 'keys').get('project').npub}\n"
    assert "It answers, in " in err
    assert "costs" in err
    asked = [(bool(exchange.request.get("max_tokens")), exchange.stream) for exchange in server.exchanges]
    assert asked == [(True, True), (True, False)]
    kept = data / "keys" / "local.api-key"
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == (KEY + "\n", 0o600)
    text = (data / "tenex.toml").read_text()
    table = {"local": {"kind": "openai", "base_url": server.url}}
    assert tomllib.loads(text)["models"] == {"default": "local:test", "providers": table}
    assert load(None, data, env={}).models.default == "local:test"
    assert "local" not in KeyRing(data / "keys").names()
    assert KEY not in text
    assert 'set models.default = "offline"' in (await init(data, "--model offline", code=2))[1]


async def test_a_model_that_does_not_answer_is_set_up_only_without_the_check(
    server: ModelServer, tmp_path: Path
) -> None:
    data, wrong = tmp_path / "new", "sk-of-somebody-else-0000000"
    out, err = await init(data, own(server), key=wrong, code=1)
    assert (out, wrong in err) == ("", False)
    assert "does not accept the key" in err
    assert "--no-check" in err
    await server.down()
    assert "local:test" in (await init(data, own(server), code=1))[1]
    assert not data.exists()
    await init(data, f"{own(server)} --no-check")
    assert (data / "keys" / "local.api-key").read_text() == KEY + "\n"


def test_a_second_run_explains_how_to_change_the_model(tenex: Tenex, data: Path) -> None:
    tenex("init --model offline")
    tenex("init --model offline")
    err = tenex("init --model openai:gpt-5-mini", code=2).err
    assert f"{data / 'tenex.toml'} exists and was not changed" in err
    shown = re.search(r"(    \[models\]\n.*?)\n\n?The key", err, re.DOTALL)
    assert shown is not None
    assert tomllib.loads(shown.group(1))["models"]["default"] == "openai:gpt-5-mini"
    assert str(data / "keys" / "openai.api-key") in err


async def test_a_key_that_exists_is_used_and_not_replaced(server: ModelServer, tmp_path: Path) -> None:
    data = tmp_path / "new"
    (data / "keys").mkdir(parents=True)
    kept = data / "keys" / "local.api-key"
    kept.write_text("sk-another\n")
    assert f"{kept} holds another key" in (await init(data, own(server), code=2))[1]
    assert kept.read_text() == "sk-another\n"
    assert not (data / "tenex.toml").exists()
    kept.write_text(KEY + "\n")
    await init(data, f"--model local:test --base-url {server.url}")
    (tmp_path / "key").write_text(f'"{KEY}"\n')
    line = f"--model test --provider mine --base-url {server.url} --api-key-file {tmp_path / 'key'} --json"
    made = json.loads((await init(tmp_path / "other", line))[0])
    assert made["models"] == ["mine:test"]
    assert str(tmp_path / "other" / "keys" / "mine.api-key") in made["created"]


def test_a_key_is_in_no_repr_and_one_of_the_environment_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    chosen = from_options(Options(provider="openai"), tmp_path)
    assert chosen is not None
    assert (chosen.key, chosen.known_key) == (None, "sk-of-the-environment")
    assert "sk-of" not in f"{chosen!r} {chosen.toml()} {chosen.settings()}"
    assert chosen.model
    named = from_options(Options(model="ollama:qwen3:4b"), tmp_path)
    assert named == Chosen(provider="ollama", model="qwen3:4b", base_url="http://127.0.0.1:11434/v1")


SECRETS = [
    SecretKey(bytes([7]) * 32).nsec,
    "07" * 32,
    "sk-ant-api03-abcdefghijklmnop",
    "sk-short",
    "gsk_abcdefgh1234567890ABCDEF",
    "AIzaSyA1234567890abcdefghijklmnopqrstuvw",
    "0123456789abcdefABCDEFGHIJKLMNop",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "line",
    [
        "--model {}",
        "--model openai:{}",
        "--provider {}",
        "--base-url http://127.0.0.1:1/v1 --model {}",
        "--model openai:x --api-key-file {}",
    ],
)
def test_a_key_in_place_of_a_name_is_refused_and_not_repeated(tenex: Tenex, data: Path, line: str, secret: str) -> None:
    for command in ("init", *(["demo --message hello"] if line == "--model {}" else [])):
        out, err = tenex(f"{command} {line.format(secret)}", code=2)
        assert "looks like a key" in err
        assert "--api-key-file FILE" in err
        assert secret not in out + err
    assert not [path for path in data.glob("**/*") if path.is_file()]


FORMS = ("{}", " '{}' ", "nostr:{}", "Bearer {}", "A_KEY={}")


@pytest.mark.parametrize(
    ("text", "is_key"),
    [
        *((form.format(secret), True) for secret in SECRETS for form in FORMS),
        ('export OPENAI_API_KEY="sk-ant-api03-abcdefghijklmnop"', True),
        (SecretKey(bytes([7]) * 32).npub, False),
        (f"nostr:{SecretKey(bytes([7]) * 32).npub}", False),
        (f"nostr:{nprofile(SecretKey(bytes([7]) * 32).public, ['wss://a.example'])}", False),
        ("wss://a.example ws://127.0.0.1:7447", False),
        ("wss://relay.example/?token=0123456789abcdefABCDEFGHIJKLMNop", False),
        ("http://127.0.0.1:8080/v1", False),
        ("", False),
    ],
)
def test_a_key_is_recognised_as_it_is_copied(text: str, is_key: bool) -> None:
    assert is_like_key(text) == is_key


@pytest.mark.parametrize(
    "line", ["init --owner {}", "chat --to {}", "agents show {}", "agents add {}", "frob {}", "{}"]
)
def test_no_message_of_a_command_repeats_a_key(tenex: Tenex, data: Path, line: str) -> None:
    for secret in (SECRETS[0], SECRETS[2]):
        code = main(line.format(secret).split())
        assert code
        out, err = tenex(line.format(secret), code=code)
        assert secret not in out + err
        assert not [path for path in data.glob("**/*") if secret in path.name]


@pytest.mark.parametrize(
    "name",
    ["gpt-5-mini", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "qwen3:4b", "deepseek-r1:671b-0528-q4_K_M", "hf_local"],
)
def test_names_of_models_are_not_taken_for_keys(name: str, tmp_path: Path) -> None:
    chosen = from_options(Options(provider="mine", model=name, base_url="http://127.0.0.1:1/v1"), tmp_path)
    assert chosen is not None
    assert chosen.model == name


@pytest.mark.parametrize("text", ["", "two words\n", "two\nlines\n", "schlüssel"])
def test_a_file_that_holds_no_key_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(UsageError, match="one line, the key and nothing else"):
        from_options(Options(model="openai:x", key_file=tmp_path / "key"), tmp_path)


def test_the_cost_is_printed_with_its_assumptions() -> None:
    text = cost(Price(input=0.25, output=2.0))
    whole = CALLS * (READ * 0.25 + WRITTEN * 2) / 1e6
    for words in ("$0.25", "$2.00", f"{CALLS} calls", f"{READ:,} tokens", f"{WRITTEN}, is then about ${whole:.2f}"):
        assert words in text
    assert "not known" in cost(None)
    assert cost(Price(input=0, output=0)) == "It costs nothing per token."


# ---- in a terminal ------------------------------------------------------------------------------------------------


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal without anything in it."""
    it = Terminal(tmp_path)
    try:
        yield it
    finally:
        it.close()


@needs_tmux
async def test_a_person_chooses_mistypes_the_key_and_tries_again(
    server: ModelServer, terminal: Terminal, tmp_path: Path
) -> None:
    data = tmp_path / "new"
    terminal.start(*init_command(data))
    await terminal.shows("Your npub [a new key]:")
    await answer(terminal, ("", "Relays [ws://127.0.0.1:7447]:"), ("", "Folder [software]:"))
    await answer(terminal, ("", "Commits [ask]:"), ("", "[1]:"))
    await terminal.shows("1  offline", "Choose", "[1]:")
    steps = [("6", "Its address"), (server.url, "A name for it [local]:"), ("", "Its key (not shown")]
    await answer(
        terminal, ("9", "Type a number from 1 to 6."), *steps, ("sk-mistyped", "No models listed"), ("test", "did not")
    )
    await terminal.shows("That did not work.", "(t)ry again")
    assert not data.exists()
    await answer(
        terminal, ("x", "(t)ry again"), ("t", "[6]:"), ("", "Its address"), *steps[1:], (KEY, "It has: small, test")
    )
    terminal.type("test")
    screen = await terminal.shows("It answers, in", "npub1", "ended 0")
    assert KEY not in screen
    assert "sk-mistyped" not in screen
    assert (data / "keys" / "local.api-key").read_text() == KEY + "\n"
    assert tomllib.loads((data / "tenex.toml").read_text())["models"]["default"] == "local:test"


@needs_tmux
async def test_a_person_is_asked_for_npub_and_relays_and_a_key_is_not_shown(terminal: Terminal, tmp_path: Path) -> None:
    data, mine = tmp_path / "new", SecretKey.generate()
    terminal.start(*init_command(data), "--model offline")
    await terminal.shows("Your npub [a new key]:")
    for secret in (mine.nsec, "07" * 32):
        await answer(terminal, (secret, "looks like a secret key"))
    await answer(
        terminal,
        ("npub1mistyped", "That did not work: this npub is mistyped"),
        (mine.npub, "Relays [ws://127.0.0.1:7447]:"),
        (mine.nsec, "looks like a secret key"),
        ("http://relay.example.com", "must be the address of a relay"),
    )
    screen = terminal.screen()
    relays = "ws://127.0.0.1:7448, ws://localhost:7449 ws://127.0.0.1:7448"
    await answer(
        terminal, (relays, "Folder [software]:"), ("", "Commits [ask]:"), ("perhaps", "Type never, ask or auto.")
    )
    terminal.type("never")
    await terminal.shows("npub1", "ended 0")
    assert mine.nsec not in screen + terminal.screen()
    assert "07" * 32 not in screen
    settings = load(None, data, env={})
    assert (settings.people.owners, settings.relays.urls) == (
        [mine.npub],
        ["ws://127.0.0.1:7448", "ws://localhost:7449"],
    )
    assert settings.workspace.commit == "never"
    assert not (data / "keys" / "owner.nsec").exists()
    assert mine.nsec not in (data / "tenex.toml").read_text()


@needs_tmux
async def test_ctrl_c_at_a_question_leaves_nothing_and_a_failed_check_may_go_on_offline(
    server: ModelServer, terminal: Terminal, tmp_path: Path
) -> None:
    await server.down()
    named = [*init_command(tmp_path / "new"), "--owner", SecretKey.generate().npub, "--relay", "ws://127.0.0.1:7447"]
    terminal.start("trap : INT;", *named, "--software --commit ask;", *named, "--software --commit ask")
    await terminal.shows("[1]:")
    steps = [("6", "Its address"), (server.url, "A name for it"), ("", "Its key")]
    await answer(terminal, *steps)
    terminal.press("C-c")
    screen = await terminal.until(lambda screen: screen.count("[1]:") == 2)
    assert "interrupted" in screen
    assert "Traceback" not in screen
    assert not (tmp_path / "new").exists()
    await answer(terminal, *steps, (KEY, "Its model"), ("test", "(t)ry again"))
    terminal.type("o")
    await terminal.shows("ended 0")
    assert load(None, tmp_path / "new", env={}).models.default == "offline"
    assert not (tmp_path / "new" / "keys" / "local.api-key").exists()
