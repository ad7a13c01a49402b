"""Changes settings in `tenex.toml` and keeps the rest of the file, comments among it, as its owner wrote it."""

import os
import tempfile
import tomllib
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from tenex.core.errors import ConfigurationError
from tenex.core.text.foreign import decode
from tenex.settings import Settings

from .files import add_trusted
from .options import Globals


def change_settings(given: Globals, settings: Settings, changes: Mapping[str, Any]) -> Path:
    """Set values, nested like the file; returns the file. A running daemon does not know of it yet.

    Raises:
        ConfigurationError: there is no file, a variable or a fault is in the way, or it cannot be written.
    """
    file = settings.file
    if file is None:
        raise ConfigurationError([f"{settings.data}: there is no tenex.toml; `tenex init` writes one"])
    for name in _leaves(changes):
        origin = settings.origins.get(name, str(file))
        if origin != str(file):
            raise ConfigurationError([f"{name} is set by {origin}, which wins over {file}. Change it there."])
    given.settings(changes)  # whether they are valid together with all others
    try:
        before = decode(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigurationError([f"{file}: cannot be read ({error})"]) from error
    _write(file, _changed(file, before, changes))
    add_trusted(settings.data, [file])
    return file


def _leaves(changes: Mapping[str, Any], at: str = "") -> list[str]:
    """The dotted names of what is set."""
    names: list[str] = []
    for name, value in changes.items():
        if isinstance(value, Mapping):
            names += _leaves(value, f"{at}{name}.")
        else:
            names.append(f"{at}{name}")
    return names


def _changed(file: Path, before: str, changes: Mapping[str, Any]) -> str:
    """The text with the changes; it is read again, so that nothing else can have changed."""
    import tomlkit

    document = tomlkit.parse(before)
    _apply(document, changes)
    after = tomlkit.dumps(document)
    wanted = tomllib.loads(before)
    _merge(wanted, changes)
    try:
        is_right = tomllib.loads(after) == wanted
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        names = ", ".join(_leaves(changes))
        raise ConfigurationError([f"{file}: {names} cannot be changed without touching other lines; edit the file"])
    return after


def _apply(table: MutableMapping[str, Any], changes: Mapping[str, Any]) -> None:
    import tomlkit

    for name, value in changes.items():
        if isinstance(value, Mapping):
            if name not in table:
                table[name] = tomlkit.table(is_super_table=all(isinstance(part, Mapping) for part in value.values()))
            _apply(table[name], value)
        elif isinstance(value, list) and isinstance(table.get(name), list):
            _apply_list(table[name], value)
        else:
            table[name] = value


def _apply_list(array: Any, wanted: list[str]) -> None:
    """Remove and add entries; those that stay keep their line and their comment."""
    for entry in [entry for entry in array if entry not in wanted]:
        array.remove(entry)
    for entry in wanted:
        if entry not in array:
            array.append(entry)


def _merge(values: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if isinstance(value, Mapping):
            _merge(values.setdefault(name, {}), value)
        else:
            values[name] = value


def _write(file: Path, text: str) -> None:
    """Replace the file as a whole; it keeps its mode and its owner, and a link stays one."""
    real = file.resolve()
    try:
        status = real.stat()
        handle, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        beside = Path(name)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(text.encode())
                out.flush()
                os.fsync(out.fileno())
                os.fchmod(out.fileno(), status.st_mode & 0o777)
                if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(out.fileno(), status.st_uid, status.st_gid)  # as root, for the user of a service
            beside.replace(real)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError([f"{file}: cannot be written ({error.strerror})"]) from error
