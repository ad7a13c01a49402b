"""`tenex init` in a terminal: relays are asked whether they answer, and a second run changes one thing."""

import asyncio
import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tenex.cli.init import prepare
from tenex.cli.shared import public_keys
from tenex.core.ids import PublicKey
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.settings import load
from tests.fakes.faultrelay import FaultRelay
from tests.kits.commands import Tenex
from tests.kits.init_questions import answer, init_command
from tests.kits.terminal import Terminal
from tests.programs import needs_tmux

ALICE = SecretKey(bytes([41]) * 32)
RELAYS_ASKED = "Relays [ws://127.0.0.1:7447]:"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal without anything in it."""
    it = Terminal(tmp_path)
    try:
        yield it
    finally:
        it.close()


@asynccontextmanager
async def no_relay() -> AsyncIterator[str]:
    """The address of a server that closes every connection."""

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0) as listening:
        yield f"ws://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


@needs_tmux
async def test_a_relay_that_is_none_is_reported_and_others_are_asked_for(terminal: Terminal, tmp_path: Path) -> None:
    data = tmp_path / "new"
    async with no_relay() as wrong, FaultRelay() as right:
        terminal.start(*init_command(data), "--model offline --software --commit auto --owner", ALICE.npub)
        await terminal.shows(RELAYS_ASKED)
        await answer(terminal, (wrong, "(c)hange the relays, or (k)eep them as they are [c]:"))
        screen = terminal.screen()
        assert f"{wrong}: it " in " ".join(screen.split())
        await answer(terminal, ("c", RELAYS_ASKED), (f"{wrong} {right.url}", "(k)eep"), ("", RELAYS_ASKED))
        assert not data.exists()
        terminal.type(right.url)
        await terminal.shows("npub1", "ended 0")
        assert {frame[0] for _, frame in right.frames} <= {"REQ", "CLOSE"}
    settings = load(None, data, env={})
    assert settings.relays.urls == [right.url]
    assert settings.workspace.commit == "auto"


@needs_tmux
async def test_relays_of_options_are_asked_too_and_may_be_kept(terminal: Terminal, tmp_path: Path) -> None:
    data = tmp_path / "new"
    async with no_relay() as wrong:
        terminal.start(*init_command(data), "--model offline --owner", ALICE.npub, "--relay", wrong)
        await terminal.shows("(k)eep them as they are [c]:")
        await answer(terminal, ("k", "Folder [software]:"), ("", "Commits [ask]:"))
        terminal.type("")
        await terminal.shows("ended 0")
    assert load(None, data, env={}).relays.urls == [wrong]


@needs_tmux
async def test_an_address_without_its_scheme_is_completed_and_each_relay_has_a_verdict(
    terminal: Terminal, tmp_path: Path
) -> None:
    data = tmp_path / "new"
    async with FaultRelay() as relay:
        host = relay.url.removeprefix("ws://")
        terminal.start(*init_command(data), "--model offline --software --commit auto --owner", ALICE.npub)
        await terminal.shows(RELAYS_ASKED)
        terminal.type(f"localhost:9 {host}")
        await terminal.shows("npub1", "ended 0")
        screen = " ".join(terminal.screen().split())
    assert "ws://localhost:9: no relay listens there yet; start it: " in screen
    assert f"{relay.url} answers." in screen
    assert load(None, data, env={}).relays.urls == ["ws://localhost:9", relay.url]


def test_an_owner_is_set_up_by_name(tenex: Tenex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(text: str) -> PublicKey:
        if text != "alice@example.com":
            raise ValueError("example.com does not know the name bob")
        return ALICE.public

    monkeypatch.setattr(public_keys, "look_up", look_up)
    assert "--owner: example.com does not know the name bob" in tenex("init --owner bob@example.com", code=2).err
    assert not (tmp_path / "data").exists()
    tenex("init --owner alice@example.com")
    assert load(None, tmp_path / "data", env={}).people.owners == [ALICE.npub]
    tenex("init --owner alice@example.com")


@needs_tmux
async def test_a_second_run_shows_what_is_set_and_changes_one_thing(terminal: Terminal, tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = prepare(data, None, [])
    made.config.write_text(f'# Mine.\n{made.config.read_text()}[log]\nlevel = "info"  # not debug\n')
    before = made.config.read_text()
    keys = {name: KeyRing(data / "keys").get(name) for name in KeyRing(data / "keys").names()}
    owner = keys["owner"].npub
    again = " ".join(init_command(data))
    async with FaultRelay() as relay:
        terminal.start("; ".join([again] * 5))
        menu = "Change which [none]:"
        await terminal.shows("1  owners", owner, "2  relays  ws://127.0.0.1:7447", "3  model   offline", menu)
        await answer(terminal, ("", "Nothing was changed."))
        assert made.config.read_text() == before
        await terminal.until(lambda screen: screen.count(menu) == 2)
        await answer(terminal, ("1", "The npub or the name of another owner [none]:"), (ALICE.npub, menu))
        await answer(terminal, ("2", RELAYS_ASKED), (relay.url, menu))
        screen = await terminal.shows(f"2  relays  {relay.url}")
        assert ALICE.npub in screen
        await answer(terminal, ("3", "Choose [1]:"), ("", menu))
        await answer(terminal, ("4", "Commits [never]:"), ("ask", "ended 0"))
    values = tomllib.loads(made.config.read_text())
    assert values["workspace"] == {"commit": "ask"}
    assert values["people"] == {"owners": [owner, ALICE.npub]}
    assert values["relays"] == {"urls": [relay.url]}
    assert values["models"] == {"default": "offline"}
    for line in before.splitlines():
        assert line in made.config.read_text() or line.startswith("owners = "), line
    assert {name: KeyRing(data / "keys").get(name) for name in keys} == keys


@needs_tmux
async def test_a_folder_of_documents_is_proposed_as_such_and_may_become_software(
    terminal: Terminal, tmp_path: Path
) -> None:
    data, folder = tmp_path / "new", tmp_path / "notes"
    folder.mkdir()
    (folder / "minutes.md").write_text("# November\n")
    async with FaultRelay() as relay:
        words = ["--model offline --owner", ALICE.npub, "--relay", relay.url, "--workspace", str(folder)]
        terminal.start(*init_command(data), *words, ";", *init_command(data))
        await terminal.shows("Folder [documents]:")
        await answer(terminal, ("letters", "Type software or documents."), ("", "Change which [none]:"))
        text = (data / "tenex.toml").read_text()
        assert "Commits" not in terminal.screen(), "who commits is a question of software"
        await terminal.shows("executor works in it alone", "6  folder  documents: executor works alone")
        settings = load(None, data, env={})
        assert (settings.conversations.agent, settings.workspace.commit) == ("executor", "never")
        await answer(terminal, ("6", "Folder [documents]:"), ("software", "Changed in"))
        await terminal.shows("ended 0")
    assert load(None, data, env={}).conversations.agent == ""
    assert (data / "tenex.toml").read_text() == text.replace('agent = "executor"', 'agent = ""')


@needs_tmux
async def test_limits_of_cost_are_shown_and_changed(terminal: Terminal, tmp_path: Path) -> None:
    data = tmp_path / "data"
    prepare(data, None, [])
    terminal.start(*init_command(data))
    await terminal.shows("5  limits  $20 a cycle, $100 a conversation and $300 a day", "Change which [none]:")
    await answer(terminal, ("5", "Dollars a cycle [20]:"), ("much", "0 is no limit."), ("2.5", "a conversation [100]:"))
    await answer(terminal, ("", "Dollars a day [300]:"))
    terminal.type("0")
    await terminal.shows("Changed in", "ended 0")
    limits = load(None, data, env={}).limits
    assert (limits.cost_per_cycle_usd, limits.cost_per_conversation_usd, limits.cost_per_day_usd) == (2.5, 100, 0)


@needs_tmux
async def test_the_first_run_asks_once_about_the_limits_of_a_model_that_costs_money(
    terminal: Terminal, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text("sk-of-a-test")
    paid = [
        "--model openai:gpt-5-mini --no-check --software --commit never --api-key-file",
        str(key),
        "--owner",
        ALICE.npub,
    ]
    changed, kept = tmp_path / "changed", tmp_path / "kept"
    question = "Limits: $20 a cycle, $100 a conversation and $300 a day; (c)hange them, or (k)eep them [k]:"
    async with FaultRelay() as relay:
        words = [*paid, "--relay", relay.url]
        terminal.start(*init_command(changed), *words, ";", *init_command(kept), *words)
        await terminal.until(lambda screen: question in " ".join(screen.split()))
        await answer(terminal, ("x", "eep them [k]:"), ("c", "Dollars a cycle [20]:"), ("2.5", "a conversation [100]:"))
        await answer(terminal, ("", "Dollars a day [300]:"), ("0", "at $2.5 a cycle, $100 a conversation"))
        await terminal.until(lambda screen: screen.rstrip().endswith("eep them [k]:"))
        terminal.type("")
        await terminal.shows("ended 0")
    limits = load(None, changed, env={}).limits
    assert (limits.cost_per_cycle_usd, limits.cost_per_conversation_usd, limits.cost_per_day_usd) == (2.5, 100, 0)
    assert tomllib.loads((changed / "tenex.toml").read_text())["limits"] == {
        "cost_per_cycle_usd": 2.5,
        "cost_per_day_usd": 0,
    }
    assert "limits" not in tomllib.loads((kept / "tenex.toml").read_text())
