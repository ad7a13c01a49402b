"""The one grammar of yes and no: of requests for permission, plans, gates, and what servers ask.

    yes · ok, thanks · 👍 · /approve       a yes: the whole text says nothing else
    no · no, thanks · 👎 · /deny           a no, likewise
    no: REASON · no, REASON · /deny REASON a no with its reason: a mark separates the two
    always · always all · 20 min           a yes for what is like it too
    no problem · no worries, go ahead      unclear: the words after the no may turn it round
    yes, but not to main                   unclear: more than a yes
    1 yes, 2 no: REASON                    answers by number, each one of these

Everything else is no answer. What is unclear is neither yes nor no: who asked asks again.
"""

import re
import unicodedata
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from tenex.core.answers.pictures import NO, YES, plain_picture, without_skin_tone
from tenex.core.text.foreign import plain

ANSWER_WORDS = 3
"""`yes`, `ja bitte`, `oui merci beaucoup`: a longer message is more than a yes."""

CLOCKS_DIFFER: Final = 60
"""Seconds by which a person's clock may differ from ours: as far as our own messages are dated ahead."""
LONGEST: Final = 24 * 60
"""Minutes for which something may be allowed at most."""
REASON: Final = 500
"""Characters of a reason that reach the agent."""
MOST_NUMBERED: Final = 99
"""Calls that one message answers by their numbers."""
MOST_UNCLEAR: Final = 8
"""Words of a text that may be meant as an answer and cannot be read as one: a longer one is talk."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_YES: Final = _words(
    "yes y yeah yep ok okay sure ja jawohl oui sí si sì sim да tak evet はい 是 是的 好的 네 "
    "approve approved allow allowed accept accepted 👍 👌 ✅ 🤙"
)
_NO: Final = _words(
    "no n nope nah never nein nee non não нет nie hayır いいえ 不 不是 不行 아니요 "
    "deny denied reject rejected refuse refused decline declined cancel 👎 ❌ 🛑"
)
_COURTESY: Final = _words(
    "please thanks thank you bitte danke merci beaucoup por favor gracias grazie obrigado obrigada proszę пожалуйста "
    "спасибо お願いします 谢谢 sorry pardon 🙏 🙂 😊 😀 🎉 ❤"
)
_ALWAYS: Final = _words("always immer")
_NEGATIONS: Final = _words("kein keine pas aucun sin nessun nessuna sem nenhum bez никаких")
"""Words that begin `kein Problem` and its like: alone they say neither yes nor no."""
_NO_WAY: Final = ["no", "way"]
_PICTURES: Final = tuple(word for word in _YES | _NO | _COURTESY if not word.isalnum())
"""Each is a word, also without a space before it."""
_QUESTION_MARKS: Final = frozenset("?؟‽")
_TIME: Final = re.compile(r"(?:for )?(\d{1,4}) ?(m|min|mins|minutes?|h|hours?)")
_REFUSAL: Final = re.compile(r"(/?)(\S+?)(\s*[:,.;!…。、–—\n]\s*|\s+-\s*|\s+)(\S.*)", re.DOTALL)
"""A first word, what separates it from the others, and these."""
_NUMBER: Final = re.compile(r"(?:^|[,;\n])[^\S\n]*(\d{1,2})[.):]?\s+(?=(/?[^\W\d_]+|\d{1,4} ?(?:m|h)))")
"""Where the answer to a single call begins, and its first word."""


class Unclear(Enum):
    """Why a text that begins as an answer is none."""

    MORE_THAN_YES = auto()
    NO_AND_WORDS = auto()
    """A no, and words that may be its reason or turn it round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person answers."""

    is_yes: bool
    reason: str = ""
    remember: bool = False
    is_for_all: bool = False
    """Whether what is remembered is for everything that the same server offers."""
    minutes: int = 0
    """For which the like is allowed; 0 for no end."""
    is_written: bool = True
    """Whether it is more than a picture."""
    number: int = 0
    """Of the call that it is for; 0 for all that are left."""


def read_answer(text: str) -> Answer | Unclear | None:
    """What a text answers; None where it is no answer."""
    pictured = read_picture(text)
    if pictured is not None:
        return pictured
    said = plain(text).strip()
    words = _split(said)
    whole = None if _is_question(said) else _read_whole(words)
    return whole or _read_refusal(said) or _why_unclear(words)


def read_picture(content: str) -> Answer | None:
    """What a picture alone answers, in a reaction (NIP-25) or a text; None for every one that is not on the lists."""
    picture = plain_picture(content)
    if picture in YES:
        return Answer(is_yes=True, is_written=False)
    return Answer(is_yes=False, is_written=False) if picture in NO else None


def read_answers(text: str) -> tuple[Answer, ...]:
    """What a text answers: for all calls, or for those whose numbers it names; () where nothing is clear."""
    whole = read_answer(text)
    if isinstance(whole, Answer):
        return (whole,)
    said = plain(text).strip()
    beginnings = [match for match in _NUMBER.finditer(said) if _begins_answer(match[2])]
    if not beginnings or beginnings[0].start() != 0 or len(beginnings) > MOST_NUMBERED:
        return ()
    ends = [*(match.start() for match in beginnings[1:]), len(said)]
    answers: list[Answer] = []
    for match, end in zip(beginnings, ends, strict=True):
        answer = read_answer(said[match.end() : end])
        if not isinstance(answer, Answer):
            return ()
        answers.append(replace(answer, number=int(match[1])))
    numbers = {answer.number for answer in answers}
    is_unique = len(numbers) == len(answers) and 0 not in numbers
    return tuple(answers) if is_unique else ()


def is_clear_yes(text: str) -> bool:
    """Whether the whole text is a yes, and nothing else."""
    answer = read_answer(text)
    return isinstance(answer, Answer) and answer.is_yes and not answer.remember


def is_clear_no(text: str) -> bool:
    """Whether the whole text is a no, likewise: it asks for nothing else."""
    answer = read_answer(text)
    return isinstance(answer, Answer) and not answer.is_yes and not answer.reason


def is_courtesy(text: str) -> bool:
    """Whether a text is thanks, and nothing else."""
    return _COURTESY.issuperset(_split(plain(text)))


def asks_for_nothing(text: str) -> bool:
    """Whether a text is thanks, yes or no, and nothing else, in a few words."""
    said = plain(text)
    words = _split(said)
    return len(words) <= ANSWER_WORDS and (_YES | _NO | _COURTESY).issuperset(words) and not _is_question(said)


def why_misdated(created_at: int, asked_at: int, now: int, *, is_reply: bool = False) -> str:
    """Why the date (s) of a message is not one of an answer to what was asked then (ms), as part of a sentence; or "".

    Without a reply tag only the date says what a message answers, so it is not before the question by any clock.
    """
    behind = CLOCKS_DIFFER if is_reply else 0
    if created_at + behind < asked_at // 1000:
        return "it is dated before my question"
    return "it is dated in the future" if created_at > now // 1000 + CLOCKS_DIFFER else ""


def _read_whole(words: list[str]) -> Answer | None:
    """What is said by words none of which says anything else."""
    is_written = any(any(map(str.isalnum, word)) for word in words)
    if len(words) <= ANSWER_WORDS:
        if _is_only(words, _YES):
            return Answer(is_yes=True, is_written=is_written)
        if _is_only(words, _NO) or words == _NO_WAY:
            return Answer(is_yes=False, is_written=is_written)
    while words and words[0] in _YES:
        words = words[1:]
    while words and words[-1] in _COURTESY | _YES:
        words = words[:-1]
    if len(words) in (1, 2) and words[0] in _ALWAYS and words[1:] in ([], ["all"], ["alle"]):
        return Answer(is_yes=True, remember=True, is_for_all=len(words) > 1)
    time = _TIME.fullmatch(" ".join(words))
    if time is None:
        return None
    minutes = int(time[1]) * (60 if time[2].startswith("h") else 1)
    return Answer(is_yes=True, remember=True, minutes=minutes) if 0 < minutes <= LONGEST else None


def _read_refusal(said: str) -> Answer | None:
    """A no with a reason, which a mark separates; not where it is another answer, but after a colon or a line feed."""
    match = _REFUSAL.fullmatch(said)
    if match is None or not _is_only(_split(match[2]), _NO):
        return None
    slash, word, separator, reason = match.groups()
    mark = separator.strip(" ")
    is_explicit = bool(slash) or mark.startswith((":", "\n"))
    is_separated = bool(mark) or not any(map(str.isalnum, word))
    rest = read_answer(reason)
    turns_round = isinstance(rest, Unclear) or (rest is not None and rest.is_yes)
    if is_explicit or (is_separated and not turns_round):
        return Answer(is_yes=False, reason=reason[:REASON])
    return None


def _why_unclear(words: list[str]) -> Unclear | None:
    if not words or len(words) > MOST_UNCLEAR:
        return None
    if words[0] in _NO | _NEGATIONS:
        return Unclear.NO_AND_WORDS
    return Unclear.MORE_THAN_YES if words[0] in _YES | _ALWAYS else None


def _begins_answer(word: str) -> bool:
    return word[0].isdecimal() or word.casefold().removeprefix("/") in _YES | _NO | _ALWAYS


def _is_only(words: list[str], wanted: frozenset[str]) -> bool:
    return not wanted.isdisjoint(words) and (wanted | _COURTESY).issuperset(words)


def _is_question(said: str) -> bool:
    return not _QUESTION_MARKS.isdisjoint(said)


def _split(said: str) -> list[str]:
    """The words of a text, small and without marks; each picture is one."""
    said = without_skin_tone(said.casefold())
    for picture in _PICTURES:
        said = said.replace(picture, f" {picture} ")
    return "".join(" " if _is_mark(char) else char for char in said).split()


def _is_mark(char: str) -> bool:
    return char in "`´\ufe0f" or unicodedata.category(char).startswith("P")
