"""A part of a request, and how the words at its ends are cut off."""

import re
from dataclasses import dataclass

from .marks import FILE, Marked

HEAD = 2_000
"""Characters in which a rule looks for its words; what follows can only be content."""

PROGRAMS = ("py", "sh", "js")
"""Endings of the languages in which programs can be written here."""

_IN = (
    r"(?:in|into|to|as|inside|of|from|named|called|namens|nach|zu|an|im|llamado|en|a|al|de|nommé|dans|à|von"
    r"|at the end of)"
)
ARTICLE = (
    r"(?:the |a |an |new |my |our |file |datei |der |die |das |eine?r? |el |la |un |una |archivo |le |une |fichier )"
)
INTO_FILE = re.compile(rf"[\s,]*\b{_IN}\s+{ARTICLE}{{0,3}}{FILE}", re.IGNORECASE)
TAIL = re.compile(
    r"(?:[\s,]+(?:instead of .*|statt .*|please|bitte|por favor|s'il vous plaît|when (?:it is |i )?run(?: it)?"
    r"|(?:to|on|in|auf|en|sur) (?:the |der |la |le )?"
    r"(?:console|screen|terminal|stdout|konsole|pantalla|consola)))+\s*$",
    re.IGNORECASE,
)
_NOUN = re.compile(
    r"^(?:(?:the|a|den|das|el|la|le|los)\s+)?(?:following\s+)?(?:exact\s+)?"
    r"(?:words?|text|texto|texte|message|phrase|string|line|contents?|inhalt|zeile|línea|ligne|word|wort|typo|name|value)"
    r"\s*:?\s+",
    re.IGNORECASE,
)
_DESCRIBES = re.compile(
    r"^(?:the|an?|all|every|each|my|your|its|some|random|how|what|der|die|das|eine?n?|alle|el|la|los|las|un|una|le|les|une|des)\s",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a request that names at most one file."""

    marked: Marked
    text: str

    @property
    def path(self) -> str | None:
        """The file it names."""
        files = self.marked.named(self.text)
        return files[0] if files else None

    @property
    def kind(self) -> str:
        """The ending of the file's name, or of the name a program in that language would get."""
        if self.path:
            return self.path.rpartition(".")[2].lower()
        if re.search(r"\b(?:shell|bash|sh)\b", self.text[:HEAD], re.IGNORECASE):
            return "sh"
        return "js" if re.search(r"\b(?:javascript|node|js)\b", self.text[:HEAD], re.IGNORECASE) else "py"


def clean(text: str) -> str:
    """A phrase without the file it goes into, politeness and the dot at its end; a long one is content, and left."""
    text = TAIL.sub("", INTO_FILE.split(text)[0].strip()) if len(text) <= HEAD else text
    text = text.strip().strip(",")
    return text[:-1].rstrip() if text.endswith((".", ";")) and not text.endswith("..") else text.strip()


def literal(marked: Marked, phrase: str) -> str | None:
    """The words a phrase gives, or None where it only describes them ("a poem")."""
    quotes = marked.quoted(phrase[:HEAD])
    if quotes:
        return "\n".join(quotes)
    if _DESCRIBES.match(phrase) and not _NOUN.match(phrase):
        return None
    return marked.plain(_NOUN.sub("", phrase, count=1)).strip() or None
