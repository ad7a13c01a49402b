"""What an English message asks for: tasks about files, or the phase that its words lead to.

Patterns are anchored at a clause and bounded, so that reading takes time linear in the length of any message.
"""

import json
import re
from dataclasses import dataclass
from typing import Literal

_SUFFIXES = "c|cfg|css|csv|go|html?|ini|java|js|json|log|md|py|rb|rs|rst|sh|sql|toml|ts|txt|xml|ya?ml"
FILE = rf"(?<![\w./~@+-])(?P<path>[\w./~@+-]*\w\.(?:{_SUFFIXES}))(?![\w/-])"
_QUOTE = re.compile(r'```\w*\n(.*?)```|"([^"]*)"|“([^“”]*)”|`([^`]*)`', re.DOTALL)
_MASK = re.compile("\ue000(\\d+)\ue001")
_SPACES = re.compile(r"\s{20,}")  # long runs would make patterns slow
_VERB = re.compile(r"\b(?:create|write|make|save|put|overwrite|change|replace|read|show|list)\b", re.IGNORECASE)
_JOINT = re.compile(  # between two clauses that begin with a verb
    rf"(?:(?:[.;!?:\n]|\b(?:and|but|then|also|please|to|you)\b)[^\S\n]*){{1,6}}(?={_VERB.pattern})", re.IGNORECASE
)
_LEFT_OUT = re.compile(r"\[… \d+ characters left out …\]")  # what a prompt shows in place of a long message's middle
_MOST = 50  # tasks of one message

Kind = Literal["write", "program", "replace", "read", "list"]
_CLAUSES = {
    "program": "prints “{text}”",
    "replace": "has “{text}” instead of “{old}”",
}


class CannotApply(Exception):
    """A task does not fit the file; the message is a clause for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One change of a file, or a look at it; `path` is empty where the message names no file."""

    kind: Kind
    path: str = ""
    text: str = ""
    """The content, the printed lines, or the new words."""
    old: str = ""
    """The replaced words."""

    @property
    def is_change(self) -> bool:
        """Whether it changes the file."""
        return self.kind not in ("read", "list")

    def describe(self) -> str:
        """A clause about the file, such as `prints “hello”`."""
        return _CLAUSES.get(self.kind, "holds “{text}”").format(text=short(self.text), old=short(self.old))

    def apply(self, content: str | None) -> str:
        """The file's content with the task done, None being no file; doing it twice changes nothing.

        Raises:
            CannotApply: the task does not fit the content.
        """
        if _LEFT_OUT.search(self.text):
            raise CannotApply("your message is longer than what I am shown of it; send it in parts")
        match self.kind:
            case "program":
                return "".join(f"print({json.dumps(line, ensure_ascii=False)})\n" for line in self.text.split("\n"))
            case "replace":  # whole words: "cat" leaves "category" alone; what is replaced already is matched first
                pattern = rf"(?<!\w)(?:{re.escape(self.text)}|{re.escape(self.old)})(?!\w)"
                changed, count = re.subn(pattern, lambda _: self.text, content or "")
                if not count:
                    raise CannotApply(f"{self.path} does not hold “{short(self.old)}”")
                return changed
            case _:
                return _ended(self.text)


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def short(text: str, limit: int = 60) -> str:
    """A text on one line, cut for use in a sentence."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


_PARTS = {
    "PROGRAM": FILE.replace(_SUFFIXES, "py"),
    "FILE": FILE,
    "THE": r"(?:(?:the|a|an|my|new|python|text|file|called|named|lines?|words?|saying) ){0,5}",
    "PRINTS": r"(?:(?:that|which|and) )?(?:prints?|printing|outputs?|says) (?P<text>(?:[^.;\n]|\.(?=\S)){1,2000})",
    "OLD": r"(?P<old>.{1,500}?)",
    "TEXT": r"(?P<text>.{1,2000}?)",
    "REST": r"(?P<text>.+)\Z",
    "WITH": r"(?:,? (?:with|containing|holding|saying|(?:that|which) (?:says|contains|holds))\b:?|:)",
}


def _pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern in which a space is any white space and the names of `_PARTS` are replaced."""
    for name, part in _PARTS.items():
        text = text.replace(name, part)
    return re.compile(text.replace(" ", r"\s+"), re.IGNORECASE | re.DOTALL)


_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("list", _pattern(r"(?:list|show) (?:me )?(?:all )?(?:the |my )?files\b")),
    ("read", _pattern(r"(?:read|show) (?:me )?THEFILE[\s.!?]*\Z")),
    ("replace", _pattern(r"(?:change|replace) OLD (?:to|with|by) TEXT in THEFILE")),
    ("program", _pattern(r".{0,300}?PROGRAM,? PRINTS")),
    ("program", _pattern(r".{0,100}?\b(?:script|program) PRINTS")),
    ("write", _pattern(r"(?:create|make|write|overwrite|replace|save|put) THEFILEWITH\s*REST")),
    ("write", _pattern(r"(?:write|save|put) THETEXT (?:to|into|in) THEFILE")),
)


