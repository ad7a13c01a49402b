"""From a person's words to tasks: where a request's parts begin and end, and which files they concern.

A text becomes sentences, a sentence parts with one file each, and a part at most a few tasks (`phrases`). What no
rule understands becomes `Unable` where a file was named, and nothing where none was.
"""

import re
from dataclasses import replace
from itertools import islice

from .intent import is_question, words_of
from .marks import FILE, Marked, file_names, mark
from .part import Part
from .phrases import read_part
from .recipes import find_recipe
from .tasks import Asked, Program, Task, TextFile, Unable
from .vocabulary import POLITE, VERBS

# a quotation on a line of its own belongs to the line before it
_SENTENCE = re.compile("\\n+(?!\\s*\ue000)|(?<=[.!?;。！？])\\s+(?!\ue000)")
_JOINT = re.compile(
    r"\s*,?\s+(?:and then|and also|and|then|also|und dann|und auch|und|dann|y luego|y|et puis|et|puis)\s+|\s*,\s+",
    re.IGNORECASE,
)
_ANOTHER = re.compile(r",?\s+and\s+(?=(?:a|another|one)\s+(?:\w+\s+)?(?:script|program)\b)", re.IGNORECASE)
_ASK = re.compile(
    r"\b(?:but |and |then |first )*(?:please )?(?:ask me|frag(?:e|t)? mich|pregúntame|demande-moi)\s*"
    r"(?:first |zuerst |primero |d'abord )?[,:]?\s*(.{0,200}?)\s*[.!?]*(?=$|[.;!?]\s|\n|,? (?:and|then) )",
    re.IGNORECASE,
)
_ABOUT_NAME = re.compile(r"\b(?:names?|called|filename|namen?|heißen|nombre|llamar|nom|appeler)\b", re.IGNORECASE)
_SENTENCES = 500  # sentences of one message that are read
_LONGEST_SPLIT = 10_000  # characters; a sentence above that is content
_PARTS = 50  # tasks one request may hold; more is no request a person wrote


def read_request(texts: tuple[str, ...]) -> Asked:
    """Read messages that belong together as one request."""
    tasks: list[Task] = []
    question = ""
    for text in texts:
        found = _read_text(text)
        question = question or found.question
        if found.tasks:
            tasks = [*tasks, *found.tasks]
        elif tasks and _is_file_answer(text):
            tasks = list(named(tuple(tasks), text))
    return Asked(tasks=tuple(tasks[:_PARTS]), question=question)


def named(tasks: tuple[Task, ...], answer: str) -> tuple[Task, ...]:
    """Give the first task without a file the file an answer names, or one named after the answer."""
    files = file_names(answer)
    out: list[Task] = []
    is_given = False
    for task in tasks:
        if task.path is None and not is_given:
            suffix = task.name_hint.rpartition(".")[2] or "txt"
            path = files[0] if files else f"{slug(answer)}.{suffix}"
            out.append(_with_path(task, path))
            is_given = True
        else:
            out.append(task)
    return tuple(out)


def answered(asked: Asked, answer: str) -> tuple[Task, ...]:
    """Complete a request's tasks with the answer to its question: a file's name, or the words that were missing."""
    if not asked.tasks:
        return _read_text(answer).tasks
    lacks_path = any(task.path is None for task in asked.tasks)
    lacks_words = any(isinstance(task, Unable) for task in asked.tasks)
    if lacks_path and (file_names(answer) or _ABOUT_NAME.search(asked.question) or not lacks_words):
        return named(asked.tasks, answer)
    words = answer.strip().strip("\"'`“”")
    return tuple(_with_words(task, words) if isinstance(task, Unable) else task for task in asked.tasks)


def slug(words: str) -> str:
    """A short file name made of words."""
    return "_".join(re.findall(r"\w+", words.lower())[:3])[:40].strip("_") or "file"


def _with_path(task: Task, path: str) -> Task:
    # spelt out: dataclasses.replace knows nothing of unions
    fields = {name: getattr(task, name) for name in task.__slots__}
    return type(task)(**{**fields, "path": path})


