"""The line at the bottom of the terminal: type at any time, while answers are printed above it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.formatted_text import HTML, FormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import patch_stdout

QUIT = frozenset({"/quit", "/exit", "/q"})
PASTE = 2_000
"""Characters of a paste that are shown as they are."""
LIVE = "italic fg:ansibrightblack"
"""What is being written is not said yet: it stands back behind what is."""
REFRESH = 0.2
"""Seconds between two looks at what is going on: a spinner that turns, and nothing that costs."""


Lines = Callable[[int], Sequence[str | tuple[str, str]]]
"""Gives lines no wider than so many cells: a text, or a style and a text."""


class _Pastes:
    """Long pastes, kept out of the line: the editor draws all of it at every look, and would stand still."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def bindings(self) -> KeyBindings:
        """Put a mark in the place of a long paste; clear the line on Ctrl-C, or leave where it is empty."""
        keys = KeyBindings()

        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            event.current_buffer.insert_text(text if len(text) <= PASTE else self.keep(text))

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.reset()
                self._texts.clear()
            else:
                event.app.exit(exception=KeyboardInterrupt)

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


async def typed(toolbar: Callable[[], str], live: Lines = lambda _: (), prompt: str = "you › ") -> AsyncIterator[str]:
    """What the person types, line by line, until /quit, or Ctrl-D or Ctrl-C on an empty line.

    Args:
        toolbar: says what is going on, in the line at the bottom.
        live: gives the lines above the one that is typed in, each no wider than it is told; they come and go.
        prompt: stands before what is typed.
    """
    pastes = _Pastes()
    session: PromptSession[str] = PromptSession(
        bottom_toolbar=lambda: HTML(_escaped(toolbar())),
        refresh_interval=REFRESH,
        mouse_support=False,
        key_bindings=pastes.bindings(),
    )
    while True:
        try:
            text = pastes.put_in(await session.prompt_async(lambda: _message(live, prompt)))
        except (EOFError, KeyboardInterrupt):
            return
        if text.strip().lower() in QUIT:
            return
        if text.strip():
            yield text


def _message(live: Lines, prompt: str) -> FormattedText:
    app = get_app()
    lines = () if app.is_done else live(app.output.get_size().columns)  # what is typed stays on the screen, they do not
    styled = [(LIVE, line) if isinstance(line, str) else line for line in lines]
    return FormattedText([*((style, f"{line}\n") for style, line in styled), ("", prompt)])


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def above() -> AbstractContextManager[None]:
    """Print above the line one types in."""
    return patch_stdout(raw=True)
