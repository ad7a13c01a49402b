"""The input line of the terminal: type at any time, while messages are printed above it."""

from collections.abc import AsyncIterator, Callable, Sequence

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

QUIT = frozenset({"/quit", "/exit", "/q"})
PROMPT = "you › "
LONG_PASTE = 2_000
"""Characters of a paste that are shown as they are."""
REFRESH = 0.2
"""Seconds between two redraws: enough for a spinner, and cheap."""

Lines = Callable[[int], Sequence[tuple[str, str]]]
"""Gives lines no wider than so many cells, each as a style and a text."""


class _Pastes:
    """Long pastes, replaced by a mark in the line: the editor redraws the whole line each time and would hang."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def bindings(self) -> KeyBindings:
        """Insert a mark for a long paste; Ctrl-C clears the line, or leaves where it is empty."""
        keys = KeyBindings()

        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            event.current_buffer.insert_text(text if len(text) <= LONG_PASTE else self.mark(text))

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.reset()
                self._texts.clear()
            else:
                event.app.exit(exception=KeyboardInterrupt)

        return keys

    def mark(self, text: str) -> str:
        """Store a text and give its mark."""
        self._texts.append(text)
        return f"[paste {len(self._texts)}: {len(text):,} characters]"

    def expand(self, line: str) -> str:
        """The line with the texts in place of their marks."""
        for number, text in enumerate(self._texts, 1):
            line = line.replace(f"[paste {number}: {len(text):,} characters]", text)
        self._texts.clear()
        return line


async def typed_lines(toolbar: Callable[[], str], lines: Lines) -> AsyncIterator[str]:
    """Yield what the user types, line by line, until /quit, or Ctrl-D or Ctrl-C on an empty line.

    Args:
        toolbar: gives the text of the status bar at the bottom.
        lines: gives the lines above the input line; they are drawn again at each refresh.
    """
    pastes = _Pastes()
    session: PromptSession[str] = PromptSession(
        bottom_toolbar=lambda: FormattedText([("", toolbar())]),
        refresh_interval=REFRESH,
        mouse_support=False,
        key_bindings=pastes.bindings(),
    )

    def message() -> FormattedText:
        app = get_app()
        above = () if app.is_done else lines(app.output.get_size().columns)  # only the input stays on the screen
        return FormattedText([*((style, f"{line}\n") for style, line in above), ("", PROMPT)])

    while True:
        try:
            text = pastes.expand(await session.prompt_async(message))
        except (EOFError, KeyboardInterrupt):
            return
        if text.strip().lower() in QUIT:
            return
        if text.strip():
            yield text
