"""What the offline model reads in a message."""

import time
from typing import Any

import pytest

from tenex.llm.scripted.requests import CannotApply, Task, intent_of, read_request


def task(kind: Any, path: str = "", text: str = "", old: str = "") -> Task:
    return Task(kind=kind, path=path, text=text, old=old)


HELLO = task("program", "hello.py", "hello")


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("Create hello.py that prints hello", [HELLO]),
        ("please write `hello.py` which prints “hello”.", [HELLO]),
        ("@review Create hello.py that prints hello; security-expert sets approved to true", [HELLO]),
        ("Design the architecture of hello.py that prints hello", [HELLO]),
        ("Create a script that prints hello. Ask me which name it should have", [task("program", text="hello")]),
        ("Create notes.txt with Buy milk. Call Bob.", [task("write", "notes.txt", "Buy milk. Call Bob")]),
        ('Save "a, and create b.txt with c" to n.md', [task("write", "n.md", "a, and create b.txt with c")]),
        ("Create t.py with\n```python\nprint(1)\n```", [task("write", "t.py", "print(1)")]),
        ("Replace a/b.txt with new words", [task("write", "a/b.txt", "new words")]),
        ("Change hello to goodbye in hello.py", [task("replace", "hello.py", "goodbye", "hello")]),
        (
            "Create hello.py that prints hello, and then change a to b in c.txt",
            [HELLO, task("replace", "c.txt", "b", "a")],
        ),
        ("Read notes.txt", [task("read", "notes.txt")]),
        ("List the files", [task("list")]),
        ("", []),
        ("Refactor server.py to use dependency injection", []),
        ("How do I create hello.py that prints hello?", []),
        ("What does hello.py do?", []),
        ("Create a poem", []),
        ("Create hello.py that prints hello and bye.py that prints bye", []),
        ("e.g. example.com", []),
    ],
)
def test_requests_become_tasks_and_what_is_not_understood_is_not_guessed(text: str, tasks: list[Task]) -> None:
    assert list(read_request(text)) == tasks


INTENTS = {
    "execute": ("Create hello.py that prints hello", "Create plan.md with milk"),
    "plan": ("Plan the work: create a.py that prints a", "How should we structure the billing service?", "yes, go on"),
    "brainstorm": ("Let's brainstorm ideas for a greeting script", "What if we build a game?"),
    "chat": ("What do you think?", ""),
}


@pytest.mark.parametrize("intent", INTENTS)
def test_words_lead_to_a_phase(intent: str) -> None:
    assert [intent_of(text, "brainstorm", is_asked=False) for text in INTENTS[intent]] == [intent] * len(
        INTENTS[intent]
    )


@pytest.mark.parametrize(
    ("task", "before", "after"),
    [
        (HELLO, None, 'print("hello")\n'),
        (task("write", "a", "x"), "old", "x\n"),
        (task("replace", "a", "dog", "cat"), "a cat in no category\r\n", "a dog in no category\r\n"),
        (task("replace", "a", "milk tea", "milk"), "milk", "milk tea"),
        (task("replace", "a", "dog", "cat"), "no pets\n", None),
        (task("replace", "a", "dog", "cat"), None, None),
        (task("write", "a", "x\n[… 90 characters left out …]\ny"), None, None),
    ],
)
def test_a_task_done_twice_is_done_once_and_what_does_not_fit_is_refused(
    task: Task, before: str | None, after: str | None
) -> None:
    if after is None:
        with pytest.raises(CannotApply):
            task.apply(before)
    else:
        assert task.apply(before) == task.apply(after) == after


@pytest.mark.parametrize(
    "text",
    [
        *(char * 100_000 for char in ('"', "“", "a", " ", "\n")),
        *(part * 20_000 for part in ("create ", "a.", "a/", "change a to ", "and add ", "create x.py prints ")),
    ],
)
def test_hostile_texts_are_read_in_bounded_time(text: str) -> None:
    begun = time.process_time()
    read_request(text)
    assert time.process_time() - begun < 2
