"""A command line as allow rules read it: its commands, and whether it is nothing but plain words.

The parser is that of `tree-sitter-bash`. A plain line is commands of one program and literal words each, joined by
`&&`, `||`, `;` or `|`: bash runs exactly these words, in this order or a part of them. Whatever is not listed here as
plain is not plain, and no allow rule that names words lets it through. What refuse and ask rules look at is in
`shell_readings`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

Words = tuple[str, ...]
"""A program and its arguments."""

LONGEST: Final = 4_000
"""Characters that are parsed: a longer line is a script, and never plain."""

_NO_ASCII: Final = re.compile(r"[^\x01-\x7f]")
"""What the parser must not see."""
_JOINS: Final = frozenset({"&&", "||", ";", "|", "\n"})
"""Tokens between the commands of a plain line."""
_GROUPS: Final = frozenset({"program", "list", "pipeline"})
"""Nodes of a plain line that hold commands."""
_ODD: Final = frozenset("\\`$")
"""Characters that make a line not plain, in quotes too."""
_SPECIAL: Final = re.compile(r"[*?\[\]{}!]|(?:^|[=:])~")
"""What may stand for something else in a word without quotes."""
_COMMANDS: Final = frozenset({"command", "declaration_command", "unset_command", "test_command"})
_NO_WORDS: Final = frozenset({"variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"})
"""Parts of a command that are none of its words."""


def words_of(text: str) -> frozenset[str]:
    """A set of words, written as a text."""
    return frozenset(text.split())


_BUILT_IN: Final = words_of("""
    . : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo
    enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf
    pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit
    umask unalias unset wait
    ! [[ ]] { } case coproc do done elif else esac fi for function if in select then time until while
    """)
"""What bash carries out itself: its built-in commands (`compgen -b`) and its reserved words (`compgen -k`)."""
_HARMLESS_BUILT_IN: Final = words_of(": cd echo false printf pwd true")
"""Of these, those that assign, load and catch nothing, if they have no option."""


@dataclass(frozen=True, slots=True)
class ShellText:
    """What a command line holds."""

    commands: tuple[Words, ...]
    """In order, all that a plain line runs; of another none."""
    is_plain: bool


NOT_PLAIN: Final = ShellText((), is_plain=False)


def parsed(line: str) -> ShellText:
    """Read a command line; one that is not plain, or too long, has no commands."""
    if len(line) > LONGEST or not _is_plain_text(line):
        return NOT_PLAIN
    syntax = Syntax(line)
    if not syntax.is_plain():
        return NOT_PLAIN
    commands = tuple(tuple(map(_literal, texts)) for texts, _ in syntax.commands())
    return ShellText(commands, is_plain=True) if commands and all(map(_is_program, commands)) else NOT_PLAIN


def _is_program(command: Words) -> bool:
    """Whether bash runs a program by these words, or does what no option makes harmful."""
    name, *arguments = command
    if "=" in name or name.startswith("%"):  # an assignment, and a job that goes on
        return False
    has_option = any(word.startswith("-") for word in arguments)
    return name not in _BUILT_IN or (name in _HARMLESS_BUILT_IN and not has_option)


def _is_plain_text(line: str) -> bool:
    """Whether no character of a line could mean one thing to the parser and another to the shell."""
    return _ODD.isdisjoint(line) and all(char.isprintable() or char in "\n\t" for char in line)


def _literal(text: str) -> str:
    """A plain word without its quotes."""
    return text[1:-1] if text[:1] in ("'", '"') else text


@cache
def _parser() -> Any:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class Syntax:
    """A command line as the parser reads it.

    The parser's scanner looks characters up in tables of C that end at 255: of a line with others it may read memory
    that is not its own, and end the process. To a shell each of them is a letter, so each is a letter to the parser,
    and words are cut from the line itself.
    """

    def __init__(self, line: str) -> None:
        self._line = line
        self._root = _parser().parse(_NO_ASCII.sub("x", line).encode("ascii")).root_node

    def is_plain(self) -> bool:
        """Whether it consists of nothing but commands of literal words, one after the other."""
        if self._root.has_error:
            return False
        left = [self._root]
        while left:
            node = left.pop()
            if node.type in _GROUPS:
                left += node.children
            elif node.type == "command":
                if not self._is_plain_command(node):
                    return False
            elif node.is_named or node.type not in _JOINS:
                return False
        return True

    def commands(self) -> Iterator[tuple[Words, str]]:
        """The words of every command at any depth as they are written, and its whole text, in the order of the line."""
        left = [self._root]
        while left:
            node = left.pop()
            if node.type in _COMMANDS:
                words = tuple(self._text(part) for part in node.children if part.type not in _NO_WORDS)
                if any(words):
                    yield words, self._text(node)
            left += reversed(node.children)

    def _is_plain_command(self, command: Any) -> bool:
        name, *arguments = command.children
        is_word = name.type == "command_name" and len(name.children) == 1 and name.children[0].type == "word"
        return is_word and self._is_plain_word(name.children[0]) and all(map(self._is_plain_word, arguments))

    def _is_plain_word(self, node: Any) -> bool:
        match node.type:
            case "word" | "number":
                return not node.children and _SPECIAL.search(self._text(node)) is None
            case "raw_string":
                return True
            case "string":
                return all(child.type in ('"', "string_content") for child in node.children)
        return False

    def _text(self, node: Any) -> str:
        return self._line[node.start_byte : node.end_byte]
