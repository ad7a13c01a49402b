"""What files of messages offer."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tenex.feature import Feature

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.app.extension import Extension
    from tenex.core.ids import ConversationId
    from tenex.core.ports import Files


def _extend(app: "Application") -> "Extension":
    from tenex.app.extension import Extension
    from tenex.core.inbox.sent_files import INBOX, PLACE

    def inbox_of(conversation: "ConversationId") -> "Path":
        return app.folder.path(conversation) / INBOX

    def place_of(conversation: "ConversationId") -> "Path":
        is_open = app.current.now.settings.tools.shell.sandbox == "none"  # programs see the disk as it is
        return inbox_of(conversation) if is_open else Path(PLACE)

    def loader() -> "Files":
        from tenex.store.pictures import PICTURES, PictureFolder

        from .loader import FileLoader

        pictures = PictureFolder(app.places.data / PICTURES)
        return FileLoader(pictures, inbox_of, place_of, app.disk.change)

    return Extension(files=loader)


RECEIVED_FILES: Final = Feature(name="received_files", extend=_extend)
