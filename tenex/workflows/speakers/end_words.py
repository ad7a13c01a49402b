"""Why a workflow has ended, in the words of people; the reason itself is for programs, in a tag."""

from typing import Final

from tenex.workflows.speakers.config import ACKS_WITHIN, MAX_SILENCE, REPLY_WITHIN, TTL, TURN_WITHIN
from tenex.workflows.speakers.fold import FINISHED
from tenex.workflows.speakers.rounds import RULE_FAILED, UNKNOWN_SPEAKER
from tenex.workflows.speakers.transitions import TERMINATED

_WORDS: Final = {
    FINISHED: "it is finished",
    TERMINATED: "no rule names who is next",
    UNKNOWN_SPEAKER: "its rules name somebody who does not take part",
    RULE_FAILED: "one of its rules failed",
    TURN_WITHIN: "an answer did not come in time",
    REPLY_WITHIN: "no person answered in time",
    ACKS_WITHIN: "not everybody was there in time",
    MAX_SILENCE: "no one wrote for too long",
    TTL: "its time is up",
    "max_turns": "the most rounds that it may have are done",
    "no_route": "no way leads on from what was said",
    "sequence_complete": "everybody has spoken",
    "round_robin_complete": "everybody has spoken",
    "star_complete": "everybody has spoken",
    "triage_complete": "it is finished",
    "feedback_loop_complete": "it is finished",
}


def end_words(reason: str) -> str:
    """A reason as part of a sentence; one of its author's own as it is written, with spaces for underscores."""
    words = _WORDS.get(reason)
    if words is not None:
        return words
    return reason.replace("_", " ") if reason.isidentifier() else reason
