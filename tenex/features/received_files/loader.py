"""Loads the files that messages name: bounded in number, size and time, and never from private addresses."""

import asyncio
import mimetypes
from collections.abc import Awaitable, Callable, Sequence
from email.message import Message
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import httpx2

from tenex.core.ids import ConversationId
from tenex.core.inbox.images import is_address
from tenex.core.inbox.received_files import NamedFile, ReceivedFile
from tenex.core.text.amounts import byte_size
from tenex.core.text.foreign import plain
from tenex.core.values import replace
from tenex.log import get_logger
from tenex.nostr.addresses import PrivateAddress
from tenex.nostr.blossom import asked_there
from tenex.nostr.public_web import asked, body_of
from tenex.nostr.threading.base import is_hex64, media_type_of
from tenex.store.conversation_files import ConversationFiles, FilesFull, safe_name
from tenex.store.pictures import MOST_BYTES, PictureFolder, media_type

from .transcription import TIMEOUT as VOICE_TIMEOUT
from .transcription import NotTranscribed

log = get_logger(__name__)

TIMEOUT: Final = 5.0
"""Seconds for a picture: its message waits for it, and what comes after that in the conversation."""
FILE_TIMEOUT: Final = 20.0
"""Seconds for any other file, likewise."""
MOST_FILE_BYTES: Final = 20_000_000
"""Of one file: a scan of many pages, or half an hour of speech."""
AT_ONCE: Final = 4
"""Files of all messages that are loaded at the same time."""
VOICES_AT_ONCE: Final = 2
"""Voice notes of all messages that are transcribed at the same time."""

UNKNOWN: Final = "application/octet-stream"

_WEB_PAGES: Final = ("text/html", "application/xhtml+xml")
_PAGE_BEGINS: Final = (b"<!doctype html", b"<html")
_ANY: Final = "image/png,image/jpeg,image/webp,image/gif,*/*;q=0.5"

Change = Callable[..., Awaitable[Any]]
"""Does blocking work that writes into the data folder."""


Transcribe = Callable[[Path, str], Awaitable[str]]
"""Says what is said in a file of a type; raises `NotTranscribed`."""


Permit = Callable[[NamedFile], Awaitable[str]]
"""The `Authorization` for a file in the store of a relay, by a key of ours that is in its room; "" where none is."""


class _WebPage(Exception):
    """A link leads to a page of the web."""


class FileLoader:
    """`Files` over the web."""

    def __init__(
        self,
        pictures: PictureFolder,
        inbox_of: Callable[[ConversationId], Path],
        place_of: Callable[[ConversationId], Path],
        change: Change,
        transcribe: Transcribe,
        permit: Permit,
    ) -> None:
        """Prepare.

        Args:
            pictures: where models find the pictures.
            inbox_of: the folder of a conversation's received files.
            place_of: where its agents find that folder.
            change: does work that writes into the data folder.
            transcribe: says what is said in a file.
            permit: lets us read files in the stores of relays.
        """
        self._transcribe = transcribe
        self._permit = permit
        self._pictures = pictures
        self._inbox_of = inbox_of
        self._place_of = place_of
        self._change = change
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._voices = asyncio.Semaphore(VOICES_AT_ONCE)

    async def load(self, files: Sequence[NamedFile], conversation: ConversationId) -> tuple[ReceivedFile, ...]:
        """Load them; see `core.ports.Files`."""
        received = await asyncio.gather(*(self._load(file, conversation) for file in files))
        return tuple(file for file in received if file is not None)

    async def _load(self, file: NamedFile, conversation: ConversationId) -> ReceivedFile | None:
        host = "its host"
        seconds = TIMEOUT if file.is_picture else FILE_TIMEOUT
        try:
            host = urlsplit(file.address).hostname or host
            async with asyncio.timeout(seconds), self._turns:
                received = await self._kept(file, conversation, host)
            return await self._with_transcript(received, conversation)
        except TimeoutError:
            fault = f"{host} has not given it within {seconds:g} s"
        except PrivateAddress:
            fault = f"{host} is not at a public address"
        except _WebPage:
            if not file.is_declared and not file.is_picture:
                return None
            fault = f"{host} gives a page of the web (HTML) in its place"
        except (ValueError, FilesFull) as error:
            fault = str(error)
        except OSError as error:
            log.warning("file.not_loaded", host=plain(host), reason=str(error))
            fault = f"{host} does not answer, or it cannot be kept ({error.strerror or type(error).__name__})"
        except Exception as error:  # noqa: BLE001  anyone writes addresses, and the message is needed without files
            log.info("file.not_loaded", host=plain(host), fault=type(error).__name__)
            fault = f"{host} does not answer, or it cannot be kept"
        return ReceivedFile(address=file.address, name=file.name, media_type=file.media_type, fault=fault)

    async def _kept(self, file: NamedFile, conversation: ConversationId, host: str) -> ReceivedFile:
        """Fetch a file, check it and keep it.

        Raises:
            ValueError, _WebPage: why it is none.
            FilesFull, OSError: it cannot be kept.
        """
        permission = await self._permit(file) if file.store else ""
        if not permission and not file.address.lower().startswith("https://"):
            raise ValueError("only https addresses are read")
        is_open = file.encryption is None and not permission  # else its server or its sender says who reads it
        there = await asyncio.to_thread(self._pictures.read, file.address) if is_open else None
        if there is not None and (not file.digest or sha256(there.data).hexdigest() == file.digest):
            data, kind, called = there.data, "", ""
        else:
            data, kind, called = await _fetched(file, host, permission)
        shown = media_type(data)
        if file.is_picture and not shown and not file.is_declared:
            raise ValueError("it is no PNG, JPEG, GIF or WebP")

        said = file.name or called or _last_part(file.address)
        kind = shown or file.media_type or kind or mimetypes.guess_type(said)[0] or UNKNOWN
        name = safe_name(said, kind)
        inbox = ConversationFiles(self._inbox_of(conversation))
        name = await self._change(inbox.add, name, data)
        address = file.address
        if not is_open:  # anybody may know that address, and name it elsewhere to be shown the picture
            address = f"{address}#{sha256(data).hexdigest()}"
        received = ReceivedFile(
            address=address,
            name=name,
            path=str(self._place_of(conversation) / name),
            media_type=kind,
            size=len(data),
        )
        if not received.is_picture:
            return received
        if not shown:
            return replace(received, unseen="models are shown PNG, JPEG, GIF and WebP")
        if len(data) > MOST_BYTES:
            return replace(received, unseen=f"models are shown pictures of at most {byte_size(MOST_BYTES)}")
        if not is_address(address):
            return replace(received, unseen="models are shown pictures at https addresses")
        await self._change(self._pictures.write, address, data)
        return received

    async def _with_transcript(self, received: ReceivedFile, conversation: ConversationId) -> ReceivedFile:
        """The file with what is said in it, where it is sound."""
        if not received.media_type.startswith("audio/"):
            return received
        try:
            async with asyncio.timeout(VOICE_TIMEOUT), self._voices:
                text = await self._transcribe(self._inbox_of(conversation) / received.name, received.media_type)
        except NotTranscribed as error:
            return replace(received, untranscribed=str(error))
        except TimeoutError:
            return replace(received, untranscribed=f"that took more than {VOICE_TIMEOUT:g} s")
        except Exception as error:  # noqa: BLE001  servers and programs of others fail in any way
            log.warning("voice.not_transcribed", fault=type(error).__name__)
            return replace(received, untranscribed="its program or server failed")
        return replace(received, transcript=text)


