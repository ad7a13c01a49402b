"""Edits of what is there: functions to add, words to replace, and what no tool can do."""

import re

from .formulas import formula
from .marks import FILE, QUOTE
from .part import ARTICLE, HEAD, INTO_FILE, TAIL, Part, clean
from .python_source import is_expression, parse_module
from .tasks import Function, Replacement, Task, Unable
from .vocabulary import FILLER

_FUNCTION = re.compile(
    r"\b(?:function|funktion|función|funcion|fonction|method|def)\s+(?:named |called |namens |llamada |nommée )?"
    r"(?P<name>[A-Za-z_]\w*)\s*(?:\((?P<params>[^()]*)\))?",
    re.IGNORECASE,
)
_CALL = re.compile(r"(?<![\w.])(?P<name>[A-Za-z_]\w*)\((?P<params>[^()]*)\)")
_RETURNS = re.compile(
    r"\b(?:returns?|returning|zurückgibt|gibt|devuelv[ae]|renvoie|retourne)\s+(?P<what>.+)$", re.IGNORECASE | re.DOTALL
)
_REPLACE_VERB = re.compile(
    r"\b(?:change|replace|rename|correct|fix|turn|update|switch|ändere|ersetze|korrigiere|tausche|cambia|reemplaza"
    r"|corrige|sustituye|changez?|remplace[rz]?)\b(?P<rest>.+)$",
    re.IGNORECASE | re.DOTALL,
)
_TO = re.compile(r"\s+(?:to|with|into|by|durch|gegen|zu|por|par)\s+|\s*(?:->|→|=>)\s*", re.IGNORECASE)
_TO_SHORT = re.compile(r"\s+(?:in|a|en|auf)\s+", re.IGNORECASE)
_OLD_NOUN = re.compile(
    r"^(?:the |das |die |den |el |la |le |all |every )?(?:typo|word|text|spelling|string|value|line|name"
    r"|function|variable|wort|palabra|mot|occurrences? of)\s+",
    re.IGNORECASE,
)
_REMOVE = re.compile(
    r"\b(?:delete|remove|rename|move|lösche|entferne|benenne|elimina|borra|renombra|supprime|efface|renomme)\b"
    rf"\s+{ARTICLE}{{0,3}}{FILE}",
    re.IGNORECASE,
)


def removal(part: Part) -> tuple[Task, ...]:
    """Deleting, moving and renaming, for which there is no tool."""
    if _REMOVE.search(part.text[:HEAD]) and part.path:
        return (Unable(path=part.path, why=f"I have no tool that deletes, moves or renames files such as {part.path}"),)
    return ()


def functions(part: Part) -> tuple[Task, ...]:
    """Python functions, by a formula known or told."""
    head = part.text[:HEAD]
    found = [*_FUNCTION.finditer(head)] or ([*_CALL.finditer(head)] if part.kind == "py" and part.path else [])
    found = [match for match in found if match["name"].lower() not in FILLER | {"that", "which", "with", "returns"}]
    if not found or (part.kind != "py"):
        return ()
    told = _RETURNS.search(INTO_FILE.sub(" ", head))
    returns = part.marked.plain(clean(told["what"])) if told and len(found) == 1 else ""
    return tuple(_function(part, match["name"], (match["params"] or "").strip(), returns) for match in found)


def _function(part: Part, name: str, params: str, returns: str) -> Task:
    known = formula(name, params)
    params, default = known or (params, "")
    expression = returns if returns and is_expression(returns) else default
    if parse_module(f"def {name}({params}): pass") is None:
        return Unable(path=part.path, why=f"`{name}({params})` is no Python signature", name_hint="functions.py")
    if not expression:
        why = f"I do not know what `{name}({params})` should return; give me a Python expression"
        return Unable(path=part.path, why=why, name_hint="functions.py")
    return Function(path=part.path, name=name, params=params, returns=expression)


def replacement(part: Part) -> tuple[Task, ...]:
    """Words to replace in a file."""
    verb = _REPLACE_VERB.search(part.text[:HEAD])
    if not verb or part.path is None:
        return ()
    # what stands before the verb may name the file as well: "in notes.txt, change a to b"
    rest = re.sub(rf"^\s*{ARTICLE}{{0,3}}{FILE}\s*[,:]?\s*", " ", INTO_FILE.sub(" ", verb["rest"]))
    rest = re.sub(FILE, " ", rest).strip().rstrip(".").strip()
    both = re.search(rf"{QUOTE}.*?{QUOTE}", rest, re.DOTALL)
    if both:
        old, new = part.marked.quoted(both[0])[:2]
        return (Replacement(path=part.path, old=old, new=new),)
    for separator in (_TO, _TO_SHORT):
        pieces = separator.split(rest, maxsplit=1)
        if len(pieces) == 2 and all(piece.strip() for piece in pieces):
            old = part.marked.plain(_OLD_NOUN.sub("", pieces[0].strip()))
            new = part.marked.plain(TAIL.sub("", pieces[1].strip()))
            return (Replacement(path=part.path, old=old.strip(), new=new.strip()),)
    why = f"I do not see which words to change in {part.path}, and to which; say: change “old” to “new” in {part.path}"
    return (Unable(path=part.path, why=why),)
