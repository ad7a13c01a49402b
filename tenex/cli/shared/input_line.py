"""The input line of the terminal: type at any time, while messages are printed above it.

Enter sends, Alt-Enter begins another line, Tab completes, and the arrow keys and Ctrl-R find what was typed before.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from .console import QUIT

PROMPT = "you › "
LONG_PASTE = 2_000
"""Characters of a paste that are shown as they are."""
REFRESH = 0.2
"""Seconds between two redraws: enough for a spinner, and cheap."""

ESCAPE = 0.1
"""Seconds after which Escape is a key of its own, and not the beginning of Alt and another key."""

Lines = Callable[[int], Sequence[tuple[str, str]]]
"""Gives lines no wider than so many cells, each as a style and a text."""


@dataclass(frozen=True, slots=True)
class Shortcut:
    """Keys that do something at once, while a condition holds."""

    keys: tuple[str, ...]
    """As prompt_toolkit names them; Alt and a letter are `escape` and the letter."""
    do: Callable[[], None]
    when: Callable[[], bool]


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

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

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


def _bind(keys: KeyBindings, shortcut: Shortcut) -> None:
    @keys.add(*shortcut.keys, filter=Condition(shortcut.when))
    def _(_event: KeyPressEvent) -> None:
        shortcut.do()


async def typed_lines(
    toolbar: Callable[[], str],
    lines: Lines,
    *,
    history: History | None = None,
    completer: Completer | None = None,
    shortcuts: Sequence[Shortcut] = (),
) -> AsyncIterator[str]:
    """Yield what the user types, line by line, until /quit, or Ctrl-D or Ctrl-C on an empty line.

    Args:
        toolbar: gives the text of the status bar at the bottom.
        lines: gives the lines above the input line; they are drawn again at each refresh.
        history: keeps what is typed.
        completer: completes words on Tab.
        shortcuts: keys that do something without the line; what is typed there stays.
    """
    pastes = _Pastes()
    keys = pastes.bindings()
    for shortcut in shortcuts:
        _bind(keys, shortcut)

    session: PromptSession[str] = PromptSession(
        bottom_toolbar=lambda: FormattedText([("", toolbar())]),
        refresh_interval=REFRESH,
        mouse_support=False,
        key_bindings=keys,
        history=history,
        completer=completer,
        complete_while_typing=False,  # a menu below the line would move what is printed above it with every letter
        prompt_continuation=" " * len(PROMPT),
    )
    session.app.ttimeoutlen = session.app.timeoutlen = ESCAPE

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