async def _fetched(file: NamedFile, host: str, permission: str) -> tuple[bytes, str, str]:
    """The bytes of a file, and its type and name as its server has them; "" where it has none.

    With a permission the relay of its room is asked for it, at any address; it may not send us elsewhere either.

    Raises:
        ValueError, _WebPage: why it is none.
    """
    too_large = f"it has more than {byte_size(MOST_FILE_BYTES)}"
    if permission:
        answer = asked_there(file.address, "GET", {"Accept": _ANY, "Authorization": permission})
    else:
        answer = asked(file.address, _ANY)
    async with answer as response:
        if response.status_code != httpx2.codes.OK:
            raise ValueError(f"{host} answers HTTP {response.status_code}")
        kind = media_type_of(response.headers.get("Content-Type", ""))
        declared_length = response.headers.get("Content-Length", "")
        if declared_length.isdecimal() and int(declared_length[:20]) > MOST_FILE_BYTES:
            raise ValueError(too_large)
        called = _name_in(response.headers.get("Content-Disposition", ""))
        data = await body_of(response, MOST_FILE_BYTES)
    if data is None:
        raise ValueError(too_large)
    if file.digest and sha256(data).hexdigest() != file.digest:
        raise ValueError(f"{host} gives another file than was sent (its SHA-256 differs)")

    if file.encryption is not None:
        return _decrypted(data, file), "", ""
    is_page = kind in _WEB_PAGES or data[:200].lstrip().lower().startswith(_PAGE_BEGINS)
    if is_page and file.media_type not in _WEB_PAGES:
        raise _WebPage
    return data, "" if kind == UNKNOWN else kind, called


def _decrypted(data: bytes, file: NamedFile) -> bytes:
    """The bytes of an encrypted file.

    Raises:
        ValueError: it cannot be decrypted, or holds something else than its sender says.
    """
    from tenex.nostr.encrypted_file import ALGORITHM, decrypt  # where nobody sends files, nothing of it is loaded

    encryption = file.encryption
    assert encryption is not None
    if encryption.algorithm.lower() != ALGORITHM:
        raise ValueError(f"it is encrypted by “{plain(encryption.algorithm[:20])}”; {ALGORITHM} is read")
    opened = decrypt(data, encryption.key, encryption.nonce)
    if encryption.digest and sha256(opened).hexdigest() != encryption.digest:
        raise ValueError("it is another file than was sent (its SHA-256 differs)")
    return opened


def _name_in(disposition: str) -> str:
    """The name in a Content-Disposition (RFC 6266); "" for none."""
    header = Message()
    header["Content-Disposition"] = disposition[:1_000].replace("\r", " ").replace("\n", " ")
    return (header.get_filename() or "") if disposition else ""


def _last_part(address: str) -> str:
    """The last part of an address as a name; a digest, as servers of media call files, is none, but for its ending."""
    name = unquote(urlsplit(address).path).rpartition("/")[2]
    stem, dot, ending = name.partition(".")
    return f"file{dot}{ending}" if is_hex64(stem) and dot else "" if is_hex64(stem) else name
