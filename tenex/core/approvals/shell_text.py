"""A command line as rules read it: its commands, and whether it is nothing but plain words.

The parser is that of `tree-sitter-bash`. It finds the parts of `a && b`, `$(...)`, here-documents and the like, and
cannot see into what another program runs: `bash -c`, `find -exec`, `xargs`. So two questions are asked of a line, and
they err in opposite directions:

- Is it plain? Then each of its commands is one program with literal words, joined by `&&`, `||`, `;` or `|`. What an
  allow rule lets through has to be plain, so a construct that is not listed here is never allowed by one.
- Which commands may be in it? All that the parser finds at any depth, and those that wrappers and shells are given as
  words. Refuse and ask rules match any of them: a word that is no command makes a question too many, and no harm.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, Final

Words = tuple[str, ...]
"""A program and its arguments."""

LONGEST: Final = 4_000
"""Characters that are parsed: a longer line is a script, and never plain."""
DEPTH: Final = 3
"""Lines within words that are read: `bash -c "bash -c '...'"`."""
MOST_WORDS: Final = 64
"""Words of a wrapper in which its command is looked for."""
MOST_OTHERS: Final = 500
"""Commands within words that are looked at: a line of nested substitutions has more than any memory holds."""

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


def base_of(word: str) -> str:
    """The name of a program without its folder."""
    return word.rpartition("/")[2]


_RUNS_OTHERS: Final = words_of("""
    . ansible ash at awk bash batch builtin busybox bwrap chroot chrt command coproc csh dash deno doas docker ed emacs
    env eval exec expect find fish flock gawk gdb go ionice irb ksh less lua make man mawk more nawk nc ncat newgrp nice
    node nodejs nohup npx nsenter parallel perl php pkexec podman psql pypy pypy3 rsync ruby runuser script sed setpriv
    setsid sh socat source sqlite3 ssh stdbuf strace su sudo systemd-run tar taskset tclsh tcsh time timeout tmux
    unbuffer unshare uvx vi view vim watch xargs xvfb-run yash zsh
    fakeroot fd fdfind hatch ltrace pdm pipenv pipx poetry prlimit scp setarch sftp split trap tox uv
    """)
"""Programs that run what their arguments say: an allow rule matches such a command only if it names all its words."""
_GIT_RUNS_OTHERS: Final = words_of("bisect config difftool filter-branch for-each-repo mergetool rebase submodule")
"""Verbs of git that run what their arguments say."""
_INTERPRETERS: Final = ("python", "ruby", "perl", "lua", "node")
"""The same, with a version behind the name."""
_NAMES_PROGRAM: Final = ("--checkpoint-action", "--compress-program", "--exec", "--filter", "--pre", "--receive-pack",
                         "--rsh", "--to-command", "--upload-pack", "--use-compress-program")  # fmt: skip
"""Beginnings of words that name a program to run."""
_NAMES_PROGRAM_IN_GIT: Final = (
    *_NAMES_PROGRAM,
    *(
        "-c",
        "-O",
        "-u",
        "-x",
        "--config",
        "--ext-diff",
        "--extcmd",
        "--open-files-in-pager",
        "--paginate",
        "--template",
    ),
    *("--textconv", "--tool", "ext::"),
)
_GIT_VALUES: Final = words_of(
    "-C -c --exec-path --git-dir --work-tree --namespace --super-prefix --config-env --shallow-file --attr-source"
)
"""Options of git itself whose value may be the next word."""


@dataclass(frozen=True, slots=True)
class ShellText:
    """What a command line holds."""

    commands: tuple[Words, ...]
    """In order; of a plain line all that it runs."""
    is_plain: bool
    others: tuple[Words, ...] = ()
    """Further commands that the words of these may be: those of wrappers and shells, git behind its own options."""


def parsed(line: str) -> ShellText:
    """Read a command line; one that is too long has no commands and is not plain."""
    if len(line) > LONGEST:
        return ShellText((), is_plain=False)
    reading = _Reading(line)
    commands = tuple(reading.commands())
    is_plain = _is_plain_text(line) and bool(commands) and reading.is_plain()
    others = tuple(islice(_others(commands), MOST_OTHERS + 1))
    return ShellText(commands, is_plain and len(others) <= MOST_OTHERS, others[:MOST_OTHERS])


def may_run_others(words: Words) -> bool:
    """Whether a command may run a program that its own words name."""
    program = base_of(words[0])
    naming = _NAMES_PROGRAM_IN_GIT if program == "git" else _NAMES_PROGRAM
    return (
        program in _RUNS_OTHERS
        or program.startswith(_INTERPRETERS)
        or (program == "git" and not _GIT_RUNS_OTHERS.isdisjoint(words[1:]))
        or any(_names_program(word, naming) for word in words[1:])
    )


def _names_program(word: str, options: tuple[str, ...]) -> bool:
    """Whether a word is one of these options, also cut: `--upload-pa` is read as `--upload-pack` by many programs."""
    if word.startswith(options):
        return True
    name = word.partition("=")[0]
    is_cut = name.startswith("--") and len(name) > len("--")
    return is_cut and any(option.startswith(name) for option in options)


def _is_plain_text(line: str) -> bool:
    """Whether no character of a line could mean one thing to the parser and another to the shell."""
    return _ODD.isdisjoint(line) and all(char.isprintable() or char in "\n\t" for char in line)


@cache
def _parser() -> Any:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class _Reading:
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

    def commands(self) -> Iterator[Words]:
        """The words of every command at any depth, in the order of the text."""
        left = [self._root]
        while left:
            node = left.pop()
            if node.type in _COMMANDS:
                words = tuple(self._word(part) for part in node.children if part.type not in _NO_WORDS)
                if any(words):
                    yield words
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

    def _word(self, part: Any) -> str:
        """A word without its quotes; one that the shell makes something else of, as far as it can be read."""
        if part.type == "command_name" and len(part.children) == 1:
            part = part.children[0]
        text = self._text(part)
        if part.type in ("word", "number"):
            return text.replace("\\", "")
        if part.type in ("raw_string", "string"):
            return text[1:-1]
        return text.replace('"', "").replace("'", "").replace("\\", "")

    def _text(self, node: Any) -> str:
        return self._line[node.start_byte : node.end_byte]


def _others(commands: tuple[Words, ...]) -> Iterator[Words]:
    """What the words of commands may run besides."""
    left = [(words, DEPTH) for words in commands]
    while left:
        words, depth = left.pop()
        bare = _bare(words)
        if bare != words:
            yield bare
        if not may_run_others(words):
            continue
        for start in range(1, min(len(words), MOST_WORDS)):
            yield _bare(words[start:])
            if depth and " " in words[start].strip():
                inner = tuple(_Reading(words[start]).commands())
                left += [(command, depth - 1) for command in inner]
                yield from inner


def _bare(words: Words) -> Words:
    """A command with its program's name without a folder; `git -C folder push` is `git push`."""
    program, *rest = base_of(words[0]), *words[1:]
    if program == "git":
        while rest and rest[0].startswith("-"):
            del rest[: 2 if rest[0] in _GIT_VALUES else 1]
    return (program, *rest)
