"""What a person's git runs or reads as configuration in the workspace: hooks, filters, included files.

A person's git runs these files with the person's rights, so an agent may not change them.

Git has about fifty settings that hold a command, new ones come with its versions, and extensions have their own. A
command names its files in any form a shell knows. So a setting counts unless it is known to hold data only, and each
word of its value counts that may be a path. Every included file counts, whether or not its condition holds now: a
person may change branches or folders after the call. What a named program itself loads cannot be known here.
"""

import os
import re
import shlex
import stat
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from .daemon_programs import find_program

GIT_ALONE: Final = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
"""The environment of git without anybody's settings."""

_DATA: Final = frozenset({
    "blame.ignorerevsfile",
    "branch.description",
    "branch.merge",
    "commit.template",
    "core.excludesfile",
    "core.worktree",
    *(f"gitflow.{kind}" for kind in ("bugfix", "feature", "hotfix", "release", "support")),
    "lfs.fetchexclude",
    "lfs.fetchinclude",
    "mailmap.file",
    "maintenance.repo",
    "remote.fetch",
    "remote.push",
    "safe.directory",
    "submodule.active",
    "user.email",
    "user.name",
})  # fmt: skip
"""Settings, without the name in their middle, whose value may look like a path and is neither run nor configuration."""

_IS_PATH: Final = re.compile(r".*(path|file|dir|directory)")
"""The last part of names whose whole value is a path, even without a slash or dot."""

_INTERPRETER: Final = re.compile(
    r"(?:.*/)?(?:(?:a|ba|c|da|fi|k|tc|z)?sh|python[\d.]*|perl|ruby|node|php|lua|source|\.)"
)
_SEPARATORS: Final = re.compile(r"[\s;&|()<>{}\"'`$=,:\\!]+")
_ASSIGNED: Final = re.compile(r"(?:path|file|dir|directory)=(\S+)", re.IGNORECASE)
"""A path by the name it is given, as in `-c core.hooksPath=x`, `--exec-path=x` and `PATH=x`."""

_HOME_FOLDER: Final = re.compile(r"\$HOME\b|\$\{HOME\}")
_VARIABLE: Final = re.compile(r"\$\w+|\$\{\w+(?:\}|:?[-=+?])")
_PATTERN: Final = re.compile(r"[*?\[]")
_URL: Final = re.compile(r"\b(?!file:)[a-z][a-z0-9+.-]*://\S*")

_DEADLINE: Final = 10.0
"""Seconds for git to read a file, which takes some milliseconds."""

_MOST_INCLUDES: Final = 100
"""Files read for one repository; git itself follows ten levels."""

_MOST_FOLDERS: Final = 256
"""Folders from which the words of one value are seen; each change of folder doubles them."""

_MOST_LINKS: Final = 40
"""As many as Linux follows."""

_PARTS: Final = ("HEAD", "objects", "refs")
"""Without these git takes a folder for no repository, and looks above it."""


def read_by_git(root: Path, tops: Iterable[Path]) -> set[Path]:
    """The paths in the workspace that git runs or reads as configuration; they need not exist.

    A link leads elsewhere: it counts, and what is at its end does too.

    Args:
        root: the workspace.
        tops: folders with a `.git`, and repositories without a work tree.
    """
    paths: set[Path] = set()
    for top in tops:
        paths |= _named(top, root)
        paths |= set(_links_of_repository(top))

    found: set[Path] = set()
    for path in paths:
        if not path.is_relative_to(root) or path == root or os.path.lexists(path / ".git"):
            continue  # a whole work tree: nothing could be changed any more
        for place in _way(path, root):
            found.add(place)
            for link in _links_in(place):
                found |= set(_way(link, root))
    return found


def folders_elsewhere(root: Path) -> list[Path]:
    """The folders outside the workspace that its repository consists of, as for a linked worktree or a submodule.

    Only those of a repository that names the workspace as its work tree: a `.git` alone may name any folder.
    """
    own = root / ".git"
    if not own.is_file() or own.is_symlink():
        return []
    folders = [folder.resolve() for folder in git_folders(root)]
    if folders[0].is_relative_to(root) or any(root.is_relative_to(folder) for folder in folders):
        return []
    with suppress(OSError, ValueError):
        back = (folders[0] / "gitdir").read_text("utf-8").strip()
        if os.path.realpath(_absolute(back, folders[0])) == str(own):
            return folders
    trees = [value for name, value in _settings(folders[0] / "config", root) if name == "core.worktree"]
    if trees and os.path.realpath(_absolute(trees[-1], folders[0])) == str(root):
        return folders
    return []


