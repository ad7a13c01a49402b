"""The inbox of a conversation, as tools and programs of its agents have it: files that people sent, only to be read."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tenex.core.ids import ConversationId
from tenex.core.inbox.received_files import INBOX, PLACE

from .tool import Refusal
from .workspace import Workspace


class _InboxWorkspace(Workspace):
    """An inbox in the place of a workspace; tools that write get none."""

    def __init__(self, root: Path, place: Path) -> None:
        """Take the folder, and the path by which a model names it."""
        super().__init__(root)
        self._given = place

    def shown(self, real: Path) -> str:
        """The path as it is shown and recorded: that of no file of the workspace."""
        return str(self._given / self.relative(real))


@dataclass(frozen=True, slots=True)
class Inboxes:
    """The inboxes of all conversations; none where no conversations are stored, as in a preview."""

    conversations: Path | None = None

    def of(self, conversation: ConversationId) -> Path | None:
        """The folder of a conversation's received files; None where nobody has sent one."""
        if self.conversations is None:
            return None
        folder = self.conversations / conversation / INBOX
        return folder if folder.is_dir() else None

    def workspace(self, conversation: ConversationId, path: str) -> Workspace | None:
        """The inbox that a path leads to, for tools that read; None for any other path.

        Where programs run without a sandbox, a model names the folder as it is on disk.

        Raises:
            Refusal: nobody has sent a file.
        """
        folder = self.of(conversation)
        places = [Path(PLACE)] if folder is None else [Path(PLACE), folder]
        place = next((place for place in places if PurePosixPath(path).is_relative_to(place)), None)
        if place is None:
            return None
        if folder is None:
            raise Refusal(f"{PLACE} is empty: no file was sent in this conversation.")
        return _InboxWorkspace(folder, place)
