"""The demo in a real terminal, under tmux: what a person sees while they type."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .kit import ROOT, environment
from .person import until

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux here to be the terminal")

WIDE, HIGH = 110, 45
REQUEST = "Create hello.py that prints hello"


class Terminal:
    """A tmux of our own, with one window."""

    def __init__(self, folder: Path) -> None:
        # the path of a socket may have 107 characters, and pytest's folders are longer than that
        self._socket = f"/tmp/tenex-{os.getpid()}-{abs(hash(folder)) % 10_000}"
        self._environment = environment(TERM="xterm-256color")

    def start(self, *words: str) -> None:
        """Open the window on a command; it stays when the command ends."""
        session = ("-f", "/dev/null", "new-session", "-d", "-s", "it", "-x", str(WIDE), "-y", str(HIGH))
        self._tmux(*session, "sh", "-c", f"{' '.join(words)}; echo ended $?; cat")

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-t", "it", "-l", text)
        self._tmux("send-keys", "-t", "it", "Enter")

    def press(self, key: str) -> None:
        self._tmux("send-keys", "-t", "it", key)

    def screen(self, *, history: bool = True) -> str:
        """What is to be read, from the first line that scrolled away to the last."""
        return self._tmux("capture-pane", "-p", "-t", "it", *(["-S", "-"] if history else []))

    async def until(self, holds: Callable[[str], bool]) -> str:
        def held() -> str | None:
            screen = self.screen()
            return screen if holds(screen) else None

        try:
            screen: str = await until(held)
        except TimeoutError:
            raise AssertionError(f"the screen shows:\n{self.screen()}") from None
        return screen

    async def shows(self, *words: str) -> str:
        """Wait until all of these are on the screen."""
        return await self.until(lambda screen: all(word in screen for word in words))

    def close(self) -> None:
        """End the window, and with it the command."""
        subprocess.run(
            ["tmux", "-S", self._socket, "kill-server"], env=self._environment, capture_output=True, check=False
        )
        Path(self._socket).unlink(missing_ok=True)

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words],
            env=self._environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    it = Terminal(tmp_path)
    try:
        yield it
    finally:
        it.close()


def demo(data: Path) -> list[str]:
    return [sys.executable, "-m", "tenex.cli.main", "demo", "--data", str(data)]


async def test_a_person_watches_writes_in_between_and_leaves(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start(*demo(tmp_path))
    await terminal.shows("relay ws://127.0.0.1:", "Try: ", "you ›")
    terminal.type(REQUEST)
    await terminal.shows("chat → execute")
    terminal.type("also create bye.py that prints bye")
    screen = await terminal.shows(
        "execute → verification",
        "verification → chores",
        "chores → reflection",
        "write_file(path=hello.py",
        "Executor",
        "END",
    )
    places = [screen.index(word) for word in ("chat → execute", "execute → verification", "chores → reflection", "END")]
    assert places == sorted(places)
    await terminal.until(lambda screen: "this cycle has ended" in screen)
    for name in ("hello", "bye"):
        await until((tmp_path / "workspace" / f"{name}.py").exists)
    terminal.type("Create a script that prints hello; ask me which name it should have")
    await terminal.shows("waits for your answer")
    terminal.type("greeter.py")
    await terminal.shows("answered", "write_file(path=greeter.py")
    terminal.type("/quit")
    screen = await terminal.shows("ended 0")
    (file,) = (tmp_path / "conversations").glob("*/conversation.json")
    assert file.parent.name in screen.replace("\n", "")
    assert "Traceback" not in screen


async def test_ctrl_c_leaves_and_stops_everything(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start(*demo(tmp_path))
    await terminal.shows("you ›")
    terminal.type(REQUEST)
    await terminal.shows("chat → execute")
    terminal.press("C-c")
    screen = await terminal.shows("ended ")
    assert "ended 0" in screen
    assert "Traceback" not in screen
    (state,) = (tmp_path / "conversations").glob("*/conversation.json")
    assert json.loads(state.read_text())["status"] == "active"


async def test_hostile_words_do_not_steer_the_terminal(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start(*demo(tmp_path), "--message", "'Create a.txt with \x1b]0;owned\x07\x1b[2Jhello'")
    screen = await terminal.shows("ended ")
    assert "chat → execute" in screen or "It waits for a user" in screen
    assert "owned" not in terminal._tmux("display-message", "-p", "-t", "it", "#{pane_title}")
