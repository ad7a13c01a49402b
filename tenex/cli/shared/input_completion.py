"""Completes what is typed in the chat: commands after a slash, agents after `@`, conversations after `/open`."""

from collections.abc import Callable, Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from .chat_places import Named


class InputCompleter(Completer):
    """Completes the word before the cursor."""

    def __init__(
        self, commands: Sequence[Named], agents: Sequence[str], arguments: Callable[[str], Sequence[Named]]
    ) -> None:
        """Complete these.

        Args:
            commands: their names without the slash.
            agents: their slugs.
            arguments: gives what may follow a command of that name.
        """
        self._commands = commands
        self._agents = agents
        self._arguments = arguments

    def get_completions(self, document: Document, _event: CompleteEvent) -> Iterable[Completion]:
        """The completions of the word before the cursor."""
        before = document.text_before_cursor
        word = before.rsplit(maxsplit=1)[-1] if before and not before[-1].isspace() else ""
        if before.startswith("/") and before == word:
            names = [(f"/{name}", about) for name, about in self._commands]
        elif word.startswith("@"):
            names = [(f"@{agent}", "") for agent in self._agents]
        elif before.startswith("/"):
            names = list(self._arguments(before[1:].split(maxsplit=1)[0].lower() if before[1:].strip() else ""))
        else:
            names = []
        for name, about in names:
            if name.lower().startswith(word.lower()):
                yield Completion(name, start_position=-len(word), display_meta=about)
