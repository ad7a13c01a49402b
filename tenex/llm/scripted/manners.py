"""Small talk: greetings, thanks, goodbyes, a plain no, and the question what was done; and what is answered."""

import re
from enum import StrEnum

from .intent import words_of
from .marks import file_names
from .moves import SELF, Finish
from .tasks import short
from .transcript import Transcript
from .vocabulary import words

_LONGEST = 8  # words; small talk is short, and anything longer is read as a wish
_TOLD = 8  # things done that are listed: the answer is read on a telephone

_GREETING = words(
    "hi hello hey hallo moin servus greetings hola buenos buenas salut bonjour morning day evening tag morgen"
)
_THANKS = words(
    """thanks thank thx ty cheers danke dank gracias merci nice cool perfect super awesome wonderful excellent prima
    toll perfecto parfait"""
)
_FAREWELL = words("bye goodbye cu ciao tschüss tschüs adiós adios revoir see later night nacht noches")
_REFUSAL = words("no nope nah nein non nothing nichts nada rien nevermind stop")
_AROUND = words(
    """there you all everyone everybody again so much very a lot for that this it now today good great well job
    work done ok okay please tenex and to the your help vielen schön guten gute muchas días tardes au beaucoup soon
    moment yet was is"""
)
_NOT_NOW = re.compile(r"(?:rather |please )?(?:not (?:now|yet|today)|never mind|don't)(?: please| thanks| thank you)?")
_ABOUT = re.compile(
    r"(?:so |and |ok |okay )*"
    r"(?:what (?:(?:did|have|had) you (?:just )?(?:do|done|make|made|change|changed|build|built|create|created)"
    r"|(?:has|was) (?:been )?(?:done|made|changed|built)|happened|changed)"
    r"|was (?:hast|habt) (?:du|ihr) (?:gemacht|getan|geändert)|was ist passiert|qué (?:has hecho|hiciste|pasó)"
    r"|qu'as tu fait|qu'as-tu fait|qu'avez-vous fait)(?: (?:so far|now|here|today|bisher|until now))?"
)


class Manner(StrEnum):
    """What somebody says who wants nothing made."""

    GREETING = "greeting"
    THANKS = "thanks"
    FAREWELL = "farewell"
    REFUSAL = "refusal"
    ABOUT = "about"


def manner_of(text: str) -> Manner | None:
    """The small talk a message is; None where it is anything else, or more than that."""
    said = words_of(text[:200])
    if not said or len(said) > _LONGEST or file_names(text[:200]):
        return None
    joined = " ".join(said)
    if _ABOUT.fullmatch(joined):
        return Manner.ABOUT
    if _NOT_NOW.fullmatch(joined):
        return Manner.REFUSAL
    known = (
        (Manner.REFUSAL, _REFUSAL),
        (Manner.FAREWELL, _FAREWELL),
        (Manner.THANKS, _THANKS),
        (Manner.GREETING, _GREETING),
    )
    if not set(said) <= _AROUND.union(*(some for _, some in known)):
        return None
    return next((manner for manner, some in known if not some.isdisjoint(said)), None)


_ANSWERS = {
    Manner.GREETING: f"Hello. {SELF} Tell me what to make, such as “Create hello.py that prints hello”.",
    Manner.THANKS: "You are welcome. Write when you want something else made.",
    Manner.FAREWELL: "Goodbye. What was made stays in the workspace; write here when you want more.",
    Manner.REFUSAL: "All right, I make nothing. Write when you want something made.",
}


def small_talk(seen: Transcript) -> Finish | None:
    """The answer to small talk; None where the newest message is none."""
    manner = manner_of(seen.newest[-1]) if seen.newest else None
    if manner is None:
        return None
    return Finish(response=_ANSWERS.get(manner) or _what_was_done(seen), summary=f"Answered small talk: {manner}")


def _what_was_done(seen: Transcript) -> str:
    told = [text for text in seen.said if not text.startswith(SELF) and text not in _ANSWERS.values()]
    if not told:
        return f"{SELF} Nothing has been made here yet."
    lines = "\n".join(f"- {short(text, 200)}" for text in told[-_TOLD:])
    return f"{SELF} This was done here, in the words of those who did it:\n\n{lines}"
