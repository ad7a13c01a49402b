"""A terminal in which a command runs."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.service.kit import ROOT, environment
from tests.service.person import until

WIDE, HIGH = 110, 45


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
        whole = ["tmux", "-S", self._socket, "kill-server"]
        subprocess.run(whole, env=self._environment, capture_output=True, check=False)
        Path(self._socket).unlink(missing_ok=True)

    def _tmux(self, *words: str) -> str:
        whole = ["tmux", "-S", self._socket, *words]
        env = self._environment
        done = subprocess.run(whole, env=env, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
