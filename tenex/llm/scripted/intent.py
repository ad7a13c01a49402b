"""What kind of message a text is: something to make, to design, to explore, a yes, or talk.

The rules are those of the first phase: action verbs and a specific object mean execute,
architecture means plan, ideation means brainstorm, the rest is chat; action is preferred to talk.
"""

import re
from enum import StrEnum

from .marks import file_names, mark
from .vocabulary import ASSENT, DESIGN_FIRST, EXPLORE_FIRST, OBJECTS, QUESTION, VERBS

_DESIGN = (
    "architecture",
    "architektur",
    "arquitectura",
    "design the",
    "design a",
    "how should we structure",
    "how should i structure",
    "how would you structure",
    "plan the",
    "plan a",
    "plan for",
    "a plan",
    "roadmap",
)
_EXPLORE = (
    "brainstorm",
    "brainstorming",
    "what if",
    "ideas",
    "could we",
    "was wäre wenn",
    "ideen",
    "könnten wir",
    "qué tal si",
    "lluvia de ideas",
    "podríamos",
    "et si",
    "idées",
    "pourrait-on",
    "pourrions-nous",
)
_LEADING = 4  # words: "ok, let's brainstorm ...", "please plan ..."
_SHORT = 8  # words: an answer to a question, rather than a request of its own
_READ = 20_000  # characters: what a message wants is said at its beginning


class Intent(StrEnum):
    """What a message is after; the values are the phases it leads to, but for the assent."""

    EXECUTE = "execute"
    PLAN = "plan"
    BRAINSTORM = "brainstorm"
    CHAT = "chat"
    ASSENT = "assent"


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, apostrophes and hyphens inside them kept."""
    return re.findall(r"\w+(?:['’-]\w+)*", text.lower().replace("’", "'"))


def has_verb(text: str) -> bool:
    """Whether a text holds a verb of making or changing, outside quotations."""
    return not VERBS.isdisjoint(words_of(mark(text[:_READ]).text))


def is_question(text: str) -> bool:
    """Whether a text asks for an answer rather than for work."""
    words = words_of(text[:200])
    return bool(words) and words[0] in QUESTION and text.rstrip().endswith("?")


def intent_of(text: str) -> Intent:
    """Say what a message is after; an empty one is chat."""
    head = text[:_READ]
    words = words_of(mark(head).text)
    if not words and not file_names(head):
        return Intent.CHAT
    joined = f" {' '.join(words)} "
    leading = set(words[:_LEADING])
    explores = any(f" {phrase} " in joined for phrase in _EXPLORE)
    designs = any(f" {phrase} " in joined for phrase in _DESIGN)
    if explores and (leading & EXPLORE_FIRST or any(f" {p} " in f" {' '.join(words[:6])} " for p in _EXPLORE)):
        return Intent.BRAINSTORM
    if (leading & DESIGN_FIRST and designs) or ("how should" in joined and designs):
        return Intent.PLAN
    acts = not VERBS.isdisjoint(words)
    is_specific = bool(file_names(head)) or bool(mark(head).quotes) or not OBJECTS.isdisjoint(words)
    if acts and is_specific and not is_question(text):
        return Intent.EXECUTE
    if designs:
        return Intent.PLAN
    if explores:
        return Intent.BRAINSTORM
    if len(words) <= _SHORT and words and words[0] in ASSENT and not acts:
        return Intent.ASSENT
    return Intent.CHAT


def intent_of_all(texts: "list[str] | tuple[str, ...]") -> Intent:
    """Say what a person is after, judged by the newest message and, where it is no request alone, by all of them."""
    if not texts:
        return Intent.CHAT
    newest = intent_of(texts[-1])
    earlier = [text for text in texts[:-1] if text.strip()]
    is_answer = newest is Intent.CHAT and 0 < len(words_of(texts[-1][:_READ])) <= _SHORT and not is_question(texts[-1])
    if earlier and (newest is Intent.ASSENT or is_answer):
        before = intent_of("\n".join([*earlier, texts[-1]]))
        return before if before is Intent.EXECUTE else newest
    return newest
