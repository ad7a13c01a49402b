"""What the router says of users' messages that no turn of execute has to carry out, held against what can be seen.

A router errs, and a message that it took for thanks was lost. So a message stays a request unless this holds:

    thanks, waiver   the router quotes the words, and they are all that the message says: one word that is left, such
                     as "undo", can be a request. The message is short: who writes more than `WORDS` wants more.
                     A wish to waive gates that is only a part of a message, or a longer one, settles nothing; the user
                     is asked about it. Thanks, a yes or a no ("sorry, no.") are no such wish.
    carried_out      the router names a turn, and an agent of it changed something after it was shown the message.

What was taken so is recorded with the words (`Routed.settled`), and the last word on the cycle quotes them. It rings
where they may be a request ("make it green") for all that can be seen.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from tenex.core.answers.yes_no import asks_for_nothing
from tenex.core.conversation import Conversation
from tenex.core.inbox.message import Message, Settlement
from tenex.core.memory.window import in_a_line
from tenex.core.router.answer import RoutingDecision, Settles
from tenex.core.state import State
from tenex.core.text.foreign import plain
from tenex.core.text.names import is_placeholder
from tenex.workflows.phases.records import Waived
from tenex.workflows.phases.state import phases_of

from . import waivers
from .routing import Rejected, Settled

WORDS: Final = 8
"""Of thanks, or of a wish to stop: "that's enough, no more checks". To answer longer thanks costs a turn; a request
that is taken for thanks is lost."""
CHARACTERS: Final = 60
"""Of the same, in scripts that put no spaces between words."""
QUOTE: Final = 80
"""Characters of a message that a sentence quotes."""


def settled(conversation: Conversation, decision: RoutingDecision) -> Settled | Rejected:
    """The messages of which nothing is left to be done, or why what the router says of one does not count.

    What it says of a message that has been dealt with already changes nothing.
    """
    settlements: dict[int, Settlement] = {}
    wish = ""
    requests = {message.seq for message in conversation.requests}
    for claim in decision.settles:
        quoted = _quoted(conversation, claim.words)
        if not quoted:
            return Rejected(
                sentence=f"No person wrote {_quotation(claim.words)} in this cycle: quote their words in `settles`.",
                plain="quoted words that you did not write",
            )
        if claim.kind == "waiver":
            wish = claim.words.strip()
        still_open = [message for message in quoted if message.seq in requests]
        found = _checked(conversation, decision, claim, still_open) if still_open else ()
        if isinstance(found, Rejected):
            return found
        settlements |= {settlement.message: settlement for settlement in found}
    return Settled(messages=tuple(settlements.values()), wish=wish)


def settled_words(state: State) -> Iterator[str]:
    """What users wrote that was taken as thanks, as done in a gate, or as a waiver without a question: a line each."""
    phases = {turn.turn_id: turn.phase for turn in state.cycle.turns}
    for message in state.cycle.messages:
        settlement = message.settlement
        if settlement is not None and settlement.kind == "thanks":
            is_clear = asks_for_nothing(message.text)
            yield f"Taken as thanks: {_quotation(message.text)}." + (
                "" if is_clear else " Write again if it is a request."
            )
        elif settlement is not None and settlement.turn in phases:
            yield f"Done in {phases[settlement.turn]} already: {_quotation(message.text)}."
    for waiver in phases_of(state).waivers:
        if waiver.unasked:
            who = who_waived(state, waiver, "you")
            because = f", because {who} wrote {_quotation(waiver.quote)}" if who else ""
            yield f"Left out{because}: {waivers.listed(waiver.phases)}."


def are_unclear(state: State) -> bool:
    """Whether something that users wrote was taken as thanks, or as a wish, that could be something else."""
    settled = (message for message in state.cycle.messages if message.settlement is not None)
    is_thanks = any(
        message.settlement is not None and message.settlement.kind == "thanks" and not asks_for_nothing(message.text)
        for message in settled
    )
    return is_thanks or any(waiver.unasked for waiver in phases_of(state).waivers)


def who_waived(state: State, waiver: Waived, you: str) -> str:
    """The name of who waived, by their newest message; `you` for who is answered, "" for another without a name."""
    written = [
        message.name for message in state.memory.recent if message.author == waiver.author and message.role is not None
    ]
    names = [name for name in (*written[::-1], waiver.name) if not is_placeholder(name)]
    return names[0] if names else you if waiver.author == state.on_behalf_of else ""


def _checked(
    conversation: Conversation, decision: RoutingDecision, claim: Settles, messages: Sequence[Message]
) -> Sequence[Settlement] | Rejected:
    """What a claim about these messages comes to, each of which could still be a request."""
    if claim.kind == "waiver" and asks_for_nothing(claim.words):
        return _request(messages[-1], f"{_quotation(claim.words)} is no wish to leave anything out")
    whole = [message for message in messages if _letters(message.text) == _letters(claim.words)]
    if claim.kind == "carried_out":
        return _carried_out(conversation, claim, whole or messages)
    if claim.kind == "waiver" and not decision.waive and conversation.unmet_gates:
        return _request(messages[-1], "a waiver names its gates in `waive`")
    short = [message for message in whole if _is_short(message.text)]
    if short or claim.kind == "waiver":
        return [Settlement(message=message.seq, kind=claim.kind, words=message.text) for message in short]
    why = "it is longer than thanks are" if whole else f"it says more than {_quotation(claim.words)}"
    return _request(messages[-1], why)


def _carried_out(
    conversation: Conversation, claim: Settles, messages: Sequence[Message]
) -> Sequence[Settlement] | Rejected:
    if len(messages) > 1:
        return _request(messages[-1], "several messages have the words that are quoted")
    (message,) = messages
    turn = next((turn for turn in conversation.cycle.turns if turn.turn_id == claim.turn), None)
    if turn is None:
        return _request(message, "what was carried out names its `turn`")
    has_changed = turn.shown_at_change >= message.seq and any(done.is_finished for done in turn.completions)
    if not has_changed:
        return _request(message, f"{turn.turn_id} changed nothing after it was shown that")
    quote = in_a_line(message.text, QUOTE)
    return [Settlement(message=message.seq, kind=claim.kind, words=quote, turn=turn.turn_id)]


def _request(message: Message, why: str) -> Rejected:
    sentence = f"{_quotation(message.text)} is still a request: {why}. Leave it out of `settles`, or correct that."
    return Rejected(sentence=sentence, plain="took what you asked for as settled")


def _quoted(conversation: Conversation, words: str) -> list[Message]:
    """The users' messages of the cycle that have these words."""
    written = [message for message in conversation.cycle.messages if message.role is not None]
    letters = _letters(words)
    if not letters:  # a picture alone
        return [message for message in written if words.strip() and words.strip() in message.text]
    return [message for message in written if letters in _letters(message.text)]


def _letters(text: str) -> str:
    """What a text says, without case, white space, punctuation and pictures."""
    return "".join(sign for sign in plain(text).casefold() if unicodedata.category(sign)[0] in "LMN")


def _is_short(text: str) -> bool:
    return len(text.split()) <= WORDS and len(text.strip()) <= CHARACTERS


def _quotation(text: str) -> str:
    return f"“{in_a_line(text, QUOTE)}”"
