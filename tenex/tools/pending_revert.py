"""Persists the call whose changes may have to be reverted, for as long as it runs.

A daemon that was killed, or that could not take the second snapshot, reads it and reverts the changes before the next
call. Only files that the call itself can have changed are reverted: their ctime, which cannot be set, is within the
call. Later changes of a user are kept.
"""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tenex.core.phases import Phase
from tenex.core.ports import ExecutionContext
from tenex.log import get_logger

from .snapshots import Snapshot

NAME: Final = "unsettled.json"
_SLACK: Final = 1.0  # seconds: the system notes times by its last tick, and its programs end a moment after it is asked
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRevert:
    """A call that began and whose end was not recorded. Times are seconds since 1970."""

    tool: str
    context: ExecutionContext
    before: Snapshot
    since: float
    until: float
    """It had ended then, at the latest."""

    def may_have_changed(self, root: Path, path: bytes) -> bool:
        """Whether a path, or the folder it is missing from, was changed while the call ran."""
        while True:
            try:
                changed = os.lstat(os.fsencode(root) + b"/" + path).st_ctime
            except OSError:
                if not path:
                    return False
                path = path.rpartition(b"/")[0]
                continue
            return self.since - _SLACK <= changed <= self.until + _SLACK


class PendingReverts:
    """Stores the one call of a workspace that is running. Blocks."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of the checkpoints."""
        self._path = folder / NAME

    def open(self, tool: str, context: ExecutionContext, before: Snapshot, longest: float) -> PendingRevert:
        """Note a call that may take so many seconds.

        Raises:
            OSError: it cannot be noted.
        """
        now = time.time()
        begun = PendingRevert(tool=tool, context=context, before=before, since=now, until=now + longest)
        self._write(begun)
        return begun

    def ended(self, begun: PendingRevert) -> None:
        """Record that the call has ended; its changes are still to be reverted."""
        with suppress(OSError):  # a later time is kept then
            self._write(replace(begun, until=min(begun.until, time.time())))

    def close(self) -> None:
        """Delete the record: the changes are reverted."""
        self._path.unlink(missing_ok=True)

    def unfinished(self) -> PendingRevert | None:
        """The call whose changes were never reverted, if there is one."""
        try:
            noted = self._path.read_bytes()
        except OSError:
            return None
        try:
            return _read(json.loads(noted))
        except (ValueError, KeyError, TypeError) as error:
            _log.warning("checkpoint.pending_revert_unreadable", error=type(error).__name__)
            self.close()
            return None

    def _write(self, begun: PendingRevert) -> None:
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps(_written(begun)))
        beside.replace(self._path)


_CONTEXT: Final = {
    "conversation": "conversation_id",
    "cycle": "cycle",
    "turn": "turn",
    "phase": "phase",
    "agent": "agent",
    "key": "idempotency_key",
    "call": "call_id",
}
"""The names in the file of what is kept of a context."""

_PATHS: Final = ("empty", "hidden")
"""Sets of paths in a snapshot."""


def _written(begun: PendingRevert) -> dict[str, Any]:
    context = begun.context
    before = begun.before
    return {
        "tool": begun.tool,
        "since": begun.since,
        "until": begun.until,
        **{name: getattr(context, attribute) for name, attribute in _CONTEXT.items()},
        "touched": sorted(context.touched),
        "tree": before.tree,
        "unkept": _named(before.unkept),
        "permissions": _named(before.permissions),
        **{name: [os.fsdecode(path) for path in getattr(before, name)] for name in _PATHS},
    }


def _read(noted: dict[str, Any]) -> PendingRevert:
    kept = {attribute: noted[name] for name, attribute in _CONTEXT.items()}
    kept |= {"phase": Phase(noted["phase"]), "touched": frozenset(noted["touched"])}
    before = Snapshot(
        tree=noted["tree"],
        unkept={os.fsencode(path): (stamp[0], stamp[1], stamp[2]) for path, stamp in noted["unkept"].items()},
        permissions={os.fsencode(path): mode for path, mode in noted["permissions"].items()},
        **{name: frozenset(os.fsencode(path) for path in noted.get(name, ())) for name in _PATHS},
    )
    context = ExecutionContext(previous_phase=None, handoff=None, **kept)
    since = float(noted["since"])
    until = float(noted["until"])
    return PendingRevert(tool=noted["tool"], context=context, before=before, since=since, until=until)


def _named(paths: Mapping[bytes, Any]) -> dict[str, Any]:
    return {os.fsdecode(path): value for path, value in paths.items()}
