"""What each record does to the identity of a conversation."""

from typing import Final

from tenex.core import records as r
from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.values import replace

from .state import UNCOUNTED, Identity, UncountedAnswer, title_of

IDENTITY: Final = Reducers[Identity]("identity")


@IDENTITY.on(r.ConversationStarted)
def _started(identity: Identity, record: r.ConversationStarted, _: State) -> Identity:
    return replace(
        identity,
        title=record.title,
        starter=record.starter,
        address=record.address,
        started_at=record.at,
    )


@IDENTITY.on(r.MessageRecorded)
def _wrote(identity: Identity, record: r.MessageRecorded, _: State) -> Identity:
    title = identity.title or title_of(record.text)
    by_machines = identity.by_machines + 1 if record.by_machine else 0
    return replace(identity.received(record.event_id), title=title, by_machines=by_machines)


@IDENTITY.on(r.CommandGiven)
def _command(identity: Identity, record: r.CommandGiven, _: State) -> Identity:
    return identity.received(record.event_id)


@IDENTITY.on(r.MessageWithdrawn)
def _withdrawn(identity: Identity, record: r.MessageWithdrawn, _: State) -> Identity:
    return replace(identity, title="") if record.was_title else identity  # the next message names it


@IDENTITY.on(r.AnswerUncounted)
def _uncounted(identity: Identity, record: r.AnswerUncounted, _: State) -> Identity:
    answer = UncountedAnswer(question=record.question, author=record.author, at=record.at)
    return replace(identity, uncounted=(*identity.uncounted, answer)[-UNCOUNTED:])


@IDENTITY.on(r.PicturesUnseen)
def _pictures_unseen(identity: Identity, record: r.PicturesUnseen, _: State) -> Identity:
    if record.what == "voice notes":
        return replace(identity, voices_unread=True)
    return replace(identity, pictures_unseen=True)
