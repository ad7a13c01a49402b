"""What the records of an `/undo` do to the work under way."""

from typing import Final

from tenex.core import records as r
from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.values import replace
from tenex.core.work.state import Work

from .state import UndoState

UNDO: Final = Reducers[Work]("work")


@UNDO.on(r.UndoRequested)
def _undo_requested(work: Work, record: r.UndoRequested, _: State) -> Work:
    return replace(work, undo=UndoState(seq=record.seq, scope=record.scope, to=record.to))


@UNDO.on(r.FilesUndone)
def _undone(work: Work, record: r.FilesUndone, _: State) -> Work:
    is_list = bool(record.files) and not record.restored_tree and not record.fault
    listed = replace(work.undo, to=record.to, is_open=False) if is_list and work.undo is not None else None
    return replace(work, undo=listed)
