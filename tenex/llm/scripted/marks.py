"""Quotations and file names in a person's text, each replaced by a mark, so that rules see only the rest.

Everything here is linear in the length of the text: a stranger may send 100 kB of opening quotation marks.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .vocabulary import SUFFIXES

QUOTE = "\ue000(\\d+)\ue001"
FILE = "\ue002(\\d+)\ue003"
_MARK = re.compile(f"{QUOTE}|{FILE}")
_PRIVATE = re.compile("[\ue000-\ue003]")

_OPENERS = re.compile("```|[\"“„«`]|(?<!\\w)['‘]")
_CLOSERS = {"```": "```", '"': '"', "“": "”", "„": "“”", "«": "»", "`": "`", "'": "'", "‘": "’"}
_BARE_NAMES = frozenset({"Makefile", "Dockerfile", "LICENSE"})
_CALL = re.compile(r"[A-Za-z_]\w*\([^()]*\)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A text with marks, and what stands behind them."""

    text: str
    quotes: tuple[str, ...]
    files: tuple[str, ...]

    def quoted(self, piece: str) -> tuple[str, ...]:
        """The quotations in a piece of the text, in order."""
        return tuple(self.quotes[int(found)] for found in re.findall(QUOTE, piece))

    def named(self, piece: str) -> tuple[str, ...]:
        """The files a piece of the text names, in order, each once."""
        return tuple(dict.fromkeys(self.files[int(found)] for found in re.findall(FILE, piece)))

    def plain(self, piece: str) -> str:
        """The piece with its marks taken back, quotation marks left out."""
        return _MARK.sub(lambda m: self.quotes[int(m[1])] if m[1] else self.files[int(m[2])], piece)


def mark(text: str) -> Marked:
    """Replace quotations, fenced blocks, blocks after a colon and file names by marks."""
    quotes: list[str] = []
    files: list[str] = []
    masked = _mask_quotes(_PRIVATE.sub("", text).replace("\r\n", "\n"), quotes)
    masked = _mask_files(masked, files)
    return Marked(text=_mask_block(masked, quotes, files), quotes=tuple(quotes), files=tuple(files))


def is_file_name(word: str) -> bool:
    """Whether a word is a file's name: a path with an ending we know."""
    if not word or not all(char.isalnum() or char in "._-/~+@" for char in word):
        return False
    stem, dot, suffix = word.rpartition(".")
    return word in _BARE_NAMES or (bool(dot) and suffix.lower() in SUFFIXES and stem.strip("./~") != "")


def file_names(text: str) -> tuple[str, ...]:
    """All files a text names, quoted or not, in order, each once."""
    return tuple(dict.fromkeys(name for _, name, _ in map(_core, text.split()) if is_file_name(name)))


def _core(word: str) -> tuple[str, str, str]:
    """A word without the punctuation around it, which is given back on both sides."""
    left = len(word) - len(word.lstrip("([{<,;:\"'`“„«‘*"))
    rest = word[left:]
    core = rest.rstrip(".,;:!?)]}>\"'`”“»’*。，")
    return word[:left], core, rest[len(core) :]


def _mask_quotes(text: str, quotes: list[str]) -> str:
    out: list[str] = []
    barren: set[str] = set()  # openers without a closer ahead: looking again would make this quadratic
    at = 0
    while found := _OPENERS.search(text, at):
        opener = found[0]
        end = -1 if opener in barren else _closing(text, found.end(), opener)
        out.append(text[at : found.start()])
        at = found.end()
        if end < 0:
            barren.add(opener)
            out.append(opener)
            continue
        inner = text[found.end() : end]
        at = end + (3 if opener == "```" else 1)
        if is_file_name(inner.strip()) or (opener == "`" and _CALL.match(inner)):
            out.append(inner)
        else:
            out.append(f"\ue000{len(quotes)}\ue001")
            quotes.append(_unfence(inner) if opener == "```" else inner)
    return "".join([*out, text[at:]])


def _closing(text: str, start: int, opener: str) -> int:
    closers = _CLOSERS[opener]
    if opener == "```":
        return text.find(closers, start)
    for at in (found for closer in closers for found in _occurrences(text, start, closer)):
        # an apostrophe inside a word closes nothing
        if opener not in "'‘" or not text[at + 1 : at + 2].isalnum():
            return at
    return -1


def _occurrences(text: str, start: int, char: str) -> Iterator[int]:
    at = text.find(char, start)
    while at >= 0:
        yield at
        at = text.find(char, at + 1)


def _unfence(block: str) -> str:
    """A fenced block without the language on its first line."""
    first, newline, rest = block.partition("\n")
    return rest if newline and len(first.split()) <= 1 else block


def _mask_files(text: str, files: list[str]) -> str:
    out: list[str] = []
    for piece in re.split(r"(\s+)", text):
        before, core, after = _core(piece)
        if is_file_name(core):
            out.append(f"{before}\ue002{len(files)}\ue003{after}")
            files.append(core)
        else:
            out.append(piece)
    return "".join(out)


def _mask_block(text: str, quotes: list[str], files: list[str]) -> str:
    """A line that names a file and ends in a colon is followed by that file's content, up to an empty line."""
    lines = text.split("\n")
    for at, line in enumerate(lines[:-1]):
        if line.rstrip().endswith(":") and re.search(FILE, line) and lines[at + 1].strip():
            end = next((n for n in range(at + 1, len(lines)) if not lines[n].strip()), len(lines))
            seen = Marked(text="", quotes=tuple(quotes), files=tuple(files))
            quotes.append(seen.plain("\n".join(lines[at + 1 : end])))
            joined = f"{line} \ue000{len(quotes) - 1}\ue001"
            return "\n".join([*lines[:at], joined, *lines[end:]])
    return text
