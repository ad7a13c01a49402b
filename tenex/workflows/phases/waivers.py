"""Giving up quality gates: the one question the router may have put to a user, and what counts as their yes.

Words never waive by themselves: a command does, or a clear yes to that question. (ADR 21.)
"""

import unicodedata
from collections.abc import Sequence
from typing import Final

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.decide import permissions
from tenex.core.decide.outgoing import notify
from tenex.core.decide.transaction import Transaction
from tenex.core.decide.turns import advance
from tenex.core.ids import PublicKey
from tenex.core.phases import Phase
from tenex.core.reducers.conversation import ANSWER_WORDS
from tenex.core.signals import MessageReceived
from tenex.core.text import plain

RISK: Final[dict[Phase, str]] = {
    Phase.VERIFICATION: "no one will have tried whether it works",
    Phase.CHORES: "documentation and leftovers stay as they are",
    Phase.REFLECTION: "nothing will be remembered from this cycle",
}

_YES_WORDS = "yes y yeah yep ok okay sure ja jawohl oui sí si sì sim да tak evet はい 是 是的 好的 네 👍"
_COURTESY_WORDS = (
    "please thanks thank you bitte danke merci beaucoup por favor gracias grazie obrigado obrigada proszę пожалуйста "
    "спасибо お願いします 谢谢"
)
_YES: Final = frozenset(_YES_WORDS.split())
_POLITE_YES: Final = _YES.union(_COURTESY_WORDS.split())
_QUESTION_MARKS: Final = frozenset("?؟‽")
_THUMB: Final = "👍"
_SKIN_TONES: Final = dict.fromkeys(range(0x1F3FB, 0x1F400))


def is_clear_yes(text: str) -> bool:
    """Whether the whole text is a yes: at most three words, all of them yes or courtesy, and no question mark."""
    said = plain(text).casefold().translate(_SKIN_TONES).replace(_THUMB, f" {_THUMB} ")
    if not _QUESTION_MARKS.isdisjoint(said):
        return False
    kept = (" " if _is_punctuation(char) else char for char in said)
    words = "".join(kept).split()
    return len(words) <= ANSWER_WORDS and not _YES.isdisjoint(words) and _POLITE_YES.issuperset(words)


def _is_punctuation(char: str) -> bool:
    return char in "`´\ufe0f" or unicodedata.category(char).startswith("P")


def ask(draft: Transaction, phases: Sequence[Phase]) -> None:
    """Ask once whether these gates may be skipped, and wait: who wrote last is asked, or an owner if they may not."""
    newest = draft.state.messages[-1] if draft.state.messages else None
    of = newest.author if newest and permissions.may_waive(newest.role, draft.rules.gates) else PublicKey("")
    draft.add(r.WaiverRequested, phases=tuple(phases), of=of)
    owners = "" if of else " Only an owner can allow it."
    keeps = "it" if len(phases) == 1 else "them"
    notify(
        draft,
        f"May I skip {_listed(phases)} in this cycle? Then {'; '.join(RISK[phase] for phase in phases)}.{owners} "
        f"Answer “yes” to skip {keeps}; any other answer keeps {keeps}.",
        "question",
    )
    draft.add(r.Waiting, reason="waiver")


def _listed(phases: Sequence[Phase]) -> str:
    return " and ".join(part for part in (", ".join(phases[:-1]), phases[-1]) if part)


def answered(draft: Transaction, signal: MessageReceived) -> bool:
    """Take a message as the answer to the open question, if there is one; whether it waived.

    Any message but a clear yes of the user asked, or of an owner, closes the question and is then read like any.
    """
    phases, message = draft.state.waiver_asked, signal.message
    if not phases:
        return False
    is_asked = signal.role is Role.OWNER or message.author == draft.state.waiver_asked_of
    if is_asked and permissions.may_waive(signal.role, draft.rules.gates) and is_clear_yes(message.text):
        waive(draft, phases, signal)
        advance(draft)
        return True
    draft.add(r.WaiverDeclined, name=signal.name)
    return False


def waive(draft: Transaction, phases: Sequence[Phase], signal: MessageReceived) -> None:
    """Record that a user gave up gates with this message, and report what that means."""
    message = signal.message
    draft.add(
        r.Waived,
        phases=tuple(phases),
        author=message.author,
        name=signal.name,
        quote=message.text.strip(),
        message_id=message.event_id,
    )
    skipped = "; ".join(f"{phase}: {RISK[phase]}" for phase in phases)
    notify(draft, f"As you wish, I skip what follows. {skipped[:1].upper()}{skipped[1:]}.")
