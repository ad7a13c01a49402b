"""The line at the bottom of the terminal: type at any time, while answers are printed above it.

Never: draw the conversation; `screen` does.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import HTML
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import patch_stdout

QUIT = frozenset({"/quit", "/exit", "/q"})
PASTE = 2_000
"""Characters of a paste that are shown as they are."""
REFRESH = 0.2
"""Seconds between two looks at what is going on: a spinner that turns, and nothing that costs."""


class _Pastes:
    """Long pastes, kept out of the line: the editor draws all of it at every look, and would stand still."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def bindings(self) -> KeyBindings:
        """Put a mark in the place of a long paste."""
        keys = KeyBindings()

        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            event.current_buffer.insert_text(text if len(text) <= PASTE else self.keep(text))

        return keys

    def keep(self, text: str) -> str:
        """The mark of a text."""
        self._texts.append(text)
        return f"[paste {len(self._texts)}: {len(text):,} characters]"

    def put_in(self, line: str) -> str:
        """The line with the texts in the places of their marks."""
        for number, text in enumerate(self._texts, 1):
            line = line.replace(f"[paste {number}: {len(text):,} characters]", text)
        self._texts.clear()
        return line


async def typed(toolbar: Callable[[], str], prompt: str = "you › ") -> AsyncIterator[str]:
    """What the person types, line by line, until /quit, Ctrl-D or Ctrl-C; `toolbar` says what is going on."""
    pastes = _Pastes()
    session: PromptSession[str] = PromptSession(
        bottom_toolbar=lambda: HTML(_escaped(toolbar())), refresh_interval=REFRESH, mouse_support=False,
        key_bindings=pastes.bindings(),
    )  # fmt: skip
    while True:
        try:
            text = pastes.put_in(await session.prompt_async(prompt))
        except (EOFError, KeyboardInterrupt):
            return
        if text.strip().lower() in QUIT:
            return
        if text.strip():
            yield text


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def above() -> AbstractContextManager[None]:
    """Print above the line one types in."""
    return patch_stdout(raw=True)
