"""The forms a part of a request may take: print, write, append, list; and those of `edits`.

Each rule looks at the part with quotations and files as marks, and gives tasks or none; the first that gives some
wins. Words are matched in English, German, Spanish and French.
"""

import re

from .edits import functions, removal, replacement
from .intent import words_of
from .marks import FILE, QUOTE
from .part import ARTICLE, HEAD, PROGRAMS, TAIL, Part, clean, literal
from .recipes import Recipe, find_recipe, repeated
from .tasks import Lines, ListFile, Program, Task, TextFile, Unable
from .vocabulary import CHANGE, CREATE, FILLER

_PRINT = re.compile(
    r"\b(?:print(?:s|ing)?|outputs?|displays?|echo(?:e?s)?|says?|shows?|imprim[ae]|imprimir|muestr[ae]|diga"
    r"|affiche(?:r|nt)?|imprime|dit)\b\s*:?\s*(?P<what>.+)$",
    re.IGNORECASE | re.DOTALL,
)
_PRINT_LAST = re.compile(
    r"\b(?:das|die|der|welche[sr]?)\s+(?P<what>.+?)\s+(?:ausgibt|druckt|anzeigt|schreibt|sagt|ausgeben soll)\b",
    re.IGNORECASE | re.DOTALL,
)
_HELLO = re.compile(
    r"\bhello[ ,-]*world\b(?=.*\b(?:program|script|app|in python|example)\b)"
    r"|\b(?:program|script|programm|skript|programa|programme)\b.{0,20}\bhello[ ,-]*world\b",
    re.IGNORECASE,
)
_A_PROGRAM = re.compile(r"\b(?:script|program|programm|skript|programa|programme|app|tool|code)\b", re.IGNORECASE)
_LIST = re.compile(
    r"\b(?:list|checklist|to-?do(?: list)?|liste|lista)\b(?P<middle>.*?)"
    r"(?:\b(?:of|with|for|containing|items|von|mit|aus|de|con|avec)\b|:)\s*(?P<items>.+)$",
    re.IGNORECASE | re.DOTALL,
)
_APPEND = re.compile(r"\b(?:add|append|füge|añade|agrega|ajoute[rz]?)\b\s+(?P<what>.+)$", re.IGNORECASE | re.DOTALL)
_WRITE = re.compile(
    r"\b(?:write|save|put|store|note|schreibe?|escribe|guarda|écris)\b\s+(?P<what>.+)$", re.IGNORECASE | re.DOTALL
)
_WITH = re.compile(
    r"[\s,]*(?:\b(?:with|containing|contains?|that (?:says|reads|contains)|which (?:says|contains)|saying"
    r"|reading|holding|mit|enthält|con|que (?:diga|contenga)|avec|contenant|qui contient)\b\s*:?|[:=])\s*",
    re.IGNORECASE,
)


def read_part(part: Part, is_request: bool) -> tuple[Task, ...]:
    """The tasks a part asks for; none where it asks for nothing that could be understood."""
    for rule in (removal, functions, replacement, _list, _program, _append):
        if (rule is _program or is_request) and (found := rule(part)):
            return found
    if part.path is None or not is_request:
        return ()
    return _content(part)


def _list(part: Part) -> tuple[Task, ...]:
    found = _LIST.search(part.text[:HEAD])
    if not found or (part.kind in PROGRAMS and part.path):
        return ()
    # "a to-do list in todo.md with milk": what stands after the file is what counts
    given = re.sub(
        rf"^\s*(?:{ARTICLE}{{0,3}}{FILE})\s*(?:with|of|:|mit|con|avec)?\s*", "", part.text[found.start("items") :]
    )
    given = clean(given) if part.marked.named(given) else TAIL.sub("", given).rstrip(". ")
    text = part.marked.plain(given)
    raw = text.split("\n") if "\n" in text else re.split(r"\s*,\s*(?:and |und |y |et )?|\s+(?:and|und|y|et)\s+", text)
    items = tuple(item for item in (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line).strip() for line in raw) if item)
    return (ListFile(path=part.path, items=items),) if items else ()


