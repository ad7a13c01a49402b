"""`/show FILE`: reads a file of the workspace for a user, or lists a folder; and what uploads files in a daemon."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tenex.core.effects import Show
from tenex.core.errors import FileNotSent
from tenex.core.ids import ConversationId
from tenex.core.port_values import AttachedFile, FileDestination, ShowOutcome
from tenex.core.ports import FileSender
from tenex.core.text.foreign import printable, well_formed
from tenex.tools.inbox import Inboxes
from tenex.tools.sent_files import FileForPerson, SentFiles
from tenex.tools.tool import Refusal
from tenex.tools.workspace import HALF_WRITTEN, Workspace

MOST_TEXT: Final = 16_000
"""Bytes of a file that is sent as text; a longer one is sent as a file."""
MOST_LISTED: Final = 60
"""Lines of a list: more than a phone shows."""


class LateFileSender:
    """`FileSender` of a feature, which is made when a file is sent first: the relays are there by then."""

    def __init__(self) -> None:
        self.make: Callable[[], FileSender] | None = None
        self._made: FileSender | None = None

    async def send(
        self, data: bytes, *, name: str, media_type: str, unique: str, destination: FileDestination
    ) -> AttachedFile:
        """Upload a file; as the port has it."""
        if self.make is None:
            raise FileNotSent("this program is without the feature `file_uploads`")
        if self._made is None:
            self._made = self.make()
        return await self._made.send(data, name=name, media_type=media_type, unique=unique, destination=destination)


class ShownFiles:
    """Carries out `Show`."""

    def __init__(self, workspace: Workspace, inboxes: Inboxes, files: Callable[[], SentFiles]) -> None:
        """Take the workspace, what people have sent, and what sends files as it is configured now."""
        self._workspace = workspace
        self._inboxes = inboxes
        self._files = files

    async def show(self, effect: Show) -> ShowOutcome:
        """What a user is sent: the text, a list, the file, or why there is none."""
        files = self._files()
        try:
            found = await asyncio.to_thread(self._looked_up, files, effect.conversation, effect.path)
        except Refusal as fault:
            return ShowOutcome(text=_for_person(str(fault)))
        if isinstance(found, str):
            return ShowOutcome(text=found)

        text = found.text
        if text is not None and len(found.data) <= MOST_TEXT:
            return ShowOutcome(text=f"{found.path}:\n\n{text.rstrip()}" if text.strip() else f"{found.path} is empty.")
        unique = f"{effect.conversation}:{effect.key.seq}"
        attached, _ = await files.attached(
            found, caption="", unique=unique, destination=effect.destination, conversation=effect.conversation
        )
        is_event_of_its_own = bool(attached.key)  # which has the name: words would be a second message
        text = f"{found.path} ({found.size})" if attached.url and not is_event_of_its_own else ""
        return ShowOutcome(text=text, files=(attached,))

    def _looked_up(self, files: SentFiles, conversation: ConversationId, path: str) -> FileForPerson | str:
        """A file, or what is in a folder."""
        workspace = self._inboxes.workspace(conversation, path) or self._workspace
        real = workspace.resolve(path)
        if real.is_dir():
            return _listed(real, workspace.shown(real))
        return files.read(workspace, real, workspace.relative(workspace.entry(path)))


def _listed(folder: Path, shown: str) -> str:
    """The names in a folder; those of folders end with a slash."""
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: (not entry.is_dir(), entry.name))
    except OSError as fault:
        return f"{shown} cannot be read: {fault.strerror}."
    names = [
        f"{_on_one_line(entry.name)}/" if entry.is_dir() else _on_one_line(entry.name)
        for entry in entries
        if entry.name != ".git" and not entry.name.startswith(HALF_WRITTEN)
    ]
    place = "the workspace" if shown == "." else f"{shown}/"
    if not names:
        return f"There is nothing in {place}."
    more = [f"and {len(names) - MOST_LISTED} more"] if len(names) > MOST_LISTED else []
    return "\n".join([f"In {place}:", *names[:MOST_LISTED], *more])


def _on_one_line(name: str) -> str:
    """A name of a file, which may hold any bytes, as it is listed."""
    return printable(well_formed(name)).replace("\n", "\\n")


def _for_person(refusal: str) -> str:
    """A refusal, which is written for a model, as a person reads it."""
    return refusal.replace("`list_files` shows what there is", "`/show` shows what there is")
