"""Folders, who may read and change them, and the keys."""

import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from tenex.configuration.agents import OWNER, PROJECT, read_library
from tenex.core.config import AgentKind
from tenex.core.errors import ConfigurationError, StoreError
from tenex.nostr.keys import KeyRing, SecretKey, parse_public_key
from tenex.settings import CONFIG_NAMES, ProjectPaths
from tenex.store import segments
from tenex.store.atomic import FILE_MODE, FOLDER_MODE, make_folder

from .findings import Case, Finding, Repair, count_text, fault, ok, warning

READABLE: Final = 0o077
WRITABLE: Final = 0o022
SUFFIX: Final = ".nsec"
RESTORE: Final = "restore it from a backup; `tenex init` creates a new one only where none was"


def folders(case: Case) -> Iterator[Finding]:
    """Report folders that are missing, not folders, or not usable."""
    paths = case.paths
    if paths is None:
        return
    give = f"give it to the user who runs tenex (this is user {os.geteuid()})"
    other = "run `tenex init`, or name another folder with --data"
    try:
        mode = case.data.stat().st_mode
    except FileNotFoundError:
        yield fault("there is no such folder", case.data, other)
        return
    except OSError as error:
        yield fault(f"cannot be examined ({error.strerror})", case.data, give)
        return
    if not stat.S_ISDIR(mode):
        yield fault("this is not a folder", case.data, "name a folder with --data")
        return
    names = (*CONFIG_NAMES, "keys", "conversations")
    if case.config is None and not any((case.data / name).exists() for name in names):
        yield fault("this holds nothing of tenex", case.data, other)
        return
    found: list[Finding] = []
    for path in (paths.conversations, paths.workspace, paths.keys, paths.agents):
        if not path.exists() and not path.is_symlink():
            found.append(warning("the folder is missing", path, "run `tenex init`", Repair(run=partial(_create, path))))
        elif not path.is_dir():
            kind = "a link to nothing" if path.is_symlink() else "a file, where a folder must be"
            found.append(fault(f"this is {kind}", path, "move it away, then run `tenex init`"))
        elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            found.append(fault("this user may not read and write here", path, give, StoreError))
    yield from found or [ok("the folders exist and can be used", case.data)]


def permissions(case: Case) -> Iterator[Finding]:
    """Report who else may read or change private files, and files of another user."""
    paths = case.paths
    if paths is None or not case.data.is_dir():
        return
    owner = os.geteuid() or _uid(case.data) or 0  # who will run the daemon: root may examine another user's folder
    configs = [case.data / name for name in CONFIG_NAMES if (case.data / name).is_file()]
    private = dict.fromkeys(
        (case.data, paths.keys, paths.conversations, paths.checkpoints, *_files(paths.keys), *configs)
    )
    found = [finding for path in private for finding in _private(path, paths.keys, owner)]
    found += [finding for path in _trusted(paths) if path not in private for finding in _changeable(path, owner)]
    foreign = [path for path in _conversation_files(paths.conversations) if _uid(path) not in (None, owner)]
    if foreign:
        message = f"{count_text(len(foreign), 'file')} of conversations belong to another user than {owner}"
        found.append(fault(message, foreign[0], f"run `chown -R {owner} {paths.conversations}` as root", StoreError))
    yield from found or [ok("no one else can read what is private, or change agents, workflows and settings")]


def _private(path: Path, keys: Path, owner: int) -> Iterator[Finding]:
    try:
        found = path.lstat()
    except OSError:
        return  # the checks `folders` and `keys` report it
    if stat.S_ISLNK(found.st_mode):
        return
    mode, is_folder = stat.S_IMODE(found.st_mode), stat.S_ISDIR(found.st_mode)
    is_key = path.parent == keys
    if found.st_uid not in ((owner,) if is_key or path == keys else (owner, 0)):
        message = f"this belongs to user {found.st_uid}, and user {owner} is to run tenex"
        yield fault(message, path, f"run `chown {owner} {path}` as root")
    wanted = FOLDER_MODE if is_folder else FILE_MODE
    repair = Repair(run=lambda: _set_mode(path, wanted))
    fix = f"run `chmod {wanted:o} {path}`"
    if mode & WRITABLE:
        yield fault(f"others may change this (mode {mode:04o})", path, fix, repair=repair)
    elif mode & READABLE and is_key:
        yield fault(f"others may read this key (mode {mode:04o})", path, fix, repair=repair)
    elif mode & READABLE:
        yield warning(f"others may read this (mode {mode:04o})", path, fix, repair)


def _trusted(paths: ProjectPaths) -> Iterator[Path]:
    """What a daemon believes or runs: settings, agents, workflows, and the folders of the data folder they are in."""
    folders = [folder for folder in (paths.agents, paths.workflows) if folder.is_dir()]
    for path in [*folders, *([paths.config] if paths.config is not None else [])]:
        yield from (above for above in path.parents if above != paths.data and above.is_relative_to(paths.data))
        yield path
    for folder in folders:
        for above, names, files in os.walk(folder):
            yield from (Path(above, name) for name in (*names, *files))


