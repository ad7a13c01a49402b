"""The files that commands write: each one complete or absent, and never over one of somebody else's."""

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tenex.core.errors import ConfigurationError


def make_folder(folder: Path, mode: int = 0o700) -> bool:
    """Make a folder that only its owner may enter, unless `mode` is given; returns whether it was missing.

    Raises:
        ConfigurationError: it cannot be made.
    """
    if folder.is_dir():
        return False
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError([f"{folder}: cannot be made ({error.strerror}). Choose a folder you own"]) from error
    return True


def replace(file: Path, text: str) -> bool:
    """Write a file that others may read, as a whole, in place of an older one; returns whether it changed.

    Raises:
        ConfigurationError: it cannot be written.
    """
    try:
        if file.exists() and file.read_bytes() == text.encode():
            return False
        make_folder(file.parent)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(handle, "wb") as out:
            out.write(text.encode())
            os.fchmod(out.fileno(), 0o644)
        Path(temporary).replace(file)
    except OSError as error:
        raise ConfigurationError([f"{file}: cannot be written ({error.strerror})"]) from error
    return True


def write_new(file: Path, text: str) -> None:
    """Write a temporary file, then give it the name, which no other process's file may have.

    Raises:
        ConfigurationError: it cannot be written, or exists.
    """
    from tenex.nostr.keys import take_free_name

    try:
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # 0600 from the start
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            take_free_name(Path(temporary), file)
        finally:
            with suppress(FileNotFoundError):
                Path(temporary).unlink()
    except OSError as error:
        raise ConfigurationError([f"{file}: cannot be written ({error.strerror})"]) from error


def add_trusted(folder: Path, files: Iterable[Path]) -> None:
    """Add files that a command has just written to those a folder is trusted with, if it is."""
    from tenex.settings import contents_of, read_trusted, trust_file, write_trusted

    file = trust_file(os.environ)
    contents = read_trusted(file).get(os.path.realpath(folder))
    if contents is not None:
        write_trusted(file, folder, {**contents, **contents_of(folder, files)})
