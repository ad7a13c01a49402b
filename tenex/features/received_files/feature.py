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
    from tenex.core.inbox.received_files import INBOX, PLACE

    def inbox_of(conversation: "ConversationId") -> "Path":
        return app.folder.path(conversation) / INBOX

    def place_of(conversation: "ConversationId") -> "Path":
        is_open = app.current.now.settings.tools.shell.sandbox == "none"  # programs see the disk as it is
        return inbox_of(conversation) if is_open else Path(PLACE)

    def loader() -> "Files":
        import asyncio

        from tenex.configuration.build import shell_policy
        from tenex.configuration.transcription import transcription_of
        from tenex.core.errors import ConfigurationError
        from tenex.core.inbox.received_files import NO_TRANSCRIPTION, NamedFile
        from tenex.core.port_values import UnsignedEvent
        from tenex.nostr.blossom import permission_to_read, store_of
        from tenex.nostr.events import Event
        from tenex.nostr.keys import SecretKey
        from tenex.store.pictures import PICTURES, PictureFolder
        from tenex.tools.sandbox import RunPolicy

        from .loader import FileLoader
        from .transcription import NotTranscribed, transcribe

        async def words_in(file: Path, media_type: str) -> str:
            settings = app.current.now.settings
            try:
                by = await asyncio.to_thread(transcription_of, settings, app.places)
            except ConfigurationError as error:
                raise NotTranscribed(str(error)) from error
            if by is None:
                raise NotTranscribed(NO_TRANSCRIPTION)
            policy = RunPolicy.SANDBOXED if app.static.has_sandbox else shell_policy(settings, has_sandbox=False)
            return await transcribe(file, media_type, by, policy)

        async def permit(file: NamedFile) -> str:
            keys = [app.keys[key] for key in app.rooms.ours_in(file.store, file.room) if key in app.keys]
            keys.sort(key=lambda key: (not isinstance(key, SecretKey), key.public != app.project.public))
            if not keys:
                return ""
            reader = keys[0]

            async def sign(event: UnsignedEvent) -> Event:
                return await app.sign(event, reader)

            now = app.clock.now() // 1000
            return await permission_to_read(store_of(file.store), file.address, reader.public, sign, now)

        pictures = PictureFolder(app.places.data / PICTURES)
        return FileLoader(pictures, inbox_of, place_of, app.disk.change, words_in, permit)

    return Extension(files=loader)


RECEIVED_FILES: Final = Feature(name="received_files", extend=_extend)
