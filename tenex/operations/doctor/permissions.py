"""The folders and who may read them: existence, permissions, owners."""

import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tenex.core.errors import StoreError
from tenex.settings import CONFIG_NAMES, ProjectPaths
from tenex.store import segments
from tenex.store.atomic import FILE_MODE, FOLDER_MODE, make_folder

from .findings import Case, Finding, Fix, fault, ok, warning
from .format import several

OTHERS: Final = 0o077
WRITERS: Final = 0o022


def folders(case: Case) -> Iterator[Finding]:
    """Whether the data folder is one, and whether the folders in it are there."""
    where = case.places
    if where is None:
        return
    try:
        mode = case.data.stat().st_mode
    except FileNotFoundError:
        yield fault("there is no such folder", case.data, "run `tenex init`, or name another folder with --data")
        return
    except OSError as error:
        yield fault(f"cannot be looked at ({error.strerror})", case.data, _mine())
        return
    if not stat.S_ISDIR(mode):
        yield fault("this is no folder", case.data, "name a folder with --data")
        return
    ours = (*CONFIG_NAMES, "keys", "conversations")
    if case.config is None and not any((case.data / name).exists() for name in ours):
        yield fault("this holds nothing of tenex", case.data, "run `tenex init`, or name another folder with --data")
        return
    missing = 0
    for path in (where.conversations, where.workspace, where.keys, where.agents):
        if not path.exists() and not path.is_symlink():
            missing += 1
            yield warning("the folder is missing", path, "run `tenex init`", Fix(act=lambda p=path: _made(p)))  # type: ignore[misc]
        elif not path.is_dir():
            missing += 1
            kind = "a link that leads nowhere" if path.is_symlink() else "a file, where a folder must be"
            yield fault(f"this is {kind}", path, "move it away, then run `tenex init`")
        elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            missing += 1
            yield fault("we may not read and write here", path, _mine(), StoreError)
    if not missing:
        yield ok("the folders are there, and ours to use", case.data)


def permissions(case: Case) -> Iterator[Finding]:
    """Who else may read or change what is ours, and what belongs to somebody else."""
    where = case.places
    if where is None or not case.data.is_dir():
        return
    count = 0
    private = dict.fromkeys(
        (case.data, where.keys, where.conversations, where.checkpoints, *_files(where.keys), *_configs(case))
    )
    owner = _owner(case.data)
    for path in private:
        for finding in _look(path, where.keys, owner):
            count += 1
            yield finding
    for path in _trusted(where):
        if path not in private:
            for finding in _changeable(path, owner):
                count += 1
                yield finding
    foreign = [path for path in _conversation_files(where.conversations) if _uid(path) not in (None, owner)]
    if foreign:
        count += 1
        yield fault(
            f"{several(len(foreign), 'file')} of conversations belong to somebody else; user {owner} is to run tenex",
            foreign[0],
            f"run `chown -R {owner} {where.conversations}` as root",
            StoreError,
        )
    if not count:
        yield ok("nobody else can read what is private, or change agents, workflows and settings")


def _look(path: Path, keys: Path, owner: int) -> Iterator[Finding]:
    try:
        found = path.lstat()
    except OSError:
        return  # `folders` and `keyring` say so
    if stat.S_ISLNK(found.st_mode):
        return
    mode, is_folder = stat.S_IMODE(found.st_mode), stat.S_ISDIR(found.st_mode)
    is_key = path.parent == keys
    is_secret = is_key or path == keys
    if found.st_uid not in ((owner,) if is_secret else (owner, 0)):
        yield fault(
            f"this belongs to user {found.st_uid}, and user {owner} is to run tenex",
            path,
            f"run `chown {owner} {path}` as root",
        )
    wanted = FOLDER_MODE if is_folder else FILE_MODE
    fix = Fix(act=lambda: _tightened(path, wanted))
    mend = f"run `chmod {wanted:o} {path}`"
    if mode & WRITERS:
        yield fault(f"others may change this (mode {mode:04o})", path, mend, fix=fix)
    elif mode & OTHERS and is_key:
        yield fault(f"others may read this key (mode {mode:04o})", path, mend, fix=fix)
    elif mode & OTHERS:
        yield warning(f"others may read this (mode {mode:04o})", path, mend, fix)


def _trusted(where: ProjectPaths) -> Iterator[Path]:
    """What a daemon believes or runs: settings, agents, workflows, and the folders of the data folder they are in."""
    folders = [folder for folder in (where.agents, where.workflows) if folder.is_dir()]
    found = [*folders, *([where.config] if where.config is not None else [])]
    for path in found:
        yield from (above for above in path.parents if above != where.data and above.is_relative_to(where.data))
        yield path
    for folder in folders:
        for above, names, files in os.walk(folder):
            yield from (Path(above, name) for name in (*names, *files))


def _changeable(path: Path, owner: int) -> Iterator[Finding]:
    """Who else may change what is trusted; where a folder above is shut to others it is no fault yet."""
    try:
        real = path.resolve(strict=True)
        found = real.stat()
        shut = any(not stat.S_IMODE(above.stat().st_mode) & 0o011 for above in real.parents)
    except (OSError, RuntimeError):  # gone, or a link that leads nowhere, which `agents` says
        return
    mode, level = stat.S_IMODE(found.st_mode), warning if shut else fault
    if found.st_uid not in (owner, 0):
        yield level(
            f"user {found.st_uid} may change this, and user {owner} is to run tenex",
            path,
            f"run `chown {owner} {shlex.quote(str(real))}` as root",
        )
    if mode & WRITERS:
        fix = Fix(act=lambda: _tightened(real, mode & ~WRITERS))
        what = f"others may change this (mode {mode:04o})"
        yield level(what, path, f"run `chmod go-w {shlex.quote(str(real))}`", fix=fix)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    except OSError:
        return []


def _configs(case: Case) -> Iterable[Path]:
    """The configuration, where it lies in the data folder; elsewhere others may have reasons to read it."""
    return [case.data / name for name in CONFIG_NAMES if (case.data / name).is_file()]


def _conversation_files(root: Path) -> Iterator[Path]:
    """What a daemon must be able to write to."""
    try:
        entries = list(os.scandir(root))
    except OSError:
        return
    for entry in entries:
        yield Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            try:
                found = segments.numbers(entry.path)
            except OSError:  # `journals` says so
                continue
            yield from (Path(entry.path, segments.name_of(number)) for number in found)


def _owner(data: Path) -> int:
    """Who will run the daemon: us; or, where root looks, whoever owns the data folder."""
    return os.geteuid() or _uid(data) or 0


def _uid(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except OSError:
        return None


def _mine() -> str:
    return f"give it to the user who runs tenex (we are user {os.geteuid()})"


def _made(path: Path) -> str:
    make_folder(path)
    return "made"


def _tightened(path: Path, mode: int) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # never what a link leads to
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
    return f"set to {mode:04o}"