def _program(part: Part) -> tuple[Task, ...]:
    is_program = part.kind in PROGRAMS if part.path else bool(_A_PROGRAM.search(part.text[:HEAD]))
    if not is_program:
        return ()
    found = _PRINT.search(part.text) or _PRINT_LAST.search(part.text[:HEAD])
    if found:
        return (_prints(part, clean(found["what"])),)
    if _HELLO.search(part.text[:HEAD]):
        return (Program(path=part.path, text="Hello, World!", name_hint=f"hello.{part.kind}"),)
    recipe = find_recipe(part.marked.plain(re.sub(FILE, " ", part.text[:200])))
    return (_made(part, recipe),) if recipe and part.kind == "py" else ()


def _prints(part: Part, phrase: str) -> Task:
    quotes = part.marked.quoted(phrase[:HEAD])
    recipe = None if quotes else find_recipe(part.marked.plain(phrase))
    text = literal(part.marked, phrase)
    if part.kind == "py" and recipe:
        return _made(part, recipe)
    if text is None or not text:
        why = f"I can print only words you give me, and “{part.marked.plain(phrase)[:80]}” describes them"
        return Unable(path=part.path, why=why, name_hint=f"script.{part.kind}")
    bare = re.sub(r"\s*\b\S+\s+(?:times|mal|veces|fois)$|\s+twice$", "", text) if not quotes else text
    again = repeated(bare, phrase) if part.kind == "py" else None
    if again:
        return _made(part, again)
    stem = "_".join(re.findall(r"\w+", text.lower())[:2])[:30]
    return Program(path=part.path, text=text, name_hint=f"{stem or 'script'}.{part.kind}")


def _made(part: Part, recipe: Recipe) -> Task:
    return Program(path=part.path, text=recipe.prints, code=recipe.code, name_hint=f"{recipe.name}.py")


def _append(part: Part) -> tuple[Task, ...]:
    found = _APPEND.search(part.text)
    if (
        not found
        or part.path is None
        or re.match(rf"(?:{ARTICLE}|called |named )*{FILE}", found["what"], re.IGNORECASE)
    ):
        return ()
    phrase = re.sub(r"\s+(?:hinzu|an)$", "", clean(found["what"]))
    phrase = re.sub(
        r"^(?:a |the |eine? |una |une )?(?:new )?(?:line|zeile|línea|ligne|text|words?)\s*(?:saying|:)?\s+", "", phrase
    )
    return (_words(part, phrase, Lines),)


def _content(part: Part) -> tuple[Task, ...]:
    mark_at = re.search(FILE, part.text)
    before, after = (part.text[: mark_at.start()], part.text[mark_at.end() :]) if mark_at else (part.text, "")
    told = _WITH.match(after)
    if told:
        return (_words(part, clean(after[told.end() :]), TextFile),)
    found = _WRITE.search(part.text)
    if found and not re.match(rf"(?:{ARTICLE}|called |named )*{FILE}", found["what"], re.IGNORECASE):
        return (_words(part, clean(found["what"]), TextFile),)
    rest = [word for word in words_of(re.sub(f"{FILE}|{QUOTE}", " ", before + after)) if word not in FILLER | CREATE]
    is_wish = not CREATE.isdisjoint(words_of(before + after)) and CHANGE.isdisjoint(rest)
    quotes = part.marked.quoted(after)
    if is_wish and quotes:
        return (_words(part, after.strip(), TextFile),)
    if is_wish and not rest:
        return (TextFile(path=part.path, text=""),)
    return (Unable(path=part.path, why=f"I do not understand what to do with {part.path}"),)


def _words(part: Part, phrase: str, kind: "type[TextFile | Lines]") -> Task:
    text = literal(part.marked, phrase) if phrase else ""
    if text is None:
        why = f"I can write only words you give me, and “{part.marked.plain(phrase)[:80]}” describes them"
        return Unable(path=part.path, why=why)
    return kind(path=part.path, text=text)
