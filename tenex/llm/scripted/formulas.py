"""Functions known by their name: what `add`, `is_even` or `greet` return."""

import re

# per name and number of arguments: an expression with the arguments' places
_FORMULAS: dict[tuple[str, int], str] = {
    **dict.fromkeys([("add", 2), ("plus", 2), ("sum", 2), ("sum_of", 2), ("addiere", 2), ("suma", 2)], "{0} + {1}"),
    **dict.fromkeys([("sub", 2), ("subtract", 2), ("minus", 2), ("difference", 2), ("resta", 2)], "{0} - {1}"),
    **dict.fromkeys([("mul", 2), ("multiply", 2), ("times", 2), ("product", 2)], "{0} * {1}"),
    **dict.fromkeys([("div", 2), ("divide", 2), ("quotient", 2)], "{0} / {1}"),
    **dict.fromkeys([("pow", 2), ("power", 2)], "{0} ** {1}"),
    **dict.fromkeys([("mod", 2), ("modulo", 2), ("remainder", 2)], "{0} % {1}"),
    **dict.fromkeys([("max", 2), ("maximum", 2), ("larger", 2)], "{0} if {0} >= {1} else {1}"),
    **dict.fromkeys([("min", 2), ("minimum", 2), ("smaller", 2)], "{0} if {0} <= {1} else {1}"),
    **dict.fromkeys([("average", 2), ("mean", 2)], "({0} + {1}) / 2"),
    ("area", 2): "{0} * {1}",
    ("concat", 2): "{0} + {1}",
    ("square", 1): "{0} * {0}",
    ("cube", 1): "{0} ** 3",
    ("double", 1): "2 * {0}",
    ("half", 1): "{0} / 2",
    **dict.fromkeys([("neg", 1), ("negate", 1)], "-{0}"),
    ("is_even", 1): "{0} % 2 == 0",
    ("is_odd", 1): "{0} % 2 == 1",
    ("reverse", 1): "{0}[::-1]",
    ("is_palindrome", 1): "{0} == {0}[::-1]",
    **dict.fromkeys([("greet", 1), ("greeting", 1), ("say_hello", 1), ("hello", 1)], 'f"Hello, {{{0}}}!"'),
    **dict.fromkeys([("greet", 0), ("say_hello", 0), ("hello", 0)], '"Hello!"'),
    ("factorial", 1): "1 if {0} < 2 else {0} * factorial({0} - 1)",
    ("celsius_to_fahrenheit", 1): "{0} * 9 / 5 + 32",
    ("fahrenheit_to_celsius", 1): "({0} - 32) * 5 / 9",
}
_USUAL = {0: "", 1: "x", 2: "a, b"}


def formula(name: str, params: str) -> tuple[str, str] | None:
    """The parameters and the expression of a function known by name; None if it is not known.

    Without parameters the usual ones are taken: `add` becomes `add(a, b)`.
    """
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    if params:
        names = [re.split(r"[:=]", param)[0].strip() for param in params.split(",")]
        found = _FORMULAS.get((plain, len(names)))
        return (params, found.format(*names)) if found else None
    for arity in (2, 1, 0):
        found = _FORMULAS.get((plain, arity))
        if found:
            return _USUAL[arity], found.format(*_USUAL[arity].split(", "))
    return None
