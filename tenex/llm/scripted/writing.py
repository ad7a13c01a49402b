"""From tasks to the content of a file, given what it holds now.

Every change is one that may be made twice: what is there already is not added again, so that a second round of
repair does no harm.
"""

import re
import shlex
from collections.abc import Sequence
from json import dumps

from .python_source import functions_named
from .recipes import quoted
from .tasks import Function, Lines, ListFile, Program, Replacement, Task, TextFile, Unable


class CannotWrite(Exception):
    """A task does not fit the file; the message is a clause a person can read."""


def fold(tasks: Sequence[Task], old: str | None) -> str:
    """Apply tasks to a file's content, in order; `old` is None where there is no file.

    Raises:
        CannotWrite: one of them cannot be done.
    """
    content = old
    for task in tasks:
        content = _apply(task, content)
    return content if content is not None else ""


def _apply(task: Task, old: str | None) -> str:
    match task:
        case Program():
            return _program(task)
        case TextFile(text=text):
            return _ended(text)
        case Lines(text=text):
            return old if old and f"\n{text.strip()}\n" in f"\n{old}\n" else _ended(old or "") + _ended(text)
        case ListFile(items=items):
            return _list(items, old)
        case Function():
            return _function(task, old or "")
        case Replacement():
            return _replace(task, old)
        case Unable(why=why):
            raise CannotWrite(why)


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _program(task: Program) -> str:
    if task.code is not None:
        return task.code
    text = task.text or ""
    match (task.path or task.name_hint).rpartition(".")[2].lower():
        case "sh":
            return f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(text)}\n"
        case "js":
            return f"console.log({dumps(text, ensure_ascii=False)});\n"
        case _:
            return "".join(f"print({quoted(line)})\n" for line in text.split("\n"))


def _list(items: Sequence[str], old: str | None) -> str:
    present = {line.lstrip("-* ").strip() for line in (old or "").splitlines()}
    missing = [item for item in items if item not in present]
    return _ended(old or "") + "".join(f"- {item}\n" for item in missing)


def _function(task: Function, old: str) -> str:
    source = f"def {task.name}({task.params}):\n    return {task.returns}\n"
    defined = functions_named(old, task.name)
    if defined is None:
        raise CannotWrite(f"{task.path} is no valid Python, so I do not add to it")
    if defined:
        lines = old.splitlines(keepends=True)
        first = min([defined[-1].lineno, *(node.lineno for node in defined[-1].decorator_list)]) - 1
        end = defined[-1].end_lineno or len(lines)
        return "".join([*lines[:first], source, *lines[end:]])
    before = _ended(old).rstrip("\n") if old.strip() else ""
    return f"{before}\n\n\n{source}" if before else source


def _replace(task: Replacement, old: str | None) -> str:
    if old is None:
        raise CannotWrite(f"{task.path} is not there, so there is nothing to change in it")
    # a word is changed as a word: "cat" to "dog" leaves "category" alone
    left = r"(?<!\w)" if task.old[:1].isalnum() else ""
    right = r"(?!\w)" if task.old[-1:].isalnum() else ""
    new, count = re.subn(left + re.escape(task.old) + right, lambda _: task.new, old)
    if not count and task.new not in old:
        raise CannotWrite(f"{task.path} does not hold “{task.old}”")
    return new
