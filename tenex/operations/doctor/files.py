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
from tenex.nostr.keys import MOUNT, REMOTE_SUFFIX, SUFFIX, Key, KeyRing, keeps_permissions, parse_public_key
from tenex.settings import CONFIG_NAMES, ProjectPaths
from tenex.settings.file_rights import is_own_group
from tenex.store import segments
from tenex.store.atomic import make_folder

from .findings import Case, Finding, Level, Repair, count_text, fault, ok, warning

READABLE: Final = 0o077
WRITABLE: Final = 0o022


def folders(case: Case) -> Iterator[Finding]:
    """Report folders that are missing, not folders, or not usable."""
    paths = case.paths
    other = "run `tenex init`, or name another folder with --data"
    if not case.data.is_dir():
        kind = "this is not a folder" if os.path.lexists(case.data) else "there is no such folder"
        yield fault(kind, case.data, other)
        return
    if _is_foreign(case):
        yield fault("this holds nothing of tenex", case.data, other)
        return
    found: list[Finding] = []
    for path in (paths.conversations, paths.workspace, paths.keys, paths.agents):
        if not os.path.lexists(path):
            if path == paths.keys:  # the check `keys` reports it; an empty folder would be no repair
                continue
            repair = Repair(partial(make_folder, path), "created")
            found.append(warning("the folder is missing", path, "run `tenex init`", repair))
        elif not path.is_dir():
            kind = "a link to nothing" if path.is_symlink() else "a file, where a folder must be"
            found.append(fault(f"this is {kind}", path, "move it away, then run `tenex init`"))
        elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            fix = f"give it to the user who runs tenex (this is user {os.geteuid()})"
            found.append(fault("this user may not read and write here", path, fix, StoreError))
    if os.path.lexists(paths.keys):
        found = found or [ok("the folders exist and can be used", case.data)]
    yield from found


def _is_foreign(case: Case) -> bool:
    ours = (case.data / name for name in (*CONFIG_NAMES, "keys", "conversations"))
    return case.config is None and not any(path.exists() for path in ours)


def permissions(case: Case) -> Iterator[Finding]:
    """Report who else may read or change private files, and files of another user."""
    paths = case.paths
    if not case.data.is_dir():
        return
    owner = _owner(case.data)
    found = [*access(paths)]
    root = paths.conversations
    foreign = [path for path in (*root.glob("*"), *root.glob(segments.ANY_FILE)) if _uid(path, owner) != owner]
    if foreign:
        message = f"{count_text(len(foreign), 'file')} of conversations belong to another user than {owner}"
        found.append(fault(message, foreign[0], f"run `chown -R {owner} {root}` as root", StoreError))
    yield from found or [ok("no one else can read what is private, or change agents, workflows and settings")]


def access(paths: ProjectPaths) -> Iterator[Finding]:
    """Who else may read or change what a daemon keeps to itself, or change what it believes or runs.

    A fault is what another user can take the daemon over with: `run` refuses to start then.
    """
    owner = _owner(paths.data)
    data = paths.data.resolve()
    configs = (paths.data / name for name in CONFIG_NAMES)
    private = dict.fromkeys(
        (
            *(data, paths.keys, paths.conversations, paths.checkpoints),
            *(path for path in (*sorted(paths.keys.glob("*")), *configs) if path.is_file()),
        )
    )
    for path in private:
        yield from _access(path, owner, paths.keys, is_private=True)
    for path in _trusted(paths):
        if path not in private:
            yield from _access(path, owner, paths.keys, is_private=False)


def _owner(data: Path) -> int:
    """Who is to run the daemon: root may examine, or run it on, another user's folder."""
    return os.geteuid() or data.stat().st_uid


def _access(path: Path, owner: int, keys: Path, *, is_private: bool) -> Iterator[Finding]:
    """Who else may read or change a private path, or change one that is trusted.

    The target of a link is trusted as the link is. Where a folder above it is closed to others it is no fault yet.
    """
    try:
        real = path if is_private else path.resolve(strict=True)
        found = real.lstat()
        is_closed = not is_private and any(not above.stat().st_mode & 0o011 for above in real.parents)
    except (OSError, RuntimeError):  # gone, or a link to nothing, which other checks report
        return
    if stat.S_ISLNK(found.st_mode):
        return
    mode = stat.S_IMODE(found.st_mode)
    quoted = shlex.quote(str(real))
    level = Level.WARNING if is_closed else Level.FAULT
    is_key = path.parent == keys
    if found.st_uid not in ((owner,) if is_key or path == keys else (owner, 0)):
        message = f"this belongs to user {found.st_uid}, and user {owner} is to run tenex"
        yield Finding(level=level, message=message, location=str(path), fix=f"run `chown {owner} {quoted}` as root")
    is_own = is_own_group(found.st_gid, found.st_uid)
    writable = mode & (stat.S_IWOTH if is_own else WRITABLE)
    wanted = mode & ~(READABLE if is_private else WRITABLE)
    if mode == wanted or (not is_private and not writable):
        return
    fix = f"run `chmod {f'{wanted:o}' if is_private else 'go-w'} {quoted}`"
    repair: Repair | None = Repair(partial(_set_mode, real, wanted), f"set to {wanted:04o}")
    if not keeps_permissions(real if real.is_dir() else real.parent):
        fix = MOUNT
        repair = None
    may = "change this" if writable else "read this key" if is_key else "read this"
    yield Finding(
        level=Level.WARNING if may == "read this" else level,
        message=f"others may {may} (mode {mode:04o})",
        location=str(path),
        fix=fix,
        repair=repair,
    )


