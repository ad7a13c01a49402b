"""What stands beside journals: views, what was set aside, what a cut-short write left, files of other programs."""

import json
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from tenex.core.errors import StoreDamaged
from tenex.store import atomic, segments, view_ahead
from tenex.store.atomic_folder import is_half_done
from tenex.store.daemon_journal import FOLDER
from tenex.store.disk import PROBE
from tenex.store.journal_reader import VIEW
from tenex.store.lock import NAME

from . import disk
from .findings import Finding, Fix, fault, ok, warning
from .format import several

_TORN: Final = re.compile(r"journal(-\d+)?\.torn-.+")
_ASIDE: Final = re.compile(
    r"journal\.damaged-.+|(conversation|index|(orchestratorTurns|phaseTransitions)-\d+)\.damaged-\d+"
)
_OLD: Final = re.compile(r"[0-9a-f]{64}\.json")
_PART: Final = re.compile(r"(orchestratorTurns|phaseTransitions)-\d{6,}\.json")


def beside(folder: Path, names: Collection[str], last: int | None, *, is_running: bool) -> Iterator[Finding]:
    """What stands in a conversation's folder beside its journal.

    Args:
        folder: the conversation's.
        names: what is in it.
        last: the seq of the journal's last record; None where it has damage of its own.
        is_running: whether a daemon may be changing all this just now.
    """
    yield from _view(folder, last, has_view=VIEW in names, is_running=is_running)
    yield from _parts(folder, names, is_whole=last is not None, is_running=is_running)
    torn = sorted(name for name in names if _TORN.fullmatch(name))
    if torn:
        yield warning(
            f"{several(len(torn), 'torn tail')} of this journal set aside: steps a crash cut short",
            folder / torn[0],
            "nothing was lost that anybody was told of; remove when you have looked",
        )
    aside = sorted(name for name in names if _ASIDE.fullmatch(name))
    if aside:
        yield warning(
            f"{several(len(aside), 'damaged file')} of this conversation set aside when it was mended",
            folder / aside[0],
            "all goes on without them; remove when you have looked",
        )
    for name in sorted(name for name in names if view_ahead.KEPT.fullmatch(name)):
        yield warning(
            "this tells of records that the journal had lost when the daemon went on with it",
            folder / name,
            "to rebuild from it, copy it to conversation.json while no daemon runs; else remove it after a look",
        )
    strays = sorted(
        name
        for name in names
        if name.startswith("journal") and not segments.number_of(name) and name not in {*torn, *aside}
    )
    if strays:
        yield warning(
            f"{several(len(strays), 'file')} beside the journal that are none of it, and never read",
            folder / strays[0],
            "a copy, or renamed by somebody: look what is in it, and move it out of the folder",
        )
    leftovers = sorted(name for name in names if atomic.LEFTOVER.fullmatch(name))
    if leftovers and not is_running:
        yield warning(
            f"{several(len(leftovers), 'file')} left by a write that was cut short",
            folder / leftovers[0],
            "remove it; the next start does too",
            Fix(act=lambda: _swept(folder), needs_rest=True),
        )


def stranger(path: Path) -> Iterator[Finding]:
    """What stands beside the conversations' folders."""
    name = path.name
    if name in (FOLDER, NAME, PROBE) or name.startswith(disk.PROBE):
        return
    if name.startswith("index."):
        if _ASIDE.fullmatch(name):
            yield warning("a damaged index that was set aside", path, "it was a cache: remove it")
    elif _OLD.fullmatch(name) and path.is_file():
        if (path.parent / path.stem).exists():
            yield warning(
                "the file of an older program beside the folder of the same conversation: it is not read",
                path,
                "move it out of this folder; the journal is what holds",
            )
        elif not isinstance(_parsed(path), dict):
            yield fault(
                "the file of an older program cannot be read, so its conversation cannot go on",
                path,
                f"put it back from a copy; or move it away and run `tenex conversations rebuild {path.stem} "
                "--from relay` while no daemon runs",
                StoreDamaged,
            )
        else:
            yield ok("a conversation of an older program, taken in when somebody writes in its thread", path)
    elif atomic.LEFTOVER.fullmatch(name):
        yield _cut_short(path)
    else:
        yield warning("this is no conversation: its name is not 64 hex digits", path, "move it out of this folder")