def read_request(text: str) -> tuple[Task, ...]:
    """The tasks a message asks for, in order; none where it asks for nothing that is understood."""
    if _QUESTION.match(text):
        return ()
    quotes: list[str] = []

    def mask(found: re.Match[str]) -> str:
        inner = next(group for group in found.groups() if group is not None)
        if re.fullmatch(FILE, inner):
            return inner
        quotes.append(inner)
        return f"\ue000{len(quotes) - 1}\ue001"

    def plain(text: str) -> str:
        """The first quotation, where the text begins with one; else the text with its quotations put back."""
        if first := _MASK.match(text):
            return quotes[int(first[1])].removesuffix("\n")
        return _MASK.sub(lambda found: quotes[int(found[1])], text)

    masked = _QUOTE.sub(mask, re.sub("[\ue000\ue001]", "", text).replace("\r\n", "\n"))
    tasks = []
    for part in _JOINT.split(_SPACES.sub(" ", masked), _MOST):
        verb = _VERB.search(part)
        clause = part[verb.start() if verb else 0 :].rstrip(" \n,;").removesuffix(".")
        for kind, pattern in _PATTERNS:
            groups = found.groupdict("") if (found := pattern.match(clause)) else {}
            if found and not (kind == "program" and re.search(FILE, groups["text"])):
                old, new = (plain(groups.get(name, "").strip()) for name in ("old", "text"))
                tasks.append(Task(kind=kind, path=groups.get("path", ""), old=old, text=new))
                break
    return tuple(tasks)


_FLAGS = re.IGNORECASE | re.DOTALL
_INTENTS = (
    ("brainstorm", r"\W*(?:\w+\W+){0,3}?(?:brainstorm|ideas|what if|could we)\b"),
    ("plan", r"\W*(?:(?:please|let's|now|ok|first|can you)\W+){0,2}(?:plan|design)\b"),
    ("plan", r".{0,200}\b(?:architecture|how should (?:we|i))\b"),
)
_ASSENT = (
    r"\s*(?:yes|yeah|ok|okay|sure|fine|good|go (?:on|ahead)|continue|proceed|do it|please do|try again|approved)\b"
)
_QUESTION = re.compile(r"\s*(?:what|how|why|who|when|where|which|is|are|was|does|did|am)\b.*\?\s*\Z", _FLAGS)

_COURTESY = (
    r"(?:(?:ok|okay|thanks|thank you|thx|cheers|great|nice|perfect|well done|danke|merci|gracias|please|bitte|enough|"
    r"that(?:'s| is) (?:enough|all|fine|it)|no more checks|fertig|das reicht)\b[ ,.!]*)+"
)

SELF = "I am tenex's offline model: I follow fixed rules and cannot think."
_SMALL_TALK = (
    (r"(?:hi|hello|hey|good (?:morning|day|evening))\b", f"Hello. {SELF} Try: “Create hello.py that prints hello”."),
    (r"(?:thanks|thank you|thx|cheers|great|nice|perfect|well done)\b", "You are welcome. Write when you need more."),
    (r"(?:bye|goodbye|see you)\b", "Goodbye. The files stay in the workspace; write here when you need more."),
    (r"(?:no|no thanks|never mind|not now|nothing)\W*\Z", "All right, I change nothing. Write when you need more."),
)


def small_talk(text: str) -> str:
    """The answer to a greeting, thanks, a goodbye or a refusal; empty where the message is more than that."""
    if len(text.split()) > 5 or re.search(FILE, text[:60]):
        return ""
    return next((answer for pattern, answer in _SMALL_TALK if re.match(pattern, text.strip(), re.IGNORECASE)), "")


def asks_nothing(text: str) -> bool:
    """Whether a message is only thanks or a wish to end."""
    return len(text) <= 60 and re.fullmatch(_COURTESY, text.strip(), re.IGNORECASE) is not None


def intent_of(text: str, here: str, *, is_asked: bool) -> str:
    """The phase a message leads to from another one; `is_asked`: an earlier message asks for work."""
    if small_talk(text):
        return "chat"
    if named := [intent for intent, words in _INTENTS if re.match(words, text, _FLAGS)]:
        return named[0]
    if read_request(text):
        return "execute"
    if len(text) >= 60 or not re.match(_ASSENT, text, _FLAGS):
        return "chat"
    return "execute" if is_asked or here == "plan" else "plan" if here == "brainstorm" else "chat"
