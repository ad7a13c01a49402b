"""What the repository holds: the files git knows or would take in, and the modules of the package.

Where git is not there (an unpacked archive), the folders are walked and what `.gitignore` names is left out.
"""

import ast
import fnmatch
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def files() -> tuple[Path, ...]:
    """Every file that is tracked, or would be by `git add .`, sorted."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout.decode()
        found = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        found = list(_walk())
    return tuple(sorted(path for path in found if path.is_file()))


def _walk() -> Iterator[Path]:
    lines = [line.strip() for line in (ROOT / ".gitignore").read_text().splitlines() if line.strip()]
    ignored = [line.strip("/").removesuffix("/*") for line in lines if not line.startswith("!")]
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name != ".git" and not any(fnmatch.fnmatch(name, i) for i in ignored)]
        yield from (Path(folder) / name for name in names if not any(fnmatch.fnmatch(name, i) for i in ignored))


def named(suffix: str, *under: str) -> tuple[Path, ...]:
    """The files that end so, in one folder of the repository or in all of it."""
    return tuple(path for path in files() if path.suffix == suffix and path.is_relative_to(ROOT.joinpath(*under)))


def name_of(path: Path) -> str:
    """The path as messages state it."""
    return path.relative_to(ROOT).as_posix()


def text_of(path: Path) -> str:
    """What the file states; what is no text comes out as replacement characters."""
    return path.read_text("utf-8", "replace")


def docstring_of(path: Path) -> str:
    """A module's docstring; empty where it has none."""
    return ast.get_docstring(ast.parse(text_of(path))) or ""
