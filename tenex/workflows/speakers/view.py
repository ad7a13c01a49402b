"""What of a workflow of speakers users are shown."""

from collections.abc import Iterator
from typing import Any

from tenex.core.kind_format import KindShare
from tenex.core.record import Record
from tenex.core.state import State
from tenex.core.text.lines import PARTNER, Place, Row

from . import records as w
from .end_words import end_words
from .state import WorkflowSession, session_of


def session_view(session: WorkflowSession) -> dict[str, Any]:
    """A session as users are to read it."""
    speakers = session.speakers
    return {
        "name": session.slug,
        "next": speakers.expected_next_speaker,
        "turnCount": speakers.turn_count,
        "participants": list(speakers.participant_order),
        "context": dict(speakers.context_vars),
        "lastSpeaker": speakers.last_speaker_id,
        "closeReason": session.close_reason or None,
        "waits": {name: watch.due for name, watch in sorted(session.watches.items())},
    }


def share_of(state: State) -> KindShare | None:
    """The speaker who is next, or why the workflow has ended."""
    session = session_of(state)
    if session is None:
        return None
    status: dict[str, Any] | None = None
    where = ""
    if session.is_closed:
        status = {"name": session.name, "closeReason": session.close_reason}
        where = f"{session.name}: ended, {end_words(session.close_reason)}"
    elif session.expected is not None:
        status = {"name": session.name, "speaker": session.expected}
        where = f"{session.name}: {session.expected}"
    return KindShare(name="workflow", view=session_view(session), status=status, where=where)


def rows_of(record: Record, place: Place) -> Iterator[Row]:
    """The lines of a workflow's record."""
    match record:
        case w.WorkflowOpened():
            place[PARTNER] = record.workflow
            yield Row("phase", f"🗣 {record.name}", ", ".join(record.participants))
        case w.ContextSet():
            values = [f"{key} = {value!r}" for key, value in record.set_.items()]
            changes = ", ".join([*values, *(f"no {key}" for key in record.delete)])
            yield Row("dim", "variable", f"{changes} (by {record.by})")
        case w.ExpectationMissed():
            yield Row("notice", "late", end_words(record.expectation))
