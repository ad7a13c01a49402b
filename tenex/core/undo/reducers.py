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
    asked = UndoState(
        seq=record.seq,
        scope=record.scope,
        to=record.to,
        paths=record.paths,
        is_all=record.is_all,
        has_no_list=record.has_no_list,
    )
    return replace(work, undo=asked)


@UNDO.on(r.FilesUndone)
def _undone(work: Work, record: r.FilesUndone, _: State) -> Work:
    can_go_back = bool(record.files or record.unclear or record.by_name)
    is_open_still = record.to > 0 if record.fault else can_go_back  # after a path that did not change too
    is_list = is_open_still and not record.restored_tree
    if work.undo is None or not is_list:
        return replace(work, undo=None)
    return replace(work, undo=UndoState(seq=work.undo.seq, scope=work.undo.scope, to=record.to, is_open=False))
