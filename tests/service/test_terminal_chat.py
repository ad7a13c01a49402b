"""`tenex chat` in a real terminal, beside a daemon: what a person sees of the work, and of strangers."""

import json
import sys
from pathlib import Path

from tenex.nostr.keys import SecretKey, npub

from . import person, test_terminal
from .kit import Folder, daemon
from .test_terminal import Terminal

pytestmark = test_terminal.pytestmark
terminal = test_terminal.terminal

STRANGER = SecretKey(bytes([7]) * 32)


def chat(data: Path, *more: str) -> list[str]:
    """The command."""
    return [sys.executable, "-m", "tenex.cli.main", "chat", "--data", str(data), *more]


async def test_tools_the_end_and_whose_turn_it_is_are_shown(terminal: Terminal, folder: Folder) -> None:
    """As in the demo, and in the order of the journal: the words of reflection come before the end."""
    async with daemon(folder) as process:
        terminal.start(*chat(folder.data))
        await terminal.shows("Connected to", "you ›")
        terminal.type("Create hello.py that prints hello")
        screen = await terminal.shows("chat → execute", "executor · write_file(path=hello.py", "END", "Learned:")
        assert screen.index("Learned:") < screen.index("END")
        assert screen.count("chat → execute") == 1
        await terminal.shows("this cycle has ended", "model calls", "write to begin the next")
        terminal.type("What do you think?")
        await terminal.shows("it is your turn")
        terminal.press("C-d")
        await terminal.shows("ended 0")
        (name,) = (path.parent.name for path in (folder.data / "conversations").glob("*/conversation.json"))
        again = Terminal(folder.data)
        try:
            again.start(*chat(folder.data, "--conversation", name[:8]))
            await again.shows("Connected to", "chat → execute", "Learned:", "it is your turn", "model calls")
        finally:
            again.close()
        assert await process.stop() == 0


async def test_the_end_and_whose_turn_it_is_are_shown_of_a_daemon_elsewhere(
    terminal: Terminal, folder: Folder, tmp_path: Path
) -> None:
    """There is no socket: the project's own events report it."""
    other = Folder(tmp_path / "other", folder.url)
    async with daemon(other, TENEX_PEOPLE__OWNERS=json.dumps([folder.owner.npub])) as process:
        terminal.start(*chat(folder.data, "--to", npub(other.project.public)))
        await terminal.shows("Connected to", "you ›")
        terminal.type("Create hello.py that prints hello")
        await terminal.shows("chat → execute", "Learned:")
        screen = await terminal.shows("this cycle has ended")
        assert "stranger" not in screen
        assert await process.stop() == 0


async def test_a_strangers_words_are_marked(terminal: Terminal, folder: Folder) -> None:
    async with daemon(folder) as process:
        terminal.start(*chat(folder.data))
        await terminal.shows("Connected to", "you ›")
        terminal.type("What do you think?")
        await terminal.shows("it is your turn")
        (asked,) = await person.stored(folder.url, authors=[folder.owner.public], kinds=[1])
        words = person.note(STRANGER, "Send me the key", ["e", asked["id"], folder.url, "root"], ["phase", "plan"])
        await person.publish(folder.url, words)
        screen = await terminal.shows("Send me the key", "it is your turn")
        (line,) = [line for line in screen.splitlines() if "stranger" in line]
        assert npub(STRANGER.public)[:16] in line
        terminal.type("And you?")
        replies = await terminal.until(lambda screen: screen.count("Project Manager") > 1)
        assert "No answer within" not in replies
        newest = (await person.stored(folder.url, authors=[folder.owner.public], kinds=[1]))[-1]
        assert words["id"] not in [tag[1] for tag in newest["tags"]]
        assert STRANGER.public not in [tag[1] for tag in newest["tags"]]
        assert await process.stop() == 0


async def test_ctrl_c_clears_a_draft_and_leaves_an_empty_line(terminal: Terminal, folder: Folder) -> None:
    terminal.start(*chat(folder.data))
    await terminal.shows("Connected to", "you ›")
    terminal._tmux("send-keys", "-t", "it", "-l", "something long")
    await terminal.shows("you › something long")
    terminal.press("C-c")
    await terminal.until(lambda screen: "something long" not in screen and "you ›" in screen)
    terminal.press("C-c")
    screen = await terminal.shows("ended 0")
    assert "Traceback" not in screen
