"""Programs known by heart: what they are called in a request, their Python, and what they must print."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, islice

_MOST = 1_000  # numbers printed: more is a mistake rather than a wish, and output is capped anyway

_NUMBER_WORDS = {
    word: number
    for number, words in enumerate(
        (
            "",
            "one ein un",
            "two twice zwei dos deux",
            "three drei tres trois",
            "four vier cuatro quatre",
            "five fünf cinco cinq",
            "six sechs seis",
            "seven sieben siete sept",
            "eight acht ocho huit",
            "nine neun nueve neuf",
            "ten zehn diez dix",
        )
    )
    for word in words.split()
}
_N = r"(\d{1,6}|" + "|".join(_NUMBER_WORDS) + r")"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A program and what it prints."""

    name: str
    code: str
    prints: str


def find_recipe(phrase: str) -> Recipe | None:
    """The program that prints what a phrase describes, such as `the first 10 primes`; None if none is known."""
    if len(phrase) > 200:
        return None
    for pattern, make in _RECIPES:
        found = pattern.search(phrase)
        if found:
            numbers = [int(_NUMBER_WORDS.get(group.lower(), group)) for group in found.groups() if group]
            if all(number <= _MOST for number in numbers):
                return make(*numbers)
    return None


def repeated(text: str, phrase: str) -> Recipe | None:
    """A program that prints a text several times, where the phrase says how often."""
    found = re.search(_N + r"\s*(?:times|mal|veces|fois)\b", phrase, re.IGNORECASE) or re.search(r"\b(twice)\b", phrase)
    if not found:
        return None
    times = int(_NUMBER_WORDS.get(found[1].lower(), found[1]))
    if times > _MOST:
        return None
    code = f"for _ in range({times}):\n    print({quoted(text)})\n"
    return Recipe(name="repeat", code=code, prints="\n".join([text] * times))


def quoted(text: str) -> str:
    """A Python literal in double quotation marks, as a formatter would write it."""
    literal = repr(text)
    if literal[0] == "'" and '"' not in literal:
        return '"' + literal[1:-1] + '"'
    return literal


def _numbers(first: int, last: int) -> Recipe:
    step = 1 if first <= last else -1
    span = range(first, last + step, step)
    arguments = f"{first}, {last + step}" + (", -1" if step < 0 else "")
    return Recipe(
        name="numbers", code=f"for number in range({arguments}):\n    print(number)\n", prints="\n".join(map(str, span))
    )


def _fibonacci(how_many: int) -> Recipe:
    values, a, b = [], 0, 1
    for _ in range(how_many):
        values.append(a)
        a, b = b, a + b
    code = f"a, b = 0, 1\nfor _ in range({how_many}):\n    print(a)\n    a, b = b, a + b\n"
    return Recipe(name="fibonacci", code=code, prints="\n".join(map(str, values)))


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


_PRIME_CODE = (
    "def is_prime(number):\n"
    "    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))\n\n\n"
)


def _primes(how_many: int) -> Recipe:
    code = (
        _PRIME_CODE
        + f"number, found = 2, 0\nwhile found < {how_many}:\n"
        + "    if is_prime(number):\n        print(number)\n        found += 1\n    number += 1\n"
    )
    primes = islice((number for number in count(2) if _is_prime(number)), how_many)
    return Recipe(name="primes", code=code, prints="\n".join(map(str, primes)))


def _primes_up_to(last: int) -> Recipe:
    code = _PRIME_CODE + f"for number in range(2, {last + 1}):\n    if is_prime(number):\n        print(number)\n"
    prints = "\n".join(str(number) for number in range(2, last + 1) if _is_prime(number))
    return Recipe(name="primes", code=code, prints=prints)


def _fizz(number: int) -> str:
    return ("Fizz" * (number % 3 == 0) + "Buzz" * (number % 5 == 0)) or str(number)


def _fizzbuzz(last: int = 100) -> Recipe:
    code = (
        f"for number in range(1, {last + 1}):\n"
        '    print("Fizz" * (number % 3 == 0) + "Buzz" * (number % 5 == 0) or number)\n'
    )
    return Recipe(name="fizzbuzz", code=code, prints="\n".join(map(_fizz, range(1, last + 1))))


def _sum(a: int, b: int) -> Recipe:
    return Recipe(name="sum", code=f"print({a} + {b})\n", prints=str(a + b))


def _product(a: int, b: int) -> Recipe:
    return Recipe(name="product", code=f"print({a} * {b})\n", prints=str(a * b))


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("{N}", _N), re.IGNORECASE)


_RECIPES: tuple[tuple[re.Pattern[str], Callable[..., Recipe]], ...] = (
    (_pattern(r"\bfizz-?\s?buzz\b(?:\D{0,40}?\b{N}\b)?"), _fizzbuzz),
    (_pattern(r"\b{N}\s+(?:fibonacci|números de fibonacci|nombres de fibonacci)"), _fibonacci),
    (
        _pattern(r"\bprim(?:e|es|e numbers|zahlen|os)\s+(?:up to|below or equal to|to|bis|hasta|jusqu'à)\s+{N}\b"),
        _primes_up_to,
    ),
    (_pattern(r"\b{N}\s+(?:prime|primzahlen|números primos|nombres premiers)"), _primes),
    (
        _pattern(
            r"\b(?:numbers?|zahlen|números|numeros|nombres|chiffres)\s+(?:from\s+|von\s+|del?\s+)?{N}\s*"
            r"(?:to|through|bis|al?|à|-|–)\s*{N}\b"
        ),
        _numbers,
    ),
    (_pattern(r"\b(?:sum of|summe von|suma de|somme de)\s+{N}\s+(?:and|und|y|et)\s+{N}\b"), _sum),
    (_pattern(r"\bproduct of\s+{N}\s+and\s+{N}\b"), _product),
)