def _changeable(path: Path, owner: int) -> Iterator[Finding]:
    """Who else may change what is trusted; where a folder above is closed to others it is no fault yet."""
    try:
        real = path.resolve(strict=True)
        found = real.stat()
        is_closed = any(not stat.S_IMODE(above.stat().st_mode) & 0o011 for above in real.parents)
    except (OSError, RuntimeError):  # gone, or a link to nothing, which the check `agents` reports
        return
    mode, report = stat.S_IMODE(found.st_mode), warning if is_closed else fault
    quoted = shlex.quote(str(real))
    if found.st_uid not in (owner, 0):
        message = f"user {found.st_uid} may change this, and user {owner} is to run tenex"
        yield report(message, path, f"run `chown {owner} {quoted}` as root")
    if mode & WRITABLE:
        repair = Repair(run=lambda: _set_mode(real, mode & ~WRITABLE))
        yield report(f"others may change this (mode {mode:04o})", path, f"run `chmod go-w {quoted}`", repair=repair)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    except OSError:
        return []


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
            except OSError:  # the check `conversations` reports it
                continue
            yield from (Path(entry.path, segments.name_of(number)) for number in found)


def _uid(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except OSError:
        return None


def _create(path: Path) -> str:
    make_folder(path)
    return "created"


def _set_mode(path: Path, mode: int) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # never the target of a link
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
    return f"set to {mode:04o}"


def keys(case: Case) -> Iterator[Finding]:
    """Report keys that are missing, unreadable or used twice, and files that are not keys."""
    paths = case.paths
    if paths is None or not paths.keys.is_dir():
        return
    ring, folder = KeyRing(paths.keys), paths.keys
    names = ring.names()
    found: list[Finding] = []
    known: dict[str, SecretKey] = {}
    for name in names:
        path = folder / f"{name}{SUFFIX}"
        if not path.is_file():
            found.append(fault("this is not a file", path, RESTORE))  # a pipe would be waited for
            continue
        try:
            known[name] = ring.get(name)
        except ConfigurationError as error:
            if "others may read" not in str(error):  # the check `permissions` reports that
                message = str(error).removeprefix(f"{path}: ").partition("; ")[0]
                found.append(fault(message, path, RESTORE))
    found += [*_missing(paths, names), *_duplicates(folder, known), *_users(case, known), *_other_files(folder, names)]
    yield from found or [ok(f"{len(known)} keys can be read, and no two are the same", folder)]
    if PROJECT in known:
        yield ok(f"the project's address is {known[PROJECT].npub}", folder / f"{PROJECT}{SUFFIX}")


def _missing(paths: ProjectPaths, names: Iterable[str]) -> Iterator[Finding]:
    if PROJECT not in names:
        yield fault(
            "the project's key is missing, and with it the address users write to",
            paths.keys / f"{PROJECT}{SUFFIX}",
            "restore it from a backup; where there never was one, run `tenex init`",
        )
    try:
        library = read_library(paths.agents, code_refusal=paths.code_refusal)
    except ConfigurationError:
        return  # the check `agents` reports it
    for slug, agent in library.definitions.items():
        if agent.kind is not AgentKind.ORCHESTRATOR and slug not in names:
            yield warning(
                "this agent has no key; the daemon creates one when it starts",
                paths.keys / f"{slug}{SUFFIX}",
                "if it had one before, restore that first: with a new key it is another agent to users",
            )


def _duplicates(folder: Path, known: dict[str, SecretKey]) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    # the address users write to and the owner's key are never called the copy: moving one away would lose it
    for name, key in sorted(known.items(), key=lambda item: item[0] not in (PROJECT, OWNER)):
        if key.public in seen:
            yield fault(
                f"this is the same key as {seen[key.public]}{SUFFIX}: no one could distinguish the two",
                folder / f"{name}{SUFFIX}",
                "move away the copy, and restore the right one or run `tenex init`",
            )
        seen.setdefault(key.public, name)


def _users(case: Case, known: dict[str, SecretKey]) -> Iterator[Finding]:
    """Users with a key of an agent: their messages are taken for its own and ignored."""
    if case.settings is None:
        return
    agents = {key.public: name for name, key in known.items() if name != OWNER}
    for group in ("owners", "members"):
        for index, text in enumerate(getattr(case.settings.people, group)):
            try:
                name = agents.get(parse_public_key(text))
            except ValueError:
                continue  # the check `settings` reports it
            if name is not None:
                yield fault(
                    f"this is the key of {name}, whose messages are ignored as the daemon's own",
                    f"people.{group}[{index}]",
                    "list the user's own npub",
                )


def _other_files(folder: Path, names: Iterable[str]) -> Iterator[Finding]:
    for path in sorted(folder.iterdir()):
        if path.name.endswith(SUFFIX) and path.name.removesuffix(SUFFIX) in names:
            continue
        if path.name.startswith(".") and SUFFIX in path.name:
            yield warning(
                "this was left by a start that was interrupted, and may hold a key",
                path,
                "remove it once you have seen that the key of that name can be read",
            )
        elif path.name.endswith(SUFFIX):
            yield warning(
                "this is not the name of a key, so the file is not used",
                path,
                "use letters, digits, '-', '_' and '.', beginning with a letter or a digit",
            )
