"""The line at the bottom of the terminal: type at any time, while answers are printed above it.

Never: draw the conversation; `screen` does.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager, nullcontext

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import HTML
from prompt_toolkit.patch_stdout import patch_stdout

QUIT = frozenset({"/quit", "/exit", "/q"})
REFRESH = 0.2
"""Seconds between two looks at what is going on: a spinner that turns, and nothing that costs."""


async def typed(toolbar: Callable[[], str], prompt: str = "you › ") -> AsyncIterator[str]:
    """What the person types, line by line, until /quit, Ctrl-D or Ctrl-C; `toolbar` says what is going on."""
    session: PromptSession[str] = PromptSession(
        bottom_toolbar=lambda: HTML(_escaped(toolbar())), refresh_interval=REFRESH, mouse_support=False
    )
    while True:
        try:
            text = await session.prompt_async(prompt)
        except (EOFError, KeyboardInterrupt):
            return
        if text.strip().lower() in QUIT:
            return
        if text.strip():
            yield text


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@contextmanager
def above(active: bool = True):  # type: ignore[no-untyped-def]
    """Print above the line one types in."""
    with patch_stdout(raw=True) if active else nullcontext():
        yield
