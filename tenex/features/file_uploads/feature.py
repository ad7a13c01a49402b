"""What uploads of files offer."""

from typing import TYPE_CHECKING, Final

from tenex.feature import Feature

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.app.extension import Extension
    from tenex.core.ports import FileSender


def _extend(app: "Application") -> "Extension":
    from tenex.app.extension import Extension

    def sender() -> "FileSender":
        from .sender import BlossomSender

        return BlossomSender(
            servers=lambda: app.current.now.settings.files.servers,
            pool=app.pool,
            keys=app.keys,
            project=lambda: app.project,
            sign=app.sign,
            clock=app.clock,
        )

    return Extension(file_sender=sender)


FILE_UPLOADS: Final = Feature(name="file_uploads", settings=("files",), extend=_extend)
