"""What an English message asks for: tasks about files, or the phase that its words lead to.

Patterns are anchored at a clause and bounded, so that reading takes time linear in the length of any message.
"""

import ast
import json
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Literal

_SUFFIXES = "c|cfg|css|csv|go|html?|ini|java|js|json|log|md|py|rb|rs|rst|sh|sql|toml|ts|txt|xml|ya?ml"
FILE = rf"(?<![\w./~@+-])(?P<path>[\w./~@+-]*\w\.(?:{_SUFFIXES}))(?![\w/-])"
_QUOTE = re.compile(r'```\w*\n(.*?)```|"([^"]*)"|“([^“”]*)”|`([^`]*)`', re.DOTALL)
_MASK = re.compile("\ue000(\\d+)\ue001")
_PRIVATE = re.compile("[\ue000\ue001]")
_SPACES = re.compile(r"\s{20,}")  # long runs would make patterns slow
_VERB = re.compile(
    r"\b(?:create|write|make|save|put|overwrite|add|append|change|replace|read|show|list)\b", re.IGNORECASE
)
_CLAUSE = re.compile(r"(?:[.;!?:\n]\s*|\b(?:and|then|also|please|to|you)\s+)\Z", re.IGNORECASE)
_LEFT_OUT = re.compile(r"\[… \d+ characters left out …\]")  # what a prompt shows in place of a long message's middle
_JOINT = re.compile(r"[,;.]?\s*(?:\b(?:and|but|then|also|please)\s*){0,3}\Z", re.IGNORECASE)
_CLAUSES = 50  # tasks of one message

Kind = Literal["write", "program", "append", "replace", "function", "read", "list"]


