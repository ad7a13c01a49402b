"""`tenex address` and the end of `tenex init`: the project's address, and a QR code that says the same."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import nostr_sdk as sdk
import pytest
import segno

from tenex.cli.shared.qr_code import code_lines, project_uri, reachable_relays
from tenex.nostr.keys import KeyRing, SecretKey
from tests.kits.commands import Tenex, command
from tests.kits.terminal import Terminal
from tests.programs import needs_tmux

RELAYS = ["wss://relay.one.example", "wss://relay.two.example"]
PROJECT = SecretKey(bytes([31]) * 32)


def test_the_address_names_the_key_and_the_relays_a_phone_can_reach(tenex: Tenex, tmp_path: Path) -> None:
    tenex(f"init --relay ws://127.0.0.1:7447 --relay {RELAYS[0]} --relay wss://paid.example/?token=secret")
    key = KeyRing(tmp_path / "data" / "keys").get("project")
    out, err = tenex("address")
    npub, uri = out.split()
    assert (npub, err) == (key.npub, "")
    profile = sdk.Nip19Profile.from_nostr_uri(uri)
    assert profile.public_key().to_bech32() == key.npub
    assert [str(relay).rstrip("/") for relay in profile.relays()] == RELAYS[:1]
    printed = json.loads(tenex("address --json").out)
    assert printed == {"npub": key.npub, "uri": uri, "relays": RELAYS[:1]}


def test_a_phone_is_not_sent_to_this_machine(tenex: Tenex) -> None:
    tenex("init")
    assert "A phone cannot reach ws://127.0.0.1:7447" in tenex("address").err
    assert reachable_relays(["ws://localhost:1", "ws://192.168.1.2:7447", *RELAYS, "wss://c.example"]) == [
        "ws://192.168.1.2:7447",
        *RELAYS,
    ]


def modules_of(lines: list[str]) -> list[list[int]]:
    """The modules that half blocks show, dark as 1."""
    halves = {" ": (0, 0), "▀": (1, 0), "▄": (0, 1), "█": (1, 1)}
    rows = []
    for line in lines:
        cells = [halves[cell] for cell in line]
        rows += [[upper for upper, _ in cells], [lower for _, lower in cells]]
    return rows


def test_half_blocks_show_the_whole_code_with_its_border() -> None:
    uri = project_uri(PROJECT.public, RELAYS)
    lines = list(code_lines(uri))
    code = [list(row) for row in segno.make_qr(uri, error="L").matrix]
    rows = modules_of(lines)
    assert [row[2:-2] for row in rows[2 : 2 + len(code)]] == code
    outside = [*rows[:2], *rows[2 + len(code) :], *(row[:2] + row[-2:] for row in rows)]
    assert not any(any(row) for row in outside)
    assert len(lines) <= 28, "it fits a terminal of 30 lines"
    assert len(lines[0]) <= 60


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal without anything in it."""
    it = Terminal(tmp_path)
    try:
        yield it
    finally:
        it.close()


@needs_tmux
async def test_a_terminal_shows_the_code_in_black_on_white_whatever_its_colours(
    tenex: Tenex, tmp_path: Path, terminal: Terminal
) -> None:
    tenex(f"init --relay {RELAYS[0]} --relay {RELAYS[1]}")
    uri = tenex("address").out.split()[1]
    terminal.start(*command(), "address", "--data", str(tmp_path / "data"))
    await terminal.shows("ended 0")
    styled = terminal._tmux("capture-pane", "-p", "-e", "-t", "it", "-S", "-")
    assert "38;5;16" in styled
    assert "48;5;231" in styled
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in styled.splitlines()]
    wanted = [line.rstrip() for line in code_lines(uri)]
    first = plain.index(wanted[1]) - 1
    assert plain[first : first + len(wanted)] == wanted


@needs_tmux
async def test_a_terminal_that_is_too_narrow_gets_the_text(tenex: Tenex, tmp_path: Path, terminal: Terminal) -> None:
    tenex(f"init --relay {RELAYS[0]}")
    line = " ".join([*command(), "address", "--data", str(tmp_path / "data")])
    terminal.start("stty", "cols", "40;", line)
    screen = await terminal.shows("nostr:nprofile1", "ended 0")
    assert "▀" not in screen
