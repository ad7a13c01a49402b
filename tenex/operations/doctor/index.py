"""The index: whole, of our version, and how far behind the journals."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tenex.core.errors import StoreError
from tenex.store import atomic, segments
from tenex.store.schema import VERSION

from .findings import Case, Finding, Fix, fault, ok, warning
from .format import several

NAME: Final = "index.sqlite"
SIDES: Final = ("-wal", "-shm", "-journal")
ANEW: Final = "move it away while no daemon runs: it is a cache, and the next start makes it anew from the journals"


def index(case: Case) -> Iterator[Finding]:
    """The index of all conversations."""
    root = case.places.conversations if case.places else None
    if root is None or not root.is_dir():
        return
    path = root / NAME
    if not path.exists() and not path.is_symlink():
        yield ok("there is no index yet; the next start makes it", path)
        return
    if not path.is_file():
        yield fault("this is no file", path, ANEW, StoreError, Fix(act=lambda: _away(path), needs_rest=True))
        return
    try:
        with closing(_opened(path)) as connection:
            known = _known(connection)
    except (sqlite3.Error, OSError) as error:
        yield warning(f"the index is damaged: {error}", path, ANEW, Fix(act=lambda: _away(path), needs_rest=True))
        return
    if known is None:
        yield warning(f"the index is not of version {VERSION}", path, "nothing to do: the next start makes it anew")
        return
    behind = [name for name, length in _lengths(root).items() if known.get(name) != length]
    if behind and not case.daemon.running:
        yield ok(f"the index is whole, and behind by {several(len(behind), 'conversation')}, which a start reads", path)
    else:
        yield ok(f"the index is whole and knows {several(len(known), 'conversation')}", path)


def _opened(path: Path) -> sqlite3.Connection:
    """Open it for reading only; where nobody else has it open, without leaving a file beside it."""
    has_side = path.with_name(NAME + "-wal").exists()
    mode = "mode=ro" if has_side else "mode=ro&immutable=1"
    return sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=3)


def _known(connection: sqlite3.Connection) -> dict[str, int] | None:
    """The conversations it knows, with the lengths of their journals; None where it is of another version."""
    if connection.execute("pragma user_version").fetchone()[0] != VERSION:
        return None
    said = connection.execute("pragma quick_check(1)").fetchone()[0]
    if said != "ok":
        raise sqlite3.DatabaseError(str(said).splitlines()[0])
    connection.execute("select event_id, conversation from events limit 1").fetchone()
    connection.execute("select relay, at from cursors limit 1").fetchone()
    return dict(connection.execute("select id, bytes from conversations").fetchall())


def _lengths(root: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for folder in root.iterdir():
        if len(folder.name) == 64:
            try:
                found[folder.name] = segments.stat_all(str(folder))[0]
            except OSError:
                continue
    return found


def _away(path: Path) -> str:
    moved = [atomic.set_aside(path, "damaged").name]
    for side in SIDES:
        beside = path.with_name(NAME + side)
        if beside.exists():
            moved.append(atomic.set_aside(beside, "damaged").name)
    return f"set aside as {', '.join(moved)}"
