"""Running git on the shadow repository of the workspace, so that nothing in the workspace decides what it does.

Its configuration is written here, no user's is read, and no hook, filter or monitor runs: what an agent plants in
the workspace stays data. Line ends and encodings are left as they are on disk, whatever `.gitattributes` contains.
"""

import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tenex.core.errors import TransientError

from .daemon_programs import find_program
from .git_config import GIT_ALONE

DEADLINE: Final = 120.0
"""Seconds for one command: the first snapshot of 100,000 files takes about thirty, any other well under one."""

PATIENCE: Final = 15.0
"""Seconds before we look whether something in the workspace makes git wait for ever."""

STDERR_CHARACTERS: Final = 300
"""Characters of git's stderr in an error: the first line is the reason."""

MOST_SHOWN: Final = 1024 * 1024
"""Bytes of answers about trees that are remembered: a tree of 10,000 files takes as much."""

_CONFIG: Final = """\
# written by tenex at every start; changes are lost
[core]
\trepositoryformatversion = 0
\tbare = true
\tsharedRepository = 0600
\thooksPath = /dev/null
\tattributesFile = /dev/null
\tfsmonitor = false
\tuntrackedCache = false
\tautocrlf = false
\tsafecrlf = false
\tfileMode = true
\tsymlinks = true
\tignoreCase = false
\tprotectHFS = false
\tprotectNTFS = false
\tcompression = 1
[gc]
\tautoDetach = false
[user]
\tname = tenex
\temail = tenex@localhost
"""
"""Names that other systems cannot hold are no danger here, where nothing is ever checked out by git."""

_DAMAGE: Final = re.compile(
    r"corrupt|is empty|invalid object|bad object|missing object|not a valid object|unable to read|reference broken"
    r"|unable to resolve reference|unknown revision|inflate|not a git repository"
    r"|bad (tree|sha1|config)|could not parse|hash mismatch"
)
"""Git's messages about objects, references and indexes that were half written in a power failure."""

_ATTRIBUTES: Final = "* -text -ident !filter !eol !working-tree-encoding\n"
"""The bytes as they are: this file counts before every `.gitattributes` of the workspace."""


def has_git(root: Path) -> bool:
    """Whether git is installed; without it there are no checkpoints."""
    return find_program("git", root) is not None


class CheckpointFailed(TransientError):
    """The shadow repository did not take or give a snapshot; the workspace is as it was."""


class ShadowDamaged(CheckpointFailed):
    """Git cannot read what the shadow repository holds."""


class GitTooSlow(CheckpointFailed):
    """It took longer than it was given, and was ended."""