def _cut_short(path: Path) -> Finding:
    """What an import, a fork or a rebuild built beside the folder it was to be, or to be in the place of."""
    conversation = path.name[1:65]
    if not is_half_done(path):
        return warning(
            "left by an import, a fork or a rebuild that was cut short",
            path,
            "remove it, and do the same again",
            Fix(act=lambda: _removed(path), needs_rest=True),
        )
    if (path.parent / conversation).exists():
        return warning(
            "this is what a conversation was before a rebuild",
            path,
            "all goes on without it; remove when you have looked",
        )
    return fault(
        f"a rebuild was cut short before its last step: {conversation[:12]} is in here",
        path,
        f"run `tenex conversations rebuild {conversation} --from conversation.json` again, while no daemon runs: "
        "it puts back what was there first",
        StoreDamaged,
    )


def read(path: Path) -> bytes:
    """The bytes of a file, which may be a pipe or a link.

    Raises:
        OSError: it is no file, or cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:  # noqa: PTH123 a descriptor has no path
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is no file")
        return file.read()


def _view(folder: Path, last: int | None, *, has_view: bool, is_running: bool) -> Iterator[Finding]:
    path = folder / VIEW
    if not has_view:
        if not is_running:
            yield warning("conversation.json is missing", path, "nothing to do: the next start writes it")
        return
    view = _parsed(path)
    if not isinstance(view, dict) and last is None:
        yield warning("conversation.json cannot be read", path, "put it back from a copy, if there is one")
        return
    if not isinstance(view, dict):
        yield _unread(path, "conversation.json cannot be read; the journal has it all")
        return
    covered = view.get("seq")
    if last is not None and type(covered) is int and covered > last and not is_running:
        yield fault(
            f"conversation.json covers record {covered}, but the journal ends with {last}: the end of it is missing",
            path,
            "put the newest file of the journal back from a copy; or stop the daemon: `tenex conversations rebuild "
            f"{folder.name[:12]} --force` takes what conversation.json has",
            StoreDamaged,
        )


def _parts(folder: Path, names: Collection[str], *, is_whole: bool, is_running: bool) -> Iterator[Finding]:
    """The older turns and transitions beside a view; a start writes them where it writes the view, and only there."""
    there = {name for name in names if _PART.fullmatch(name)}
    lost = [(name, "cannot be read") for name in there if _parsed(folder / name) is None]
    if not is_running:  # a daemon may have written them since
        lost += [(name, "are missing") for name in _listed(folder / VIEW) - there]
    for name, how in sorted(lost):
        part = folder / name
        if is_whole:
            fix = Fix(act=lambda p=part: _away(p, folder / VIEW), needs_rest=True)  # type: ignore[misc]
            mend = f"move it away if it is there, and {VIEW} with it; the next start writes both anew"
            yield warning(f"older turns {how}; the journal has them all", part, mend, fix)
        else:
            yield warning(f"older turns {how}", part, "put it back from a copy, if there is one")


def _listed(view: Path) -> set[str]:
    """The parts a view says there are."""
    told = _parsed(view)
    lists = [value for name, value in told.items() if name.startswith("earlier")] if isinstance(told, dict) else []
    return {name for one in lists if isinstance(one, list) for name in one if _PART.fullmatch(str(name))}


def _unread(path: Path, what: str) -> Finding:
    fix = Fix(act=lambda: _away(path), needs_rest=True)
    return warning(what, path, "move it away; the next start writes it anew", fix)


def _away(*paths: Path) -> str:
    """Set aside what is there; of two parts of one view the first takes the view along."""
    moved = [atomic.set_aside(path, "damaged").name for path in paths if os.path.lexists(path)]
    return f"set aside as {', '.join(moved)}" if moved else "set aside already"


def _parsed(path: Path) -> Any:
    """The JSON in a file; None where it holds none."""
    try:
        return json.loads(read(path))
    except (OSError, ValueError, RecursionError):
        return None


def _removed(folder: Path) -> str:
    shutil.rmtree(folder)
    return "removed"


def _swept(folder: Path) -> str:
    atomic.sweep(folder)
    return "removed"
