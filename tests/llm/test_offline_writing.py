"""Contents of files: what tasks make of what was there."""

import subprocess
import sys
from pathlib import Path

import pytest

from tenex.llm.scripted.formulas import formula
from tenex.llm.scripted.python_source import is_expression
from tenex.llm.scripted.recipes import find_recipe, repeated
from tenex.llm.scripted.tasks import Function, Lines, ListFile, Program, Replacement, Task, TextFile, Unable
from tenex.llm.scripted.writing import CannotWrite, fold

ADD = Function(path="c.py", name="add", params="a, b", returns="a + b")


@pytest.mark.parametrize(
    ("task", "old"),
    [
        (ADD, "import math\n"),
        (ADD, "def add(a):\n    return 0\n\n\nX = 1\n"),
        (Lines(path="n.txt", text="two"), "one\n"),
        (ListFile(path="t.md", items=("a", "b")), "# List\n\n- a\n"),
        (Replacement(path="n.txt", old="cat", new="dog"), "cat category\n"),
        (TextFile(path="n.txt", text="x"), "y\n"),
        (Program(path="n.py", text="x"), None),
    ],
)
def test_doing_it_twice_changes_nothing_more(task: Task, old: str | None) -> None:
    once = fold([task], old)
    assert once != old
    assert fold([task], once) == once
    assert once.endswith("\n")


def test_a_function_takes_the_place_of_its_namesake() -> None:
    old = "X = 1\n\n\n@cache\ndef add(a):\n    return 0\n\n\nY = 2\n"
    assert fold([ADD], old) == "X = 1\n\n\ndef add(a, b):\n    return a + b\n\n\nY = 2\n"


def test_what_does_not_fit_is_said() -> None:
    misfits: list[tuple[Task, str | None]] = [
        (ADD, "def broken(:\n"),
        (Replacement(path="n.txt", old="cat", new="dog"), "bird\n"),
        (Replacement(path="n.txt", old="cat", new="dog"), None),
        (Unable(path="n.txt", why="no"), ""),
    ]
    for task, old in misfits:
        with pytest.raises(CannotWrite):
            fold([task], old)


@pytest.mark.parametrize("text", ["hello", "it's", 'say "hi"', "both ' and \"", "a\\b", "tab\there", "ü 🙂", "{x} %s"])
@pytest.mark.parametrize("suffix", ["py", "sh"])
def test_programs_print_exactly_their_words(tmp_path: Path, text: str, suffix: str) -> None:
    """Quotation marks, backslashes and emoji survive in Python and in the shell."""
    (tmp_path / "p").write_text(fold([Program(path=f"p.{suffix}", text=text)], None))
    command = [sys.executable, "-X", "utf8"] if suffix == "py" else ["sh"]
    ran = subprocess.run([*command, tmp_path / "p"], capture_output=True, check=True)
    assert ran.stdout.decode() == text + "\n"


@pytest.mark.parametrize(
    "phrase",
    [
        "the first 12 Fibonacci numbers",
        "the first ten primes",
        "all prime numbers up to 30",
        "fizzbuzz",
        "FizzBuzz up to 20",
        "the numbers from 5 to 1",
        "die Zahlen von 1 bis 4",
        "the sum of 2 and 40",
        "the product of 6 and 7",
    ],
)
def test_recipes_print_what_they_promise(tmp_path: Path, phrase: str) -> None:
    recipe = find_recipe(phrase)
    assert recipe is not None
    (tmp_path / "p.py").write_text(recipe.code)
    ran = subprocess.run([sys.executable, tmp_path / "p.py"], capture_output=True, text=True, check=True)
    assert ran.stdout.rstrip("\n") == recipe.prints
    assert recipe.prints


def test_recipes_have_bounds() -> None:
    assert find_recipe("the first 1001 primes") is None
    assert find_recipe("the weather") is None
    assert repeated("hi", "hi 1001 times") is None
    again = repeated("hi", "hi three times")
    assert again is not None
    assert again.prints == "hi\nhi\nhi"


def test_formulas_are_python() -> None:
    known = formula("isEven", "n: int")
    assert known == ("n: int", "n % 2 == 0")
    assert formula("add", "") == ("a, b", "a + b")
    assert formula("greet", "name") == ("name", 'f"Hello, {name}!"')
    assert formula("add", "a") is None
    assert is_expression('f"Hello, {name}!"')
    assert not is_expression("import os")
    assert not is_expression("1\nx = 2")
    assert not is_expression("(" * 100_000)
