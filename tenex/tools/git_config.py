"""What the configuration of a person's repository runs or reads in the workspace: hooks, filters, included files.

A person's git runs these files with the person's rights, so an agent may not change them.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_RUN: Final = re.compile(
    "fsmonitor|clean|smudge|process|textconv|command|driver|external|pager|editor|sshcommand|askpass|helper|program|cmd"
)
"""The last part of the names of settings whose value git runs."""

GIT_ALONE: Final = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
"""The environment of git without anybody's settings."""

_DEADLINE: Final = 10.0
"""Seconds for git to read a file, which takes some milliseconds."""


def named_by_config(top: Path, root: Path) -> set[Path]:
    """The paths in the workspace that git runs or reads as configuration in a work tree; they need not exist.

    Args:
        top: the folder of the work tree, which holds a `.git`.
        root: the workspace.
    """
    found: set[Path] = set()
    for file in _config_files(top):
        for origin, name, value in _settings(file):
            section, key = name.partition(".")[0], name.rpartition(".")[2]
            if section in ("include", "includeif") and key == "path":
                found.add(_absolute(value, origin.parent))
            elif key == "hookspath":
                found.add(_absolute(value, top))
            elif _RUN.fullmatch(key) or section == "pager" or (section == "alias" and value.startswith("!")):
                found |= {_absolute(word, top) for word in _words(value) if "/" in word or "." in word}
    return {path for path in found if path not in (root, top) and path.is_relative_to(root)}


def _config_files(top: Path) -> Iterator[Path]:
    home = Path(os.environ.get("HOME") or "/nonexistent")
    yield home / ".gitconfig"
    yield Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git/config"
    folder = top / ".git"
    with suppress(OSError, ValueError):
        if folder.is_file():
            folder = _absolute(folder.read_text("utf-8").removeprefix("gitdir:").strip(), top)
        yield folder / "config.worktree"
        with suppress(FileNotFoundError):
            folder = _absolute((folder / "commondir").read_text("utf-8").strip(), folder)
        yield folder / "config"


def _settings(file: Path) -> Iterator[tuple[Path, str, str]]:
    """The settings of a file and those it includes: the file each is in, its name in lower case, its value."""
    program = shutil.which("git")
    if program is None or not file.is_file():
        return
    line = [program, "config", "--file", str(file), "--includes", "--show-origin", "-z", "--list"]
    environment = {**GIT_ALONE, "GIT_DIR": "/nonexistent"}
    try:
        done = subprocess.run(line, capture_output=True, timeout=_DEADLINE, check=False, cwd="/", env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return
    fields = iter(os.fsdecode(done.stdout).split("\0"))
    for origin, setting in zip(fields, fields, strict=False):
        name, _, value = setting.partition("\n")
        yield Path(origin.removeprefix("file:")), name.lower(), value


def _words(value: str) -> list[str]:
    try:
        return shlex.split(value.removeprefix("!"))
    except ValueError:  # an open quote
        return value.split()


def _absolute(path: str, base: Path) -> Path:
    """Without following links: what is at each of its names counts."""
    return Path(os.path.normpath(base / path))