def why_no_repository(root: Path) -> str:
    """Why git does not find the workspace's repository in the sandbox; empty if it does."""
    own = root / ".git"
    is_folder = own.is_dir() and not own.is_symlink()
    if (is_folder and is_repository(own)) or folders_elsewhere(root):
        return ""
    if is_folder:
        return f"The workspace is no git repository: its folder .git is none, since it lacks {' or '.join(_PARTS)}."
    if os.path.lexists(own):
        return "The repository of the workspace lies elsewhere, and does not name the workspace as its work tree."
    around = next((top for top in repositories_around(root.parent) if is_repository(top / ".git")), None)
    if around is not None:
        return f"The workspace is a folder of the repository {around}; a person can set `paths.workspace` to that."
    return "The workspace is no git repository."


def is_repository(git: Path) -> bool:
    """Whether git takes what is called `.git` for a repository: a folder with its parts, or a file that names one."""
    if git.is_file():
        return True
    is_worktree = (git / "commondir").is_file()
    return os.path.lexists(git / "HEAD") and (is_worktree or all((git / part).is_dir() for part in _PARTS[1:]))


def repositories_around(folder: Path) -> Iterator[Path]:
    """The folder and those above it that git would take for the top of a work tree."""
    for top in (folder, *folder.parents):
        if os.path.lexists(top / ".git"):
            yield top


def _named(top: Path, root: Path) -> set[Path]:
    """What settings name, as they name it, in or outside the workspace."""
    found: set[Path] = set()
    tops = [top]
    for file, name, value in list(_all_settings(top, root)):
        section, _, rest = name.partition(".")
        middle, _, key = rest.rpartition(".")
        if f"{section}.{key}" == "core.worktree":
            tops += [_absolute(value, folder) for folder in git_folders(top)]
        if f"{section}.{key}" in _DATA:
            continue
        if section in ("include", "includeif"):
            found.add(_absolute(value, file.parent))
            continue
        # a remote's address may become what is in the middle, such as `ext::sh a.sh`
        text = f"{middle} {value}" if section == "url" else value
        for base in tops:
            found |= set(_paths_in(text, base))
            if value and _IS_PATH.fullmatch(key):
                found.add(_absolute(value, base))
    return found


def _paths_in(value: str, base: Path) -> Iterator[Path]:
    """What the words of a value may name, seen from a folder and from those it changes to."""
    bases = [base]
    text = _URL.sub(" ", _VARIABLE.sub("", _HOME_FOLDER.sub(_home().as_posix(), value)))
    words = [word for word in _SEPARATORS.split(text) if word]

    named: set[str] = set()
    changes_folder = False
    for before, word in zip(["", *words], words, strict=False):
        changes_folder = before in ("cd", "pushd", "-C") or (changes_folder and before.startswith("-"))
        if changes_folder:
            bases += [_absolute(word, place) for place in bases][: _MOST_FOLDERS - len(bases)]
        elif "/" in word or ("." in word and before):  # the first is a program: without a slash not one of this folder
            named.add(word)
    named |= {word for word in _quoted(text) if "/" in word}
    named |= {word for assigned in _ASSIGNED.findall(text) for word in _SEPARATORS.split(assigned) if word}
    named |= set(_scripts(words))

    for word in named:
        if not word.strip("./"):  # the whole folder, in which a command searches
            continue
        plain, pattern, _ = _PATTERN.sub("\0", word).partition("\0")
        path = plain.rpartition("/")[0] if pattern else plain
        for place in bases:
            yield _absolute(path, place)
            yield _absolute(path.lstrip("/"), place)  # after what the shell computes, as in `$(pwd)/a.sh`


def _scripts(words: list[str]) -> Iterator[str]:
    """The word after each interpreter and its options, each of which may have a word of its own."""
    is_due = False
    option = ""
    for word in words:
        if is_due and word.startswith("-"):
            option = word
        elif is_due:
            yield word
            if option == "-m":
                yield f"{word.replace('.', '/')}.py"
                yield word.replace(".", "/")
            is_due = bool(option) and not option.endswith("c")
            option = ""
        is_due = is_due or _INTERPRETER.fullmatch(word) is not None