class CannotApply(Exception):
    """A task does not fit the file; the message is a clause for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One change of a file, or a look at it; `path` is empty where the message names no file."""

    kind: Kind
    path: str = ""
    text: str = ""
    """The content, the printed or appended lines, the new words, or the expression a function returns."""
    old: str = ""
    """The replaced words, or the function's header, such as `add(a, b)`."""

    def describe(self) -> str:
        """A clause about the file, such as `prints “hello”`."""
        match self.kind:
            case "program":
                return f"prints “{short(self.text)}”"
            case "replace":
                return f"has “{short(self.text)}” instead of “{short(self.old)}”"
            case "function":
                return f"has `{self.old}`, which returns `{short(self.text)}`"
            case _:
                return f"holds “{short(self.text)}”" if self.text else "is empty"

    def apply(self, content: str | None) -> str:
        """The file's content with the task done, None being no file; doing it twice changes nothing.

        Raises:
            CannotApply: the task does not fit the content.
        """
        if _LEFT_OUT.search(self.text):
            raise CannotApply("your message is longer than what I am shown of it; send it in parts")
        before = _ended(content or "")
        match self.kind:
            case "program":
                return "".join(f"print({json.dumps(line, ensure_ascii=False)})\n" for line in self.text.split("\n"))
            case "append":
                return before if f"\n{self.text}\n" in f"\n{before}" else before + _ended(self.text)
            case "function":
                return self._with_function(before)
            case "replace":
                return self._with_replacement(content)
            case _:
                return _ended(self.text)

    def _with_function(self, before: str) -> str:
        source = f"def {self.old}:\n    return {self.text}\n"
        if source in before:
            return before
        if not _is_python(source) or not _is_python(before):
            raise CannotApply(f"`def {self.old}: return {short(self.text)}` or {self.path} is not valid Python")
        if re.search(rf"^def {self.old.partition('(')[0]}\(", before, re.MULTILINE):
            raise CannotApply(f"{self.path} has another function of that name")
        return f"{before}\n\n{source}" if before.strip() else source

    def _with_replacement(self, content: str | None) -> str:
        if content is None:
            raise CannotApply(f"{self.path} does not exist")
        pattern = rf"(?<!\w){re.escape(self.old)}(?!\w)"  # whole words: "cat" leaves "category" alone
        if self.text in content and not re.search(pattern, content.replace(self.text, "")):
            return content
        changed, count = re.subn(pattern, lambda _: self.text, content)
        if not count:
            raise CannotApply(f"{self.path} does not hold “{short(self.old)}”")
        return changed


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _is_python(source: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd escape in a user's text is their business
        try:
            ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # nesting too deep is one of the latter
            return False
    return True


def short(text: str, limit: int = 60) -> str:
    """A text on one line, cut for use in a sentence."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


_PARTS = {
    "FILE": FILE,
    "THE": r"(?:(?:the|a|an|my|new|python|text|file|called|named|lines?|words?|saying) ){0,5}",
    "CALL": r"(?P<old>[a-z_]\w*\([^()]{0,200}\))",
    "RETURNS": r"(?:(?:that|which) )?returns (?P<text>[^\n]{1,500}?)",
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
    ("function", _pattern(r"(?:add|create|write|make) THEfunction CALL (?:to|in) THEFILE RETURNS[\s.]*\Z")),
    ("function", _pattern(r"(?:add|create|write|make) THEfunction CALL RETURNS (?:to|in) THEFILE")),
    ("function", _pattern(r"(?:create|write|make) THEFILE with (?:a |the )?function CALL RETURNS[\s.]*\Z")),
    ("replace", _pattern(r"(?:change|replace) OLD (?:to|with|by) TEXT in THEFILE")),
    ("append", _pattern(r"(?:append|add) to THEFILE:? REST")),
    ("append", _pattern(r"(?:append|add) THETEXT to THEFILE")),
    ("program", _pattern(r".{0,300}?FILE,? PRINTS")),
    ("program", _pattern(r".{0,100}?\b(?:script|program) PRINTS")),
    ("write", _pattern(r"(?:create|make|write) an empty THEFILE(?P<text>)")),
    ("write", _pattern(r"(?:create|make|write|overwrite|replace|save|put) THEFILEWITH\s*REST")),
    ("write", _pattern(r"(?:write|save|put) THETEXT (?:to|into|in) THEFILE")),
)

_FLAGS = re.IGNORECASE | re.DOTALL
Intent = Literal["execute", "plan", "brainstorm", "assent", "chat"]
_BRAINSTORM = re.compile(r"\W*(?:\w+\W+){0,3}?(?:brainstorm|ideas|what if|could we)\b", re.IGNORECASE)
_PLAN = re.compile(
    r"\W*(?:(?:please|let's|now|ok|first|can you)\W+){0,2}(?:plan|design)\b"
    r"|.{0,200}\b(?:architecture|how should (?:we|i))\b",
    _FLAGS,
)
_ASSENT = re.compile(
    r"(?:yes|yep|yeah|ok|okay|sure|fine|good|go on|go ahead|continue|proceed|do it|please do|try again|approved)\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"\s*(?:what|how|why|who|when|where|which|is|are|was|does|did|am)\b.*\?\s*\Z", _FLAGS)


def read_request(text: str) -> tuple[Task, ...]:
    """The tasks a message asks for, in order; none where it asks for nothing that is understood."""
    if _QUESTION.match(text):
        return ()
    quotes: list[str] = []

    def mask(found: re.Match[str]) -> str:
        inner = next(group for group in found.groups() if group is not None)
        if re.fullmatch(FILE, inner) or (found[4] is not None and "(" in inner):  # a name or a call in code quotes
            return inner
        quotes.append(inner)
        return f"\ue000{len(quotes) - 1}\ue001"

    masked = _SPACES.sub(" ", _QUOTE.sub(mask, _PRIVATE.sub("", text).replace("\r\n", "\n")))
    tasks = (_read_clause(clause, quotes) for clause in islice(_clauses(masked), _CLAUSES))
    return tuple(task for task in tasks if task is not None)


def _clauses(text: str) -> Iterable[str]:
    """The parts of a message that begin with a verb; the whole message where it has none."""
    verbs = [found.start() for found in _VERB.finditer(text)]
    starts = [at for n, at in enumerate(verbs) if n == 0 or _CLAUSE.search(text[max(0, at - 20) : at])] or [0]
    return (text[at:end] for at, end in zip(starts, [*starts[1:], len(text)], strict=True))


def _read_clause(clause: str, quotes: list[str]) -> Task | None:
    clause = clause[:-60] + _JOINT.sub("", clause[-60:])
    for kind, pattern in _PATTERNS:
        found = pattern.match(clause)
        if found is None:
            continue
        groups = {"path": "", "old": "", "text": "", **found.groupdict()}
        if kind == "program" and (
            groups["path"].rpartition(".")[2] not in ("", "py") or re.search(FILE, groups["text"])
        ):
            continue
        old, text = (_plain(groups[name].strip(), quotes) for name in ("old", "text"))
        return Task(kind=kind, path=groups["path"], old=old, text=text)
    return None


def _plain(text: str, quotes: list[str]) -> str:
    """The first quotation, where the text begins with one; else the text with its quotations put back."""
    if first := _MASK.match(text):
        return quotes[int(first[1])].removesuffix("\n")
    return _MASK.sub(lambda found: quotes[int(found[1])], text)


def intent_of(text: str) -> Intent:
    """The phase a message leads to; `assent` where it only agrees."""
    if _BRAINSTORM.match(text):
        return "brainstorm"
    if _PLAN.match(text):
        return "plan"
    if read_request(text):
        return "execute"
    return "assent" if len(text) < 60 and _ASSENT.match(text.strip()) else "chat"