class ShadowGit:
    """One bare repository of ours, with the workspace for a work tree. All methods block; one caller at a time."""

    def __init__(self, folder: Path, root: Path, excludes: Sequence[str], *, reads_only: bool = False) -> None:
        """Take where the repository lies or shall lie, the workspace, and patterns that are never kept.

        With `reads_only` nothing is made, repaired or unlocked: another process may be at work in the repository.
        """
        self.folder: Final = folder
        self.root: Final = root
        self.exclude: Final = folder / "info" / "exclude"
        self._reads_only = reads_only
        self._excludes = "".join(f"{pattern}\n" for pattern in excludes)
        self._is_ready = False
        self._deadline = DEADLINE
        self._shown: dict[tuple[str, ...], bytes] = {}
        """What git has said about trees, the oldest first."""

    def run(self, *arguments: str, feed: bytes = b"", literal: bool = True) -> bytes:
        """Run one command, and return what it printed.

        Args:
            arguments: the command's own, each one word to it.
            feed: its standard input.
            literal: whether paths are names, not patterns.

        Raises:
            GitTooSlow: it took too long.
            CheckpointFailed: git is missing, or failed.
        """
        if not self._is_ready:
            self._prepare()
        return self._run(["--git-dir", str(self.folder), "--work-tree", str(self.root), *arguments], feed, literal)

    def show(self, *arguments: str) -> bytes:
        """Run a command that only says what trees hold, named by their ids: the answer is remembered.

        Raises:
            CheckpointFailed: as of `run`.
        """
        if arguments in self._shown:
            self._shown[arguments] = self._shown.pop(arguments)  # the newest
            return self._shown[arguments]
        answer = self.run(*arguments)
        self._shown[arguments] = answer
        while sum(map(len, self._shown.values())) > MOST_SHOWN:
            del self._shown[next(iter(self._shown))]
        return answer

    @contextmanager
    def within(self, deadline: float) -> Iterator[None]:
        """Give each command in this block so many seconds."""
        self._deadline = deadline
        try:
            yield
        finally:
            self._deadline = DEADLINE

    def forget_index(self) -> None:
        """Drop what git knows of the work tree; the next snapshot reads all of it again.

        Raises:
            CheckpointFailed: it cannot be dropped.
        """
        with self._repairing():
            (self.folder / "index").unlink(missing_ok=True)

    def unlock(self) -> None:
        """Drop the locks a killed git leaves; the folder is ours alone, so their holders are dead.

        Raises:
            CheckpointFailed: they cannot be dropped.
        """
        if self._reads_only:
            return
        with self._repairing():
            for lock in (*self.folder.glob("*.lock"), *(self.folder / "refs").rglob("*.lock")):
                lock.unlink(missing_ok=True)

    def replace_repository(self) -> Path:
        """Rename the repository, so that a new one is made; returns its new path.

        Raises:
            CheckpointFailed: it cannot be moved.
        """
        if self._reads_only:
            raise CheckpointFailed(f"{self.folder}: the checkpoints are damaged")
        aside = self.folder.with_name(f"{self.folder.name}.broken-{time.time_ns()}")
        with self._repairing():
            self.folder.rename(aside)
        self._is_ready = False
        self._shown.clear()
        return aside

    @contextmanager
    def _repairing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CheckpointFailed(f"{self.folder}: the checkpoints cannot be repaired ({error.strerror})") from error

    def _prepare(self) -> None:
        if self._reads_only:
            if not (self.folder / "HEAD").exists():
                raise CheckpointFailed(f"{self.folder}: no checkpoint is there yet")
            self._is_ready = True
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not (self.folder / "HEAD").exists():
                self._create_repository()
            self.exclude.parent.mkdir(mode=0o700, exist_ok=True)
            (self.folder / "config").write_text(_CONFIG)
            (self.folder / "info" / "attributes").write_text(_ATTRIBUTES)
            self.exclude.write_text(self._excludes)
            self.unlock()
        except OSError as error:
            raise CheckpointFailed(f"{self.folder}: the checkpoints cannot be kept there ({error.strerror})") from error
        self._is_ready = True

    def _create_repository(self) -> None:
        """Create it beside its place and rename it, so that `tenex doctor` and a restart never see half of one."""
        beside = self.folder.with_name(f"{self.folder.name}.new")
        in_place = any(self.folder.iterdir()) or self.folder.is_mount()  # it has lost its HEAD; or cannot be renamed
        if not in_place:
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir(mode=0o700)
        self._run(["init", "-q", "--bare", "--template=", str(self.folder if in_place else beside)], b"", literal=True)
        if not in_place:
            beside.rename(self.folder)

    def _run(self, arguments: list[str], feed: bytes, literal: bool) -> bytes:
        program = find_program("git", self.root)
        if program is None:
            raise CheckpointFailed("git is not installed; without it there are no checkpoints")
        try:
            done = subprocess.run(
                [program, *arguments],
                input=feed,
                capture_output=True,
                timeout=self._deadline,
                check=False,
                cwd=self.root,
                env=_environment(literal),
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            self.unlock()
            raise GitTooSlow(f"git took longer than {self._deadline:g} s for a checkpoint") from error
        except OSError as error:
            raise CheckpointFailed(f"git cannot be run in {self.root}: {error.strerror}") from error
        if done.returncode != 0:
            stderr = done.stderr.decode("utf-8", "replace").strip()
            kind = ShadowDamaged if _DAMAGE.search(stderr) else CheckpointFailed
            raise kind(f"git ended with status {done.returncode} at a checkpoint: {stderr[:STDERR_CHARACTERS]}")
        return done.stdout


def _environment(literal: bool) -> dict[str, str]:
    return {
        **GIT_ALONE,
        "LC_ALL": "C",
        "GIT_DEFAULT_HASH": "sha1",  # a later git has another default
        "GIT_DEFAULT_REF_FORMAT": "files",
        "GIT_LITERAL_PATHSPECS": "1" if literal else "0",
    }
