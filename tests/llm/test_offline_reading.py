"""What a person's words are understood as: kinds of message, marks, tasks."""

import pytest

from tenex.llm.scripted.intent import Intent, intent_of, intent_of_all
from tenex.llm.scripted.marks import file_names, mark
from tenex.llm.scripted.reading import answered, read_request
from tenex.llm.scripted.tasks import Function, Lines, ListFile, Program, Replacement, Task, TextFile, Unable


def only(text: str) -> Task:
    tasks = read_request((text,)).tasks
    assert len(tasks) == 1, tasks
    return tasks[0]


@pytest.mark.parametrize(
    ("text", "path", "prints"),
    [
        ("Create hello.py that prints hello.", "hello.py", "hello"),
        ("Write a python script hello.py which prints 'Hello, Nostr!'", "hello.py", "Hello, Nostr!"),
        ("Create `hello.py` that prints “it's me” to the console when run, please", "hello.py", "it's me"),
        ("Make hello.py print goodbye instead of hello", "hello.py", "goodbye"),
        ("Create hello.py. It should print hello.", "hello.py", "hello"),
        ("create a hello world program in python", None, "Hello, World!"),
        ("Create a program that prints the numbers from 1 to 5", None, "1\n2\n3\n4\n5"),
        ("Erstelle hallo.py, das Hallo Welt ausgibt", "hallo.py", "Hallo Welt"),
        ("Crea hola.py que imprima hola", "hola.py", "hola"),
        ("Crée salut.py qui affiche salut", "salut.py", "salut"),
        ("nostr:npub1xyz Create hello.sh that prints hello world", "hello.sh", "hello world"),
        ("Create it.py that prints hi twice", "it.py", "hi\nhi"),
    ],
)
def test_programs_that_print(text: str, path: str | None, prints: str) -> None:
    task = only(text)
    assert isinstance(task, Program)
    assert (task.path, task.text) == (path, prints)


@pytest.mark.parametrize(
    ("text", "path", "holds"),
    [
        ("write a file notes.txt with Buy milk", "notes.txt", "Buy milk"),
        ("Write 'hello there' to docs/greeting.txt", "docs/greeting.txt", "hello there"),
        ("Create an empty file a.txt", "a.txt", ""),
        ("Create a file called shopping.txt containing apples, pears", "shopping.txt", "apples, pears"),
        ("Create notes.md with:\n# Title\n\nThanks", "notes.md", "# Title"),
        ("Create t.py with\n```python\nprint(1)\n```", "t.py", "print(1)\n"),
        ("Schreibe eine Datei notiz.txt mit Milch kaufen", "notiz.txt", "Milch kaufen"),
    ],
)
def test_files_with_given_words(text: str, path: str, holds: str) -> None:
    task = only(text)
    assert isinstance(task, TextFile)
    assert (task.path, task.text) == (path, holds)


@pytest.mark.parametrize(
    ("text", "path", "old", "new"),
    [
        ("change hello to goodbye in hello.py", "hello.py", "hello", "goodbye"),
        ("In notes.txt, replace 'to be' with 'not to be'", "notes.txt", "to be", "not to be"),
        ("fix the typo teh to the in README.md", "README.md", "teh", "the"),
        ("Ändere rot in blau in farben.txt", "farben.txt", "rot", "blau"),
        ("Cambia rojo por azul en colores.txt", "colores.txt", "rojo", "azul"),
    ],
)
def test_replacements(text: str, path: str, old: str, new: str) -> None:
    assert only(text) == Replacement(path=path, old=old, new=new)


def test_functions_by_name_and_by_formula() -> None:
    two = read_request(("add functions add(a, b) and sub(a, b) to calc.py",)).tasks
    assert [(t.name, t.returns) for t in two if isinstance(t, Function)] == [("add", "a + b"), ("sub", "a - b")]
    told = only("Add a function called `slugify(text)` that returns text.lower() to util.py")
    assert told == Function(path="util.py", name="slugify", params="text", returns="text.lower()")
    assert isinstance(only("add a function frobnicate(x) to util.py"), Unable)


