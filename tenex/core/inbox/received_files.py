"""Files that come with what people write: how a message names them, what became of each, and how agents are informed.

A message names a file by an https address: as a client declares it (NIP-92, kind 15 of NIP-17), or by its ending. It is
loaded before the message is decided on, and kept in the inbox of the conversation. Agents read its name in the context
of the message, or why it was not loaded.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tenex.core.text.amounts import byte_size

from .images import addresses_in, is_picture_address

MOST: Final = 8
"""Files of one message that are loaded."""
INBOX: Final = "inbox"
"""The folder of received files, in the folder of their conversation."""
PLACE: Final = "/inbox"
"""Where tools and programs of agents find that folder."""
NO_TRANSCRIPTION: Final = "nothing is set that transcribes (models.transcription)"
"""Why a voice note is not transcribed where no operator wants it."""
LONGEST_ADDRESS: Final = 300
"""Characters of an address as agents are shown it."""

_ENDINGS: Final = (
    *("pdf", "txt", "md", "rtf", "docx?", "xlsx?", "pptx?", "odt", "ods", "odp", "epub"),
    *("csv", "tsv", "json", "jsonl", "xml", "yaml", "yml", "toml", "log", "ics", "vcf", "gpx"),
    *("zip", "tar", "t?gz", "bz2", "xz", "zst", "7z"),
    *("mp3", "m4a", "ogg", "oga", "opus", "wav", "flac", "aac"),
)
_ENDING: Final = re.compile(rf"\.(?:{'|'.join(_ENDINGS)})", re.IGNORECASE)
"""How addresses of documents, data, archives and sound end; other links lead to pages of the web."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEncryption:
    """How a file is encrypted that only its readers can open (kind 15)."""

    algorithm: str
    key: str
    """In hex, as the nonce and the digest."""
    nonce: str
    digest: str = ""
    """The sha256 of the file before it was encrypted; "" where its sender did not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """A file as a message names it; all but the address is its sender's word."""

    address: str
    media_type: str = ""
    name: str = ""
    digest: str = ""
    """The sha256, in hex, of what its server gives."""
    encryption: FileEncryption | None = None
    is_declared: bool = False
    """Whether a client declares it as a file; else it is a link that ends like one."""
    store: str = ""
    """The relay that has it on its own host, where the message was written in a room of that relay."""
    room: str = ""
    """That room."""

    @property
    def is_picture(self) -> bool:
        """Whether it is said to be a picture."""
        return self.media_type.startswith("image/") or (not self.media_type and is_picture_address(self.address))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedFile:
    """What became of a file that a message names."""

    address: str
    name: str = ""
    """As its sender calls it, where it was not loaded; else that of the file in the inbox."""
    path: str = ""
    """Where tools find it; "" where it was not loaded."""
    media_type: str = ""
    size: int = 0
    fault: str = ""
    """Why it was not loaded."""
    unseen: str = ""
    """Why models are not shown a picture that was loaded."""
    transcript: str = ""
    """What is said in it."""
    untranscribed: str = ""
    """Why what is said in it is not known."""

    @property
    def is_picture(self) -> bool:
        """Whether it is one, or is said to be."""
        return self.media_type.startswith("image/") or (not self.media_type and is_picture_address(self.address))


def files_in(text: str, declared: Mapping[str, NamedFile]) -> tuple[NamedFile, ...]:
    """The files that a message names, each once: declared ones by their address, and links that end like files."""
    named: dict[str, NamedFile] = {}
    for address in addresses_in(text):
        if address in declared:
            named[address] = declared[address]
        elif is_picture_address(address) or _has_file_ending(address):
            named[address] = NamedFile(address=address)
    return tuple((dict(named) | {address: file for address, file in declared.items() if address not in named}).values())


def _has_file_ending(address: str) -> bool:
    path = re.split(r"[?#]", address, maxsplit=1)[0]
    _, dot, ending = path.rpartition(".")
    return bool(dot) and _ENDING.fullmatch(f".{ending}") is not None


def sentences_about(files: Sequence[ReceivedFile], text: str, left_out: int = 0) -> list[str]:
    """What agents are told of the files of a message with this text; each is a sentence without its end."""
    sentences = []
    loaded = [file for file in files if not file.fault]
    if loaded:
        noun = "this file" if len(loaded) == 1 else "these files"
        sentences.append(f"It came with {noun}: {'; '.join(_described(file, text) for file in loaded)}")
    missing = [f"{_named(file)} ({file.fault})" for file in files if file.fault]
    if left_out:
        missing.append(f"{left_out} more (of a message {MOST} files are loaded)")
    if missing:
        sentences.append(f"Not loaded, so do not guess what is in it: {'; '.join(missing)}")
    return sentences


def missing_files(files: Sequence[ReceivedFile]) -> list[str]:
    """The sentences for the sender about files that were not loaded, grouped by reason.

    A file without a name has the last part of its address: a client would show the picture of a whole one.
    """
    names: dict[str, list[str]] = {}
    for file in files:
        if file.fault:
            name = file.name or re.split(r"[?#]", file.address, maxsplit=1)[0].rstrip("/").rpartition("/")[2]
            names.setdefault(file.fault, []).append(name[:LONGEST_ADDRESS])
    return [f"{', '.join(group)} ({fault})" for fault, group in names.items()]


def _described(file: ReceivedFile, text: str) -> str:
    about = [file.media_type or "of unknown type", byte_size(file.size)]
    if file.is_picture and file.address not in text:
        about.append(f"at {file.address}")  # by which models are shown it
    if file.unseen:
        about.append(f"not shown to you, so do not guess what is on it: {file.unseen}")
    if file.untranscribed:
        about.append(f"not transcribed, so do not guess what is said in it: {file.untranscribed}")
    return f"{file.path} ({', '.join(about)})"


def _named(file: ReceivedFile) -> str:
    name = file.name or file.address
    return name if len(name) <= LONGEST_ADDRESS else f"{name[:LONGEST_ADDRESS]}…"


def with_transcripts(text: str, files: Sequence[ReceivedFile]) -> str:
    """A message's text with what is said in its voice notes, as a quotation: so none of it is a command or a yes."""
    quoted = []
    for file in files:
        if file.transcript:
            lines = "\n".join(f"> {line}".rstrip() for line in file.transcript.splitlines())
            quoted.append(f"Voice note {file.path}, transcribed by a program:\n{lines}")
    return "\n\n".join([text, *quoted]) if quoted else text
