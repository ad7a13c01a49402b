"""Which data folders the user trusts: by path and content, in a file of the user's own.

A data folder decides a lot: which variables and files hold keys, to which servers they are sent, who gives orders, and
which Python runs. So a folder that a command finds only because it is the current one, such as a cloned repository, is
used if `tenex init` made it or the user ran `tenex trust` on it. A folder that was named is used as it is.

Trust is kept as a hash of each file: the settings, and all files of the folders of agents and workflows; and as the
path of each place outside, such as a file with a key, since a link in the folder could lead elsewhere later. A file is
hashed as it was read, so that one that changes between the check and its use is refused too: the settings in
`loading.load`, agents and workflows where they are read, which ask `core.file_guard`.
"""

import fcntl
import json
import os
import pwd
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from tenex.core.errors import ConfigurationError, UntrustedFolder
from tenex.core.file_guard import guard

MOST_FILES: Final = 1_000
"""Files in the folders of agents and workflows; a project has some tens."""
LARGEST: Final = 8 * 1024**2
"""Bytes of one of them; nothing that is read there may have more than 1 MiB."""
OUTSIDE: Final = "outside: "
"""Before the name of a place outside the data folder, which is trusted like a file, by where it is."""
_NO_FILE: Final = "no regular file"

Contents = Mapping[str, str]
"""The hash of each file, by its path: relative in the data folder, absolute outside it. And the places outside."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What the user has trusted in a data folder that was found as the current folder."""

    folder: Path
    file: Path | None
    """The user's file; None for a user without a home."""

    def contents(self) -> Contents:
        """The files that are trusted.

        Raises:
            UntrustedFolder: none are.
        """
        contents = read_trusted(self.file).get(os.path.realpath(self.folder))
        if contents is None:
            command = f"tenex trust {shlex.quote(str(self.folder))}"
            raise UntrustedFolder(
                [f"{self.folder} is not trusted: you neither made nor named it. Look into it, then run `{command}`."]
            )
        return contents

    def check(self, path: Path, data: bytes, contents: Contents) -> None:
        """Refuse a file that is not as it was trusted.

        Raises:
            UntrustedFolder: it is new, or has changed.
        """
        if contents.get(_name(self.folder, path)) != _hash(data):
            raise self._changed(path)

    def check_all(self, present: Contents, contents: Contents) -> None:
        """Refuse files that are new, changed or missing.

        Raises:
            UntrustedFolder: with the first of them.
        """
        names = {name for name in {*present, *contents} if present.get(name) != contents.get(name)}
        if names:
            raise self._changed(self.folder / min(names))

    def check_places(self, places: Mapping[str, Path], contents: Contents) -> None:
        """Refuse a place outside the data folder that is new, or elsewhere than when it was trusted.

        Raises:
            UntrustedFolder: with the first of them.
        """
        for name, place in places.items():
            if contents.get(f"{OUTSIDE}{name}") != str(place):
                command = f"tenex trust {shlex.quote(str(self.folder))}"
                raise UntrustedFolder(
                    [f"{name}: {place} is outside {self.folder} and not trusted. Look at it, then run `{command}`."]
                )

    def _changed(self, path: Path) -> UntrustedFolder:
        command = f"tenex trust {shlex.quote(str(self.folder))}"
        return UntrustedFolder([f"{path} has changed since you trusted its folder. Look at it, then run `{command}`."])


def trust_file(env: Mapping[str, str]) -> Path | None:
    """The user's list of trusted folders; None for a user without a home."""
    folder = env.get("XDG_CONFIG_HOME", "")
    if not folder.startswith("/"):  # the XDG specification: a relative one is to be ignored
        home = home_folder(env)
        if home is None:
            return None
        folder = f"{home}/.config"
    return Path(folder) / "tenex" / "trusted.json"


def home_folder(env: Mapping[str, str]) -> Path | None:
    """The home folder of this user; None where there is none."""
    home = env.get("HOME", "")
    if not home.startswith("/"):
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    return Path(home) if home.startswith("/") else None


def read_trusted(file: Path | None) -> dict[str, Contents]:
    """The trusted folders, by their real path; none where others may write to the file, or it cannot be read."""
    if file is None:
        return {}
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            status = os.fstat(opened.fileno())
            is_ours = status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            folders = json.loads(opened.read())["folders"] if is_ours and stat.S_ISREG(status.st_mode) else {}
            return {str(folder): dict(contents) for folder, contents in folders.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def write_trusted(file: Path | None, folder: Path, contents: Contents | None) -> None:
    """Trust a folder with these files; None ends the trust.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    if file is None:
        raise ConfigurationError(["Without a home folder nothing can be trusted; name the data folder by --data."])
    try:
        for missing in (file.parent.parent, file.parent):  # and no home folder
            missing.mkdir(mode=0o700, exist_ok=True)
        parent = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(parent, fcntl.LOCK_EX)  # two commands at once must not lose each other's entry
            folders = read_trusted(file)
            folders.pop(os.path.realpath(folder), None)
            if contents is not None:
                folders[os.path.realpath(folder)] = contents
            fresh = file.with_name(f".{file.name}.new")
            fresh.unlink(missing_ok=True)
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
                json.dump({"folders": folders}, opened, indent=1)
                opened.flush()
                os.fsync(opened.fileno())
            fresh.replace(file)
        finally:
            os.close(parent)
    except OSError as fault:
        raise ConfigurationError(
            [f"{file}: cannot be written ({fault.strerror}). Name the data folder by --data instead."]
        ) from fault


def contents_of(folder: Path, roots: Iterable[Path]) -> dict[str, str]:
    """Hash files, and folders with all that is in them, as a data folder is trusted with them.

    Raises:
        ConfigurationError: there are too many files, or a file is too large or cannot be read.
    """
    found: dict[str, str] = {}
    for root in roots:
        for path in _files(root):
            found[_name(folder, path)] = _hash_of(path)
            if len(found) > MOST_FILES:
                raise ConfigurationError(
                    [f"{root}: more than {MOST_FILES:,} files. Move away what is no agent, tool, skill or workflow."]
                )
    return found


def guard_code(trust: Trust, contents: Contents, code: tuple[Path, ...]) -> None:
    """From now on, refuse what is read of these folders and is not as it was trusted."""

    def check(path: str, data: bytes) -> None:
        place = Path(os.path.abspath(path))  # noqa: PTH100 links are not followed: the name is what was trusted
        if any(place.is_relative_to(root) for root in code):
            trust.check(place, data, contents)

    guard(str(trust.folder), check)


def _files(root: Path) -> Iterator[Path]:
    """A file, or the files of a folder, in order; without hidden files and editors' backups, which are never read."""
    if not root.is_dir():
        if os.path.lexists(root):
            yield root
        return
    for parent, folders, names in os.walk(root, onerror=_raise):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in sorted([*names, *links]):
            if not name.startswith(".") and not name.endswith("~"):
                yield Path(parent) / name


def _raise(fault: OSError) -> None:
    raise ConfigurationError([f"{fault.filename}: cannot be read ({fault.strerror}); check its permissions."])


def _hash_of(path: Path) -> str:
    """The hash of a file's bytes; links are followed to a file, and to no folder."""
    try:
        if not path.is_file():
            return _NO_FILE
        # a pipe that took the file's place must not be waited for
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as fault:
        raise ConfigurationError([f"{path}: cannot be read ({fault.strerror}); check its permissions."]) from fault
    if len(data) > LARGEST:
        raise ConfigurationError([f"{path}: too large for an agent or a workflow. Move it away."])
    return _hash(data)


def _name(folder: Path, path: Path) -> str:
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()