def _with_words(task: Unable, words: str) -> Task:
    path = task.path or task.name_hint or None
    if path and path.rpartition(".")[2] in ("py", "sh", "js"):
        return Program(path=task.path, text=words, name_hint=task.name_hint or "script.py")
    return TextFile(path=task.path, text=words, name_hint=task.name_hint or "notes.txt")


def _is_file_answer(text: str) -> bool:
    return len(file_names(text)) == 1 and len(text.split()) <= 6


def _read_text(text: str) -> Asked:
    marked = mark(text)
    # long runs of white space would make patterns slow, and mean nothing outside quotations
    marked = replace(marked, text=re.sub(r"\s{20,}", lambda run: "\n" if "\n" in run[0] else " ", marked.text))
    rest, question = _take_question(marked)
    if is_question(text):
        return Asked(question=question)
    is_request = not VERBS.isdisjoint(words_of(rest))
    tasks: list[Task] = []
    for sentence in islice(_SENTENCE.split(rest), _SENTENCES):
        if sentence.strip():
            _read_sentence(marked, sentence.strip(), is_request, tasks)
        if len(tasks) > _PARTS:
            break
    return Asked(tasks=tuple(tasks), question=question)


def _take_question(marked: Marked) -> tuple[str, str]:
    """Cut `ask me which name` out of a text; what is left, and what to ask."""
    found = _ASK.search(marked.text[:20_000])
    if not found:
        return marked.text, ""
    topic = marked.plain(found[1]).strip() or "what you want to tell me about this"
    rest = marked.text[: found.start()].rstrip(" ,;.") + ". " + marked.text[found.end() :].lstrip(" .?!")
    return rest, topic[0].upper() + topic[1:] + "?"


def _read_sentence(marked: Marked, sentence: str, is_request: bool, tasks: list[Task]) -> None:
    pieces = _parts(marked, sentence)
    found = [task for piece in pieces for task in read_part(Part(marked=marked, text=piece), is_request)]
    if found:
        tasks.extend(found)
    elif tasks and not re.search(FILE, sentence):
        tasks[-1] = _continue(marked, sentence, tasks[-1])


def _parts(marked: Marked, sentence: str) -> list[str]:
    """Cut a sentence so that each part names at most one file."""
    if len(sentence) > _LONGEST_SPLIT:
        return [sentence]
    if len(marked.named(sentence)) < 2:
        return _ANOTHER.split(sentence)
    parts: list[str] = []
    waiting = last_glue = ""
    at = 0
    for joint in [*_JOINT.finditer(sentence), None]:
        end = joint.start() if joint else len(sentence)
        piece, glue = sentence[at:end], sentence[end : joint.end()] if joint else ""
        at = joint.end() if joint else end
        words = words_of(piece)
        if re.search(FILE, piece):
            parts.append(waiting + piece)
            waiting = ""
        elif parts and not waiting and not (words and words[0] in VERBS | {"function", "a", "eine", "una", "une"}):
            parts[-1] += last_glue + piece
        else:
            waiting += piece + glue
        last_glue = glue
    return parts


def _continue(marked: Marked, sentence: str, task: Task) -> Task:
    """A sentence that names no file and is no task of its own says more about the task before it."""
    words = words_of(sentence)
    if not words or words[0] in POLITE or not VERBS.isdisjoint(words):
        return task
    more = marked.plain(sentence)
    match task:
        case TextFile(text="", path=str(path)):
            # "Create hello.py. It should print hello.": read again with the file's name before it
            again = Part(marked=marked, text=f"\ue002{marked.files.index(path)}\ue003 {sentence}")
            found = read_part(again, is_request=True)
            return found[0] if found and not isinstance(found[0], Unable) else task
        case TextFile(text=text) if "\n" not in text and find_recipe(text) is None:
            return TextFile(
                path=task.path, text=f"{text}{'' if text[-1] in '.!?' else '.'} {more}", name_hint=task.name_hint
            )
        case _:
            return task
