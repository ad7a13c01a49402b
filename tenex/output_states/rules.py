"""Grammar rules as they are written: GBNF, which llama.cpp, xgrammar (vLLM, SGLang) and llguidance all read.

Only what the three dialects share is used: names of lower-case letters, digits and hyphens, literals, character
classes, groups, `?` and bounded repetition.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from .endings import SPACES, Ending, Position

MOST_REPEATED: Final = 2000
"""Repetitions llama.cpp takes in one rule; beyond them a bound is left to the parser."""

EMPTY: Final = '""'


@dataclass(slots=True)
class GrammarRules:
    """Rules by name, and what they leave out.

    `unsaid` are the faults that only the parser finds, `narrower` the right answers that the grammar does not permit.
    """

    rules: dict[str, str] = field(default_factory=dict)
    unsaid: list[str] = field(default_factory=list)
    narrower: list[str] = field(default_factory=list)
    texts: dict[Ending, dict[tuple[Position, int, int | None], str]] = field(default_factory=dict)
    """Rules of free text, by what stands at the end of it."""
    _names: dict[str, str] = field(default_factory=dict)

    def named(self, body: str, kind: str = "r") -> str:
        """The name of a rule with this body; equal bodies share one."""
        if body not in self._names:
            self._names[body] = self.reserve(kind)
            self.rules[self._names[body]] = body
        return self._names[body]

    def reserve(self, kind: str = "r") -> str:
        """A name for a rule whose body comes later: rules may refer to themselves."""
        name = f"{kind}{len(self.rules)}"
        self.rules[name] = ""
        return name

    def text(self, root: str) -> str:
        """All rules, `root` first, each on a line of its own."""
        lines = [f"root ::= {root}", *(f"{name} ::= {body}" for name, body in self.rules.items())]
        return "\n".join(lines) + "\n"


def literal(text: str) -> str:
    """These characters."""
    return '"' + "".join(_escaped(character, '"') for character in text) + '"'


def one_of(characters: Iterable[str], *, but: bool = False) -> str:
    """One of these characters, or one that is none of them."""
    return f"[{'^' if but else ''}{''.join(_escaped(character, ']') for character in characters)}]"


_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def _escaped(character: str, closing: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if character == closing:
        return f"\\{character}"
    plain = character.isascii() and character.isprintable() and not (closing == "]" and character in "[^-")
    if plain:
        return character
    code = ord(character)
    return f"\\x{code:02X}" if code < 128 else character


def either(options: Iterable[str]) -> str:
    """One of several bodies, in a group; one alone needs none."""
    found = list(dict.fromkeys(options))
    return found[0] if len(found) == 1 else f"({' | '.join(found)})"


SPACE: Final = f"[ \\t\\r\\n]{{0,{SPACES}}}"
SOME_SPACE: Final = f"[ \\t\\r\\n]{{1,{SPACES}}}"


def text_until(rules: GrammarRules, ending: Ending, least: int, most: int | None) -> str:
    """The name of a rule for free text up to and with its closing delimiter; lengths in characters.

    The rules are the automaton times a count: what may follow at a position, given how many characters must and may
    still come. Texts with the same ending share them. Without `most` they are the automaton alone.
    """
    return _Product(rules, ending).name((ending.start, 0 if most is None else least, most))


_Node = tuple[Position, int, int | None]
"""A position, the characters that must still come, and those that may; None: any number."""


_Move = tuple[str, Position | None, int]
"""Letters as they are written, the position after them (None: closed), and how many characters are content by then."""


@dataclass(slots=True)
class _Product:
    rules: GrammarRules
    ending: Ending
    table: dict[Position, list[_Move]] = field(default_factory=dict)
    moves: dict[_Node, list[tuple[str, _Node | None]]] = field(default_factory=dict)

    def name(self, start: _Node) -> str:
        """The rule of a node; it and all it refers to are written, unless they are already."""
        names = self.rules.texts.setdefault(self.ending, {})
        if start in names:
            return names[start]
        self._explore(start)
        alive = self._alive()
        if start not in alive:
            return EMPTY
        names[start] = self.rules.reserve("t")
        wanted = [start]
        while wanted:
            node = wanted.pop()
            body, further = self._body(node, alive, names)
            self.rules.rules[names[node]] = body
            wanted += further
        return names[start]

    def _explore(self, start: _Node) -> None:
        todo = [start]
        while todo:
            node = todo.pop()
            if node not in self.moves:
                self.moves[node] = list(self._moves(node))
                todo += [after for _, after in self.moves[node] if after is not None]

    def _moves(self, node: _Node) -> Iterable[tuple[str, _Node | None]]:
        at, need, room = node
        if at not in self.table:
            self.table[at] = list(self._row(at))
        for letters, after, known in self.table[at]:
            if after is None:
                if not need:
                    yield letters, None
            elif room is None:
                yield letters, (after, 0, None)
            elif known <= room:
                yield letters, (after, max(need - known, 0), room - known)

    def _row(self, at: Position) -> Iterable[_Move]:
        grouped: dict[Position | None, list[str]] = {}
        for letter in (*self.ending.letters, ""):
            after = self.ending.step(at, letter or _other(self.ending.letters))
            if after is not None or not self.ending.spaced:  # what closes such a text stands behind it
                grouped.setdefault(after, []).append(letter)
        for after, letters in grouped.items():
            known = 0 if after is None else self.ending.held(at) + 1 - self.ending.held(after)
            yield self._class(letters), after, known

    def _closes(self, node: _Node) -> bool:
        return self.ending.closes_at_end(node[0]) and not node[1]

    def _alive(self) -> set[_Node]:
        """The nodes from which the delimiter can still be reached: no model may be led where nothing is permitted."""
        before: dict[_Node | None, list[_Node]] = {}
        for node, moves in self.moves.items():
            for _, after in moves:
                before.setdefault(after, []).append(node)
        alive = {node for node in self.moves if self._closes(node)} | set(before.get(None, ()))
        todo = list(alive)
        while todo:
            for node in before.get(todo.pop(), ()):
                if node not in alive:
                    alive.add(node)
                    todo.append(node)
        return alive

    def _body(self, node: _Node, alive: set[_Node], names: dict[_Node, str]) -> tuple[str, list[_Node]]:
        """What may follow at a node, and the nodes it names for the first time.

        A node that only holds back more is written where it is needed. What turns held characters into content is a
        rule of its own: equal ones stand behind every beginning of a delimiter.
        """
        held = self.ending.held(node[0])
        options, flat, further = ([EMPTY] if self._closes(node) else []), [], list[_Node]()
        for letters, after in self.moves[node]:
            if after is None:
                options.append(letters)
            elif after not in alive:
                continue
            elif self.ending.held(after[0]) > held > 0 and after not in names:
                body, more = self._body(after, alive, names)
                options.append(f"{letters} ({body})")
                further += more
            else:
                if after not in names:
                    names[after] = self.rules.reserve("t")
                    further.append(after)
                flat.append(f"{letters} {names[after]}")
        if held and len(flat) > 1:
            flat = [self.rules.named(" | ".join(flat), "h")]
        return " | ".join([*options, *flat]), further

    def _class(self, letters: list[str]) -> str:
        if "" in letters:
            return one_of((letter for letter in self.ending.letters if letter not in letters), but=True)
        return literal(letters[0]) if len(letters) == 1 else one_of(letters)


def _other(letters: str) -> str:
    return next(character for character in map(chr, range(32, 0xD800)) if character not in letters)