def _trusted(paths: ProjectPaths) -> Iterator[Path]:
    """What a daemon believes or runs: settings, agents, workflows, and the folders of the data folder they are in."""
    folders = [folder for folder in (paths.agents, paths.workflows) if folder.is_dir()]
    for path in [*folders, *([paths.config] if paths.config is not None else [])]:
        yield from (above for above in path.parents if above != paths.data and above.is_relative_to(paths.data))
        yield path
    for folder in folders:
        for above, names, files in os.walk(folder):
            yield from (Path(above, name) for name in (*names, *files))


def _uid(path: Path, default: int) -> int:
    try:
        return path.lstat().st_uid
    except OSError:  # gone meanwhile
        return default


def _set_mode(path: Path, mode: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # never the target of a link
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def keys(case: Case) -> Iterator[Finding]:
    """Report keys that are missing, unreadable or used twice, and files that are not keys."""
    folder = case.paths.keys
    if _is_foreign(case) or (os.path.lexists(folder) and not folder.is_dir()):  # the check `folders` reports it
        return
    ring = KeyRing(*case.paths.key_folders)
    found = list[Finding]()
    names = ring.names()
    known = dict[str, Key]()
    for name in names:
        try:
            known[name] = ring.read(name)
        except ConfigurationError as error:
            path = ring.file(name)
            if "others may read" not in str(error):  # the check `permissions` reports that
                message, _, fix = str(error).removeprefix(f"{path}: ").partition("; ")
                found.append(fault(message, path, fix))
    found += [*_missing(case.paths, names), *_duplicates(case, known), *_other_files(folder, names)]
    yield from found or [ok(f"{len(known)} keys can be read, and no two are the same", folder)]
    if PROJECT in known:
        yield ok(f"the project's address is {known[PROJECT].npub}", ring.file(PROJECT))


def _missing(paths: ProjectPaths, names: Iterable[str]) -> Iterator[Finding]:
    if PROJECT not in names:
        message = "the project's key is missing, and with it the address users write to"
        fix = "restore it from a backup; where there never was one, run `tenex init`"
        if paths.credentials is None:
            fix += "; a service's credentials are seen only with its $CREDENTIALS_DIRECTORY"
        yield fault(message, paths.keys / f"{PROJECT}{SUFFIX}", fix)
    try:
        library = read_library(paths.agents, code_refusal=paths.code_refusal)
    except ConfigurationError:
        return  # the check `configuration` reports it
    for slug, agent in library.definitions.items():
        if agent.kind is not AgentKind.ORCHESTRATOR and slug not in names:
            fix = "if it had one before, restore that first: with a new key it is another agent to users"
            message = "this agent has no key; the daemon creates one when it starts"
            yield warning(message, paths.keys / f"{slug}{SUFFIX}", fix)


def _duplicates(case: Case, known: dict[str, Key]) -> Iterator[Finding]:
    """Keys with two names; and users with a key of an agent, whose messages are taken for its own and ignored."""
    seen: dict[str, str] = {}
    # the address users write to and the owner's key are never called the copy: moving one away would lose it
    for name, key in sorted(known.items(), key=lambda item: item[0] not in (PROJECT, OWNER)):
        if (first := seen.setdefault(key.public, name)) != name:
            ring = KeyRing(*case.paths.key_folders)
            message = f"this is the same key as {ring.file(first).name}: no one could distinguish the two"
            fix = "move away the copy, and restore the right one or run `tenex init`"
            yield fault(message, ring.file(name), fix)
    agents = {key.public: name for name, key in known.items() if name != OWNER}
    for group in ("owners", "members"):
        for index, text in enumerate(getattr(case.settings.people, group)):
            if (slug := agents.get(parse_public_key(text))) is not None:
                message = f"this is the key of {slug}, whose messages are ignored as the daemon's own"
                yield fault(message, f"people.{group}[{index}]", "list the user's own npub")


def _other_files(folder: Path, names: Iterable[str]) -> Iterator[Finding]:
    for path in sorted(folder.glob("*")):  # none where the folder is missing
        if path.name.startswith(".") and (SUFFIX in path.name or REMOTE_SUFFIX in path.name):
            message = "this was left by a start that was interrupted, and may hold a key"
            yield warning(message, path, "remove it once you have seen that the key of that name can be read")
        elif path.suffix in (SUFFIX, REMOTE_SUFFIX) and path.stem not in names:
            fix = "use letters, digits, '-', '_' and '.', beginning with a letter or a digit"
            yield warning("this is not the name of a key, so the file is not used", path, fix)