def test_lists_and_lines() -> None:
    assert only("make a list of milk, bread and eggs in todo.md") == ListFile(
        path="todo.md", items=("milk", "bread", "eggs")
    )
    assert only("Make a todo list in todo.md:\n- milk\n- eggs\n\nThanks") == ListFile(
        path="todo.md", items=("milk", "eggs")
    )
    assert only("Add the line 'x = 1' to conf.toml") == Lines(path="conf.toml", text="x = 1")


def test_a_sentence_may_hold_several_files() -> None:
    tasks = read_request(("make a list of milk and eggs in todo.md and create bye.py that prints bye",)).tasks
    assert [task.path for task in tasks] == ["todo.md", "bye.py"]
    unnamed = read_request(("Create a script that prints hello and another script that prints bye",)).tasks
    assert [task.text for task in unnamed if isinstance(task, Program)] == ["hello", "bye"]


@pytest.mark.parametrize(
    "text",
    [
        "write a poem in poem.txt",
        "Create server.py, a web server with authentication",
        "fix the bug in calc.py",
        "delete old.txt",
        "Rename a.py to b.py",
        "Create weather.py that prints the weather",
        "Create primes.py that prints the first 99999 primes",
    ],
)
def test_what_rules_cannot_do_is_no_guess(text: str) -> None:
    assert isinstance(only(text), Unable)


@pytest.mark.parametrize("text", ["", "hello", "What does hello.py do?", "I like example.com, e.g. the docs"])
def test_what_is_no_request_has_no_tasks(text: str) -> None:
    assert read_request((text,)).tasks == ()


def test_a_question_is_taken_out_and_its_answer_put_in() -> None:
    asked = read_request(("Create a script that prints hello. Ask me which name it should have.",))
    assert asked.question == "Which name it should have?"
    assert [task.path for task in answered(asked, "greeter.py")] == ["greeter.py"]
    assert [task.path for task in answered(asked, "My Greeter")] == ["my_greeter.py"]
    words = read_request(("Create a.py that prints a greeting; ask me which one",))
    assert answered(words, "Good morning") == (Program(path="a.py", text="Good morning"),)


def test_marks_hide_quotations_and_files_only() -> None:
    marked = mark("Write \"a.py b\" to 'notes.txt', don't print e.g. this; see ./src/x.py.")
    assert marked.quotes == ("a.py b",)
    assert marked.files == ("notes.txt", "./src/x.py")
    assert marked.plain(marked.text).endswith("see ./src/x.py.")
    assert file_names("`hello.py` and (bye.py), not e.g. example.com") == ("hello.py", "bye.py")


@pytest.mark.parametrize(
    ("texts", "intent"),
    [
        (["Create something nice", "a script that prints hello"], Intent.EXECUTE),
        (["Create hello.py", "yes, go ahead"], Intent.EXECUTE),
        (["hello", "yes"], Intent.ASSENT),
        (["Create hello.py that prints hello", "What can you do?"], Intent.CHAT),
        ([], Intent.CHAT),
    ],
)
def test_an_answer_is_understood_with_what_it_answers(texts: list[str], intent: Intent) -> None:
    assert intent_of_all(texts) is intent


HOSTILE = {
    "quotes": "“" * 100_000,
    "apostrophes": "'a " * 33_000,
    "one word": "a" * 100_000,
    "dots": "a." * 50_000,
    "verbs": "create change list of " * 4_500,
    "blanks": "create a.py with" + " " * 100_000 + '"x"',
    "newlines": "create a.py" + "\n " * 50_000 + '"x"',
    "brackets": "add a function f(" + "(" * 100_000 + ") to x.py",
    "digits": "create a.py that prints the first " + "9" * 100_000 + " primes",
    "surrogate": "create a.py that prints \ud800",
    "marks of our own": "create \ue0005\ue001 \ue0027\ue003 a.py with \ue0009\ue001",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_read_in_bounded_time(name: str) -> None:
    """Anything quadratic would take minutes here; nothing raises."""
    intent_of(HOSTILE[name])
    read_request((HOSTILE[name], HOSTILE[name]))