def _quoted(text: str) -> list[str]:
    """The words of a shell's line, which may hold spaces, and those of lines within it."""
    try:
        words = shlex.split(text.removeprefix("!"))
    except ValueError:  # an open quote
        return []
    return words + [inner for word in words if " " in word for inner in _quoted(word)]


def _all_settings(top: Path, root: Path) -> Iterator[tuple[Path, str, str]]:
    """The settings that hold in a work tree or may: the file each is in, its name, its value.

    git gives names in lower case, but for what is in their middle.
    """
    waiting = list(_config_files(top))
    seen: set[Path] = set()
    while waiting and len(seen) < _MOST_INCLUDES:
        file = waiting.pop(0)
        if file in seen:
            continue
        seen.add(file)
        for name, value in _settings(file, root):
            yield file, name, value
            if name.startswith(("include.", "includeif.")) and name.endswith(".path"):
                waiting.append(_absolute(value, file.parent))


def _config_files(top: Path) -> Iterator[Path]:
    yield Path("/etc/gitconfig")
    yield _home() / ".gitconfig"
    yield Path(os.environ.get("XDG_CONFIG_HOME") or _home() / ".config") / "git/config"
    for folder in git_folders(top):
        yield folder / "config.worktree"
        yield folder / "config"


def git_folders(top: Path) -> list[Path]:
    """The folder of a work tree's repository, and the one it shares with other work trees."""
    folder = top / ".git"
    if not os.path.lexists(folder):
        folder = top
    folders = [folder]
    with suppress(OSError, ValueError):
        if folder.is_file():
            folders = [_absolute(folder.read_text("utf-8").removeprefix("gitdir:").strip(), top)]
        folders.append(_absolute((folders[0] / "commondir").read_text("utf-8").strip(), folders[0]))
    return folders


def _settings(file: Path, root: Path) -> list[tuple[str, str]]:
    with suppress(OSError):
        about = file.stat()
        if stat.S_ISREG(about.st_mode):
            program = find_program("git", root)
            return _listed(program, file, (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns))
    return []


@lru_cache(maxsize=256)
def _listed(program: str | None, file: Path, _version: tuple[int, ...]) -> list[tuple[str, str]]:
    """What git finds in a file; it is asked once for each version of it."""
    if program is None:
        return []
    line = [program, "config", "--file", str(file), "--no-includes", "-z", "--list"]
    environment = {**GIT_ALONE, "GIT_DIR": "/nonexistent"}
    try:
        done = subprocess.run(line, capture_output=True, timeout=_DEADLINE, check=False, cwd="/", env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return []
    settings = (setting.partition("\n") for setting in os.fsdecode(done.stdout).split("\0"))
    return [(name, value) for name, _, value in settings]


def _links_of_repository(top: Path) -> Iterator[Path]:
    """Links among its hooks and settings."""
    for folder in git_folders(top):
        for inner in (folder, folder / "hooks", folder / "info"):
            yield from _links_in(inner)
            if inner.is_symlink():
                yield _absolute(str(inner.readlink()), inner.parent)


def _links_in(folder: Path) -> list[Path]:
    """The targets of the links in a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [_absolute(str(Path(entry).readlink()), folder) for entry in entries if entry.is_symlink()]
    return []


def _way(path: Path, root: Path) -> Iterator[Path]:
    """Each link by which a path leads to where it ends, and its end; only what is in the workspace."""
    for _ in range(_MOST_LINKS):
        if path == root or not path.is_relative_to(root):
            return
        parents = [folder for folder in reversed(path.parents) if folder != root and folder.is_relative_to(root)]
        link = next((place for place in (*parents, path) if place.is_symlink()), None)
        if link is None:
            yield path
            return
        yield link
        path = Path(os.path.normpath(link.parent / link.readlink() / path.relative_to(link)))


def _home() -> Path:
    return Path(os.environ.get("HOME") or "/nonexistent")


def _absolute(path: str, base: Path) -> Path:
    """Without following links: what is at each of its names counts."""
    if path.startswith("~"):
        path = os.path.expanduser(path)  # noqa: PTH111 - a user that is not known is no error
    return Path(os.path.normpath(base / path))
