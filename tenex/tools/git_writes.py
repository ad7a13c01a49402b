"""What a command may write in a repository for which a person has allowed that, and what it may not leave there.

A commit writes objects, references, logs, the index and messages: data that git reads and never runs. Everything else
in a repository's folder is mounted read-only: hooks and settings run programs, `info/attributes` and `commondir` choose
others, `rebase-merge` holds commands, `modules` and `worktrees` are repositories of their own. What did not exist
before the command and is no such data gets another name once the command has ended, and so is no hook and no setting.
A link that is new there is removed: a person's git would write through it, out of the repository.

Between the moment in which a command makes such a file and the command's end a person's git could read it.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from . import restore
from .daemon_programs import find_program
from .git_config import folders_elsewhere, git_folders
from .process import PROBE_DEADLINE
from .tool import Refusal

NO_IDENTITY: Final = (
    "git knows no name and address for commits here. A person sets them: `git config --global user.name NAME` and "
    "`git config --global user.email ADDRESS`; or give them with `git -c user.name=NAME -c user.email=ADDRESS commit`."
)

_DATA: Final = re.compile(r"(objects|refs|logs|index|sharedindex\.\w+|packed-refs|shallow|[A-Z][A-Z_]*)(\.lock)?")
"""The names of data in a repository's folder; those of capitals are references such as `HEAD`, and messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableRepository:
    """A repository that one command may write to. Its methods block."""

    folders: tuple[Path, ...]
    """Its own, and the one that it shares with other work trees; outer ones first."""
    identity: Mapping[str, str]
    """The settings of git that say who commits, as far as they are set."""
    _names: dict[Path, frozenset[str]] = field(default_factory=dict)
    _odd: frozenset[Path] = frozenset()

    @property
    def has_identity(self) -> bool:
        """Whether git knows who commits."""
        return len(self.identity) == len(_IDENTITY)

    def mounts(self) -> Iterator[tuple[str, Path]]:
        """The options of bubblewrap and their folders, in order."""
        for folder in self.folders:
            yield "--bind", folder
            for name in sorted(self._names[folder]):
                if not _DATA.fullmatch(name):
                    yield "--ro-bind", folder / name

    def settings(self) -> str:
        """The settings of git for the command, as a file of git's."""
        lines = ["[gc]", "auto = 0", "[maintenance]", "auto = false"]  # they would be stopped with the command
        for name, value in self.identity.items():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            lines += ["[user]", f'{name.removeprefix("user.")} = "{escaped}"']
        return "\n".join([*lines, ""])

    def settle(self, stopped: Iterable[Path] = ()) -> list[Path]:
        """Rename what came and is no data, and remove links, pipes and devices that came; returns their paths.

        Args:
            stopped: what a command made that was stopped before its end. Locks among it are removed: no git that
                runs now holds them, and each would keep the person's git from writing.
        """
        taken: list[Path] = []
        for path in stopped:
            if path.suffix == ".lock" and any(path.is_relative_to(folder) for folder in self.folders):
                with suppress(OSError):
                    path.unlink()
                    taken.append(path)
        for folder in self.folders:
            for name in sorted(_names_in(folder) - self._names[folder]):
                if not _DATA.fullmatch(name):
                    with suppress(OSError):
                        restore.rename_away(folder, os.fsencode(name))
                        taken.append(folder / name)
        for path in sorted(_odd_in(self.folders) - self._odd):
            with suppress(OSError):
                path.unlink()
                taken.append(path)
        return taken


_IDENTITY: Final = ("user.name", "user.email")


def writable_repository(root: Path, folder: Path) -> WritableRepository:
    """The repository that a folder of the workspace belongs to, for a command that may write to it; blocks.

    Raises:
        Refusal: there is none in the workspace, or it cannot be protected.
    """
    within = [place for place in (folder, *folder.parents) if place.is_relative_to(root)]
    top = next((place for place in within if os.path.lexists(place / ".git")), None)
    if top is None:
        shown = "the workspace" if folder == root else folder.relative_to(root)
        raise Refusal(f"Not run: {shown} is in no git repository of the workspace; set `cwd` to a folder of one.")
    permitted = folders_elsewhere(root)
    folders = sorted({place.resolve() for place in git_folders(top)})
    is_ours = all(place.is_relative_to(root) or place in permitted for place in folders)
    if (top / ".git").is_symlink() or not is_ours or not all(place.is_dir() for place in folders):
        raise Refusal("Not run: the repository lies outside the workspace, so a person has to write to it.")
    for place in folders:
        links = sorted(name for name in _names_in(place) if (place / name).is_symlink())
        if links:
            raise Refusal(f"Not run: `{place.name}/{links[0]}` is a link, which cannot be protected; a person commits.")
    return WritableRepository(
        folders=tuple(folders),
        identity=_identity(root, top),
        _names={place: _names_in(place) for place in folders},
        _odd=_odd_in(tuple(folders)),
    )


def _identity(root: Path, top: Path) -> dict[str, str]:
    """Who commits, by the settings of the repository, of the daemon's user and of the machine."""
    program = find_program("git", root)
    if program is None:
        return {}
    line = [program, "-c", "safe.directory=*", "config", "-z", "--includes", "--get-regexp", r"^user\.(name|email)$"]
    kept = ("PATH", "HOME", "XDG_CONFIG_HOME")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    try:
        done = subprocess.run(line, cwd=top, env=environment, capture_output=True, timeout=PROBE_DEADLINE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    entries = (entry.partition("\n") for entry in done.stdout.decode("utf-8", "replace").split("\0") if entry)
    found = {name: value for name, _, value in entries if value.strip()}  # the last counts
    return {name: found[name] for name in _IDENTITY if name in found}


def _names_in(folder: Path) -> frozenset[str]:
    with suppress(OSError):
        return frozenset(os.listdir(folder))  # noqa: PTH208 - names alone
    return frozenset()


def _odd_in(folders: tuple[Path, ...]) -> frozenset[Path]:
    """What is neither a file nor a folder among the data of repositories."""
    found: set[Path] = set()
    waiting = [folder / name for folder in folders for name in _names_in(folder) if _DATA.fullmatch(name)]
    while waiting:
        place = waiting.pop()
        if place.is_symlink() or not (place.is_dir() or place.is_file()):
            found.add(place)
        elif place.is_dir():
            with suppress(OSError), os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif not entry.is_file(follow_symlinks=False):
                        found.add(Path(entry.path))
    return frozenset(found)
