"""A command line as refuse and ask rules read it: whatever it may run.

A word is read as all that bash may make of it: quotes and backslashes are taken away, and an expansion or a glob is a
pattern that fits any text. So a line matches a rule if it could run what the rule names, and a line that nobody can
read before it runs (`base64 -d | sh`, `eval "$x"`) matches every rule that names words. It errs on one side: a question
too many does no harm. Three views of a line are looked at:

- the commands that the parser finds at any depth, at each of their words, since a wrapper runs what follows it;
- lines within words (`bash -c '...'`);
- the raw text, where the line is not plain or a program of it may run another: all words of the rule, without quotes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final

from .shell_text import LONGEST, Syntax, Words, parsed, words_of

DEPTH: Final = 3
"""Lines within words that are read: `bash -c "bash -c '...'"`."""
MOST_WORDS: Final = 64
"""Words of a command at which another is looked for."""
MOST_COMMANDS: Final = 500
"""Commands that are looked at: a line of nested substitutions has more than any memory holds."""

_MANY: Final = "\ue000"
"""Any text, also several words or none."""
_ANY: Final = "\ue001"
"""Any text within a word."""
_ONE: Final = "\ue002"
"""Any character."""
_END: Final = "\0"
"""Between words."""
_PATTERN: Final = re.compile(f"[{_MANY}{_ANY}{_ONE}]")

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_BRACES: Final = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_SEPARATORS: Final = re.compile(r"[\n;&|()]+")
_BETWEEN_WORDS: Final = re.compile(r"[\s<>]+")

_RUNS_WORDS: Final = words_of("""
    . ansible ash at bash batch builtin busybox bwrap chroot chrt command coproc csh dash doas dumb-init
    env eval exec expect fakeroot firejail fish flock gosu ionice ksh ltrace newgrp nice nohup nsenter parallel pkexec
    prlimit proot runcon runuser s6-setuidgid screen script setarch setpriv setsid sh source ssh stdbuf strace su
    su-exec sudo systemd-run taskset tcsh time timeout tini tmux trap unbuffer unshare watch xargs xvfb-run yash zsh
    """)
"""Programs whose words are a command, or lines of commands."""
_RUNS_CODE: Final = words_of("""
    awk deno docker ed emacs fd fdfind find gawk gdb go hatch irb less lua make man mawk more nawk nc ncat node nodejs
    npx pdm perl php pipenv pipx podman poetry psql pypy pypy3 rsync ruby scp sed sftp socat split sqlite3 tar tclsh tox
    uv uvx vi view vim alias bind complete compgen enable hash mapfile readarray
    """)
"""Programs that run what a part of their words says, in a language of their own or behind an option."""
_INTERPRETER: Final = re.compile(r"(?:python|ruby|perl|lua|node|nodejs|pypy|php)[\d.]*")
"""The same, with a version behind the name; without a file they run what they read."""
_SHELLS: Final = words_of("ash bash csh dash fish ksh sh tcsh yash zsh")
_CODE_OPTIONS: Final = words_of("-c -e -E -r --eval --command -p --print")
"""Options of shells and interpreters that are followed by a program."""
_RUNS_NOTHING: Final = re.compile(r"-[A-Za-z]*[cemEVhv]")
"""Options of these after which their input is no program: they have one, or print what they are."""
_READS_WORDS: Final = words_of("parallel xargs")
"""Programs that append what they read to the command that they run."""
_GIT_RUNS_OTHERS: Final = words_of("bisect config difftool filter-branch for-each-repo mergetool rebase submodule")
"""Verbs of git that run what their arguments say."""
_NAMES_PROGRAM: Final = ("--checkpoint-action", "--compress-program", "--exec", "--filter", "--pre", "--receive-pack",
                         "--rsh", "--to-command", "--upload-pack", "--use-compress-program")  # fmt: skip
"""Beginnings of words that name a program to run."""
_NAMES_PROGRAM_IN_GIT: Final = (
    *_NAMES_PROGRAM,
    *("-c", "-O", "-u", "-x", "--config", "--ext-diff", "--extcmd", "--open-files-in-pager", "--paginate"),
    *("--template", "--textconv", "--tool", "ext::"),
)
_GIT_VALUES: Final = words_of(
    "-C -c --exec-path --git-dir --work-tree --namespace --super-prefix --config-env --shallow-file --attr-source"
)
"""Options of git itself whose value may be the next word."""


@dataclass(frozen=True, slots=True)
class ShellReading:
    """What a command line may run."""

    line: str
    commands: tuple[Words, ...]
    """In words that may be patterns."""
    texts: tuple[str, ...]
    """Of its commands, as they are written."""
    is_clear: bool
    """Whether it is plain, and none of its programs may run another."""
    is_unreadable: bool
    """Whether it runs what no one can read in it."""

    def may_run(self, match: Words) -> bool:
        """Whether it may run a command that begins with these words."""
        if self.is_unreadable or any(_may_hold(command, match) for command in self.commands):
            return True
        return not self.is_clear and _is_in_text(self, match)


def reading(line: str) -> ShellReading:
    """Read a command line."""
    joined = line.replace("\\\n", "")
    commands = list(islice(_commands(joined, DEPTH), MOST_COMMANDS + 1)) if len(line) <= LONGEST else []
    has_more = len(commands) > MOST_COMMANDS
    text = parsed(line)
    is_clear = text.is_plain and not any(map(may_run_others, text.commands))
    if not is_clear:
        commands += _by_separators(joined)
    return ShellReading(
        line=joined,
        commands=tuple(words for words, _ in commands),
        texts=tuple(text for _, text in commands),
        is_clear=is_clear,
        is_unreadable=has_more or any(_is_unreadable(words, text) for words, text in commands),
    )


def may_run_others(words: Words) -> bool:
    """Whether a command may run a program that its own words name."""
    program = base_of(words[0])
    naming = _NAMES_PROGRAM_IN_GIT if program == "git" else _NAMES_PROGRAM
    return (
        program in _RUNS_WORDS
        or program in _RUNS_CODE
        or _INTERPRETER.fullmatch(program) is not None
        or (program == "git" and not _GIT_RUNS_OTHERS.isdisjoint(words[1:]))
        or any(_names_program(word, naming) for word in words[1:])
    )


def base_of(word: str) -> str:
    """The name of a program without its folder."""
    return word.rpartition("/")[2]


def _names_program(word: str, options: tuple[str, ...]) -> bool:
    """Whether a word is one of these options, also cut: `--upload-pa` is read as `--upload-pack` by many programs."""
    if word.startswith(options):
        return True
    name = word.partition("=")[0]
    is_cut = name.startswith("--") and len(name) > len("--")
    return is_cut and any(option.startswith(name) for option in options)


# ---- reading ----


def _commands(line: str, depth: int) -> Iterator[tuple[Words, str]]:
    """All commands of a line and of the lines within its words, in patterns, with the text of each."""
    for texts, whole in Syntax(line).commands():
        words = list(map(_pattern, texts))
        while words and _ASSIGNMENT.match(words[0]):  # the parser takes `_=1` for a program
            del words[0]
        if not words:
            continue
        command = tuple(words)
        yield command, whole
        runs_lines = any(base_of(word) in _RUNS_WORDS or may_run_others((word,)) for word in command[:MOST_WORDS])
        for word in command[1:MOST_WORDS] if depth and runs_lines else ():
            if any(char.isspace() for char in word.strip()) and not _PATTERN.search(word):
                yield from _commands(word.removeprefix("-S"), depth - 1)


def _by_separators(line: str) -> Iterator[tuple[Words, str]]:
    """The parts of a line between separators, whatever a parser makes of it."""
    for part in _SEPARATORS.split(line):
        words = [_pattern(word) for word in _BETWEEN_WORDS.split(part.strip()) if word]
        while words and _ASSIGNMENT.match(words[0]):
            del words[0]
        if words:
            yield tuple(words), part


def _pattern(text: str) -> str:  # noqa: C901 one case a character: flat, and complete
    """A word as bash may read it: without quotes, with a pattern in place of what it expands."""
    if _BRACES.search(text):
        return _MANY
    read: list[str] = [_ANY] if text.startswith("~") else []
    position = len(read)
    in_quotes = False
    while position < len(text):
        char = text[position]
        following = text[position + 1 : position + 2]
        end = position + 1
        if char == "\\":
            end += 1
            read.append(following)
        elif char == '"':
            in_quotes = not in_quotes
        elif char == "'" and not in_quotes:
            end = _after(text, position + 1, "'")
            read.append(text[position + 1 : end - 1])
        elif char == "$" and following in ("'", '"') and following and not in_quotes:
            end = position + 1
            if following == "'":
                end = _after(text, position + 2, "'")
                inner = text[position + 2 : end - 1]
                read.append(_ANY if "\\" in inner else inner)
        elif char == "$":
            end = _after_expansion(text, position)
            is_list = "@" in text[position:end] or "*" in text[position:end]
            read.append(char if end == position + 1 else _ANY if in_quotes and not is_list else _MANY)
        elif char == "`":
            end = _after(text, position + 1, "`")
            read.append(_ANY if in_quotes else _MANY)
        elif in_quotes:
            read.append(char)
        elif char in "<>" and following == "(":
            end = _after_brackets(text, position + 1)
            read.append(_MANY)
        elif char == "*":
            read.append(_MANY)
        elif char == "?":
            read.append(_ONE)
        elif char == "[" and "]" in text[position + 2 :]:
            end = text.index("]", position + 2) + 1
            read.append(_ONE)
        else:
            read.append(_ANY if _PATTERN.match(char) else char)
        position = end
    return "".join(read).replace(_END, "")


def _after(text: str, start: int, mark: str) -> int:
    """The position after the next such mark, or the end."""
    found = text.find(mark, start)
    return len(text) if found < 0 else found + 1


def _after_expansion(text: str, dollar: int) -> int:
    """The position after an expansion; right after its dollar where it is none."""
    rest = text[dollar + 1 :]
    if rest[:1] in ("{", "("):
        return _after_brackets(text, dollar + 1)
    name = re.match(r"\w+|[@*#?$!-]", rest)
    return dollar + 1 + (name.end() if name else 0)


def _after_brackets(text: str, start: int) -> int:
    opening = text[start]
    closing = {"(": ")", "{": "}"}[opening]
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] == opening) - (text[position] == closing)
        if not depth:
            return position + 1
    return len(text)


def _is_unreadable(words: Words, text: str) -> bool:
    """Whether a command runs what its own words do not say: a shell that reads its commands, or a line that expands."""
    for start in range(min(len(words), MOST_WORDS)):
        program = base_of(words[start])
        arguments = words[start + 1 :]
        is_interpreter = _INTERPRETER.fullmatch(program) is not None
        if program in _SHELLS or is_interpreter:
            if all(_is_no_program(word, is_interpreter) for word in arguments) and not _has_readable_input(text):
                return True
            pairs = pairwise(arguments)
            if any(_is_code_option(option) and _PATTERN.search(code) for option, code in pairs):
                return True
        if program == "eval" and any(_PATTERN.search(word) for word in arguments):
            return True
        if program in _READS_WORDS and any(word.startswith(("-I", "-i", "--rep")) for word in arguments):
            return True
        if start == 0 and program not in _RUNS_WORDS:
            return False
    return False


def _is_code_option(word: str) -> bool:
    is_bundle = word[:1] == "-" and word[1:2] != "-" and word[-1:] in "ceE"
    return word in _CODE_OPTIONS or is_bundle


def _is_no_program(word: str, is_interpreter: bool) -> bool:
    """Whether a word of a shell or an interpreter leaves it reading its commands from its input."""
    if word.startswith(("/dev/", "/proc/")) or word == "-":
        return True
    if word.startswith("--"):
        return not is_interpreter and not word.startswith(("--version", "--help"))
    return word.startswith("-") and _RUNS_NOTHING.match(word) is None


def _has_readable_input(text: str) -> bool:
    """Whether a command is given its input in the line itself, literally: the raw text is looked at then."""
    return "<<" in text and "$" not in text and "`" not in text


# ---- matching ----


def _may_hold(words: Words, match: Words) -> bool:
    """Whether a command, or one behind a wrapper in it, may begin with these words."""
    is_wrapped = False
    reads_more = False
    for start in range(min(len(words), MOST_WORDS)):
        first = words[start]
        is_literal = _PATTERN.search(base_of(first)) is None
        program = base_of(first)
        if is_literal and program != match[0] and "-" not in program and first != match[0]:
            is_wrapped = is_wrapped or program in _RUNS_WORDS
            reads_more = reads_more or program in _READS_WORDS
            continue
        here = words[start:]
        if is_wrapped:
            here = tuple(word.replace(_ANY, _MANY) for word in here)
        if reads_more:
            here = (*here, _MANY)
        if (start == 0 or is_wrapped or is_literal) and _fits(here, match):
            return True
        is_wrapped = is_wrapped or program in _RUNS_WORDS
        reads_more = reads_more or program in _READS_WORDS
    return False


def _fits(words: Words, match: Words) -> bool:
    """Whether a command may begin with the words of a rule; its options may be anywhere behind."""
    options = tuple(word for word in match[1:] if word.startswith("-"))
    target = tuple(word for word in match if word not in options)
    if not all(_has_option(words, option) for option in options):
        return False
    program = base_of(words[0])
    forms = [words, (program, *words[1:])]
    if "-" in program:
        forms.append((*program.split("-"), *words[1:]))  # git's own folder has `git-push`
    return any(_begins(form, target) for form in dict.fromkeys(forms))


def _has_option(words: Words, option: str) -> bool:
    if any(_could_begin((word.partition("=")[0],), (option,)) or _MANY in word for word in words[1:]):
        return True
    if option.startswith("--"):
        return False
    bundled = {char for word in words[1:] if word[:1] == "-" and word[1:2] != "-" for char in word[1:]}
    return set(option[1:]) <= bundled


def _begins(words: Words, target: Words) -> bool:
    """Whether words may begin so once options, and perhaps the value of each, are left out."""
    left = [(words[:1], 1)]
    seen: set[tuple[Words, int]] = set()
    while left:
        state = left.pop()
        if state in seen:
            continue
        seen.add(state)
        kept, position = state
        if _could_begin((*kept, *words[position : position + len(target)]), target):
            return True
        if position >= min(len(words), MOST_WORDS):
            continue
        word = words[position]
        if not word.startswith("-"):
            if _could_begin((*kept, word, _MANY), target):
                left.append(((*kept, word), position + 1))
            continue
        is_git = kept[:1] == ("git",)
        if not is_git or word not in _GIT_VALUES:
            left.append((kept, position + 1))
        if not is_git or word in _GIT_VALUES:
            left.append((kept, position + 2))
    return False


def _could_begin(words: Words, target: Words) -> bool:
    """Whether bash may make of these patterns a text that begins with the words of `target`."""
    pattern = _END.join(words)
    positions = _with_empty(pattern, {0})
    for char in _END.join(target):
        after: set[int] = set()
        for position in positions:
            expected = pattern[position : position + 1]
            if expected == _MANY or (expected == _ANY and char != _END):
                after.add(position)
            elif expected == char or (expected == _ONE and char != _END):
                after.add(position + 1)
        positions = _with_empty(pattern, after)
        if not positions:
            return False
    return any(pattern[position : position + 1] in ("", _END, _MANY) for position in positions)


def _with_empty(pattern: str, positions: set[int]) -> set[int]:
    """Add the positions that are reached where a pattern stands for no text, or for no word at all."""
    reached = set(positions)
    left = list(positions)
    while left:
        position = left.pop()
        expected = pattern[position : position + 1]
        if expected not in (_MANY, _ANY) or not expected:
            continue
        following = [position + 1]
        is_word = position == 0 or pattern[position - 1] == _END
        if expected == _MANY and is_word and pattern[position + 1 : position + 2] == _END:
            following.append(position + 2)
        for one in following:
            if one not in reached:
                reached.add(one)
                left.append(one)
    return reached


def _is_in_text(line: ShellReading, match: Words) -> bool:
    """Whether the raw text holds these words: in their order, or in one command in any order."""
    finding = [re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])") for word in match]
    bare = _without_quotes(line.line)
    position = 0
    for word in finding:
        found = word.search(bare, position)
        if found is None:
            break
        position = found.end()
    else:
        return True
    return any(all(word.search(_without_quotes(text)) for word in finding) for text in line.texts)


def _without_quotes(text: str) -> str:
    return re.sub(r"[\\'\"]", "", text)
