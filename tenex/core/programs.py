"""What a recorded call of a program shows: a trial of the work, a look at it, or a change of something.

A command line is judged by its words. What counts is the exit status that was recorded, so only the program that it
belongs to is a trial: the last one, or one that the last cannot hide.

    pytest -q                      a trial
    cd pkg && pytest -q            a trial: the status is 0 only if both ended so
    pytest -q | tail -3            of unknown status: it is that of `tail`; a trial after `set -o pipefail`
    pytest -q; echo $?             of unknown status: it is that of `echo`
    python hello.py | grep -q hi   a trial: `grep` compares what the program printed
    cat a.py && git diff           none: both only read

A program that is not known is a trial, because no list has them all. Words cannot be deceived less than this: who wants
to can write a program that does nothing.
"""

import ast
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tenex.core.messages import CallRequest

LINE_CHARACTERS: Final = 300
"""Of a program that was run, as it is remembered and shown."""


class Kind(StrEnum):
    """What a program does."""

    TRIES = "tries"
    READS = "reads"
    COMPARES = "compares"
    """Reads, and its exit status says what it found."""
    CHANGES = "changes"


def words_of(text: str) -> frozenset[str]:
    """A set of words, written as a text."""
    return frozenset(text.split())


_READS: Final = words_of("""
    } done esac fi
    : . alias awk ack ag basename bat break cal cat cd column command comm continue cut date declare df dir dirname du
    echo env exit export false fd file find fold for free gawk head help history hostname id info jq less local locate
    ls lsof man md5sum more nl od paste pip pip3 popd printenv printf ps pushd pwd read readlink realpath return sed
    seq set sha1sum sha256sum shift sleep sort source stat strings tac tail tee tr tree true type ulimit umask uname
    uniq unset uptime wait wc whereis which whoami xxd yes yq
    """)
_COMPARES: Final = words_of("[ [[ ag cmp diff egrep fgrep grep rg test")
_CHANGES: Final = words_of("chmod chown cp dd install ln mkdir mktemp mv patch rm rmdir rsync touch truncate")
_GIT_READS: Final = words_of("""
    blame cat-file describe diff grep help log ls-files ls-tree merge-base name-rev rev-list rev-parse shortlog show
    status version
    """)
SHELLS: Final = words_of("bash dash ksh sh zsh")
_WRAPPERS: Final = words_of("chronic env exec ionice nice nohup setsid stdbuf sudo time timeout xargs xvfb-run")
_KEYWORDS: Final = words_of("! { if then do else elif while until time")
_CLOSINGS: Final = words_of("} done esac fi")
_ASKS_VERSION: Final = words_of("--help --version -V -h -v help version")

_TEXTS: Final = (
    *(
        ".adoc",
        ".asciidoc",
        ".bib",
        ".csv",
        ".doc",
        ".docx",
        ".log",
        ".markdown",
        ".md",
        ".odt",
        ".org",
        ".pdf",
        ".rst",
    ),
    *(".rtf", ".text", ".tsv", ".txt", ".gif", ".ico", ".jpeg", ".jpg", ".png", ".svg", ".webp"),
)
_TEXT_NAMES: Final = ("authors", "changelog", "contributing", "copying", "licence", "license", "notice", "readme")

_ASSIGNMENT: Final = re.compile(r"\w+=")
_DURATION: Final = re.compile(r"[\d.]+[smhd]?")
_DOCUMENT: Final = re.compile(
    r"<<-?\s*(['\"]?)(\w+)\1(?P<rest>[^\n]*)\n(?P<body>.*?)^\s*\2[ \t]*$", re.DOTALL | re.MULTILINE
)
_PUNCTUATION: Final = ";&|()<>\n"
_NOWHERE: Final = words_of("/dev/null /dev/stdout /dev/stderr")


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its words, as part of a list: `follows` is what is before it."""

    words: tuple[str, ...]
    follows: str
    has_inner: bool = False
    """Whether it is given what another program prints: `$(...)` or `<(...)`."""
    text: str = ""
    """What the command line has in place of its input."""
    writes: bool = False
    """Whether its output goes to a file."""


def is_text(path: str) -> bool:
    """Whether a file is for people to read, by its name: nothing runs it, so it is verified by reading."""
    name = base_of(path.lower())
    return name in _TEXT_NAMES or name.endswith(_TEXTS)


def line_of(request: CallRequest) -> str:
    """What a call ran, in a line."""
    arguments = request.arguments
    named = next(
        (arguments[name] for name in ("command", "program", "path") if isinstance(arguments.get(name), str)), None
    )
    words = named if named is not None else ", ".join(str(value) for value in arguments.values())
    line = " ".join(f"{'python ' if request.tool == 'check' else ''}{words}".split())
    return line if len(line) <= LINE_CHARACTERS else f"{line[: LINE_CHARACTERS - 1]}…"


def hides_trial(request: CallRequest) -> bool:
    """Whether a command line tries something, and its exit status is that of another program."""
    line = str(request.arguments.get("command", ""))
    if request.tool != "shell" or tries(line):
        return False
    return _tries_somewhere(line)


def line_within(words: Sequence[str]) -> str | None:
    """The command line that a program gives to a shell, as in `bash -c "pytest"`; None where it is no such program."""
    is_shell = bool(words) and base_of(words[0]) in SHELLS and "-c" in words[1:-1]
    return words[words.index("-c") + 1] if is_shell else None


def _tries_somewhere(line: str) -> bool:
    for command in commands_of(line) or ():
        inner = line_within(unwrapped(command.words))
        if kind_of(command) is Kind.TRIES or (inner is not None and _tries_somewhere(inner)):
            return True
    return False


def is_trial(request: CallRequest) -> bool:
    """Whether the exit status of a call that ran a program is that of more than reading or printing."""
    if request.tool == "shell":
        return tries(str(request.arguments.get("command", "")))
    if request.tool == "python":
        return _program_tries(str(request.arguments.get("program", "")))
    return True


def only_reads(request: CallRequest) -> bool:
    """Whether a call that ran a program changed nothing, as far as its words say."""
    if request.tool == "python":
        return not _program_tries(str(request.arguments.get("program", "")))
    if request.tool != "shell":
        return False
    commands = commands_of(str(request.arguments.get("command", "")))
    return commands is not None and all(
        not command.writes and not command.has_inner and kind_of(command) in (Kind.READS, Kind.COMPARES)
        for command in commands
    )


def tries(line: str) -> bool:
    """Whether the exit status of a command line is that of more than reading or printing."""
    commands = commands_of(line)
    if commands is None:
        return True  # a shell has understood it, and its words cannot be separated
    options = [word for command in commands if command.words[:1] == ("set",) for word in command.words[1:]]
    is_strict = any(re.fullmatch(r"-[a-z]*e[a-z]*", word) for word in options)
    sees_all = "pipefail" in options
    commands = [command for command in commands if command.words and command.words[0] not in _CLOSINGS]
    while commands:
        start = len(commands) - 1
        while start and commands[start].follows == "|":
            start -= 1
        if _pipeline_tries(commands[start:], sees_all=sees_all):
            return True
        follows = commands[start].follows
        if not (follows == "&&" or (is_strict and follows == ";")):
            return False
        commands = commands[:start]
    return False


def _pipeline_tries(pipeline: Sequence[Command], *, sees_all: bool) -> bool:
    kinds = [kind_of(command) for command in pipeline]
    if kinds[-1] is Kind.COMPARES:
        return Kind.TRIES in kinds or any(command.has_inner for command in pipeline)
    return kinds[-1] is Kind.TRIES or (sees_all and Kind.TRIES in kinds)


def kind_of(command: Command) -> Kind:
    """What a program of a command line does."""
    words = unwrapped(command.words)
    if not words:
        return Kind.READS
    name = base_of(words[0])
    arguments = words[1:]
    inner = line_within(words)
    if inner is not None:
        return Kind.TRIES if tries(inner) else Kind.READS if _all_read(inner) else Kind.CHANGES
    if name.startswith("python"):
        return _python(arguments, command.text)
    if name == "git":
        return _git(arguments)
    if arguments and "/" not in words[0] and _ASKS_VERSION.issuperset(arguments):
        return Kind.READS
    return _plain_kind(name, arguments)


def base_of(word: str) -> str:
    """The name of a program or file without its folder."""
    return word.rpartition("/")[2]


def _plain_kind(name: str, arguments: Sequence[str]) -> Kind:
    if name in ("awk", "gawk", "sed") and "-f" in arguments:
        return Kind.TRIES  # a program of the workspace
    if name == "sed" and any(re.match(r"-[nErsz]*i|--in-place", word) for word in arguments):
        return Kind.CHANGES
    if name in ("pip", "pip3"):
        return Kind.READS if arguments[:1] and arguments[0] in ("list", "show", "freeze", "check") else Kind.CHANGES
    if name == "find" and "-exec" in arguments:
        return kind_of(Command(tuple(arguments[arguments.index("-exec") + 1 :]), ";"))
    if name in ("tee", "source", ".") or (name == "find" and "-delete" in arguments):
        return Kind.CHANGES
    if name in _COMPARES:
        return Kind.COMPARES
    if name in _READS:
        return Kind.READS
    return Kind.CHANGES if name in _CHANGES else Kind.TRIES


def _all_read(line: str) -> bool:
    return only_reads(CallRequest(id=_NO_CALL, tool="shell", arguments={"command": line}))


def unwrapped(words: Sequence[str]) -> tuple[str, ...]:
    """The words without keywords, assignments, and programs that only run another one."""
    left = list(words)
    while left:
        if left[0] in _KEYWORDS or _ASSIGNMENT.match(left[0]):
            del left[0]
        elif base_of(left[0]) in _WRAPPERS and len(left) > 1:
            del left[0]
            while left and (left[0].startswith("-") or _ASSIGNMENT.match(left[0]) or _DURATION.fullmatch(left[0])):
                del left[0]
        else:
            break
    return tuple(left)


def _python(arguments: Sequence[str], text: str) -> Kind:
    if "-c" in arguments[:-1]:
        text = arguments[arguments.index("-c") + 1]
    elif arguments and _ASKS_VERSION.issuperset(arguments):
        return Kind.READS
    elif "-m" in arguments[:-1] and arguments[arguments.index("-m") + 1] == "pip":
        return _plain_kind("pip", arguments[arguments.index("pip") + 1 :])
    elif any(not word.startswith("-") for word in arguments) or not text:
        return Kind.TRIES
    return Kind.TRIES if _program_tries(text) else Kind.READS


def _git(arguments: Sequence[str]) -> Kind:
    words = iter(arguments)
    for word in words:
        if word in ("-C", "-c"):
            next(words, None)
        elif not word.startswith("-"):
            return Kind.READS if word in _GIT_READS else Kind.CHANGES
    return Kind.READS


def _program_tries(source: str) -> bool:
    """Whether a program of Python does more than compute and print: it imports, opens, or runs something."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imports = any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree))
    return imports or not named.isdisjoint({"open", "exec", "eval", "compile", "__import__"})


def commands_of(line: str) -> list[Command] | None:
    """The programs of a command line, in order; None where they cannot be separated."""
    documents: list[str] = []

    def keep(match: re.Match[str]) -> str:
        documents.append(match["body"])
        return f" <<{len(documents) - 1} {match['rest']}\n"

    lexer = shlex.shlex(_DOCUMENT.sub(keep, line.replace("\\\n", " ")), posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:
        return None
    return _commands(tokens, documents)


def _commands(tokens: Sequence[str], documents: Sequence[str]) -> list[Command]:
    commands: list[Command] = []
    words: list[str] = []
    follows = ";"
    text = ""
    has_inner = False
    writes = False
    rest = iter(tokens)
    for part in rest:
        if not part or not set(part) <= set(_PUNCTUATION):
            words.append(part)
            has_inner = has_inner or "$(" in part or "`" in part
        elif "<(" in part:
            has_inner = True
        elif "<" in part or ">" in part:
            target = next(rest, "")
            if part == "<<" and target.isdecimal() and int(target) < len(documents):
                text = documents[int(target)]
            writes = writes or (">" in part and target not in _NOWHERE and not target.isdecimal())
        elif set(part) <= {"(", ")"}:
            has_inner = has_inner or (bool(words) and words[-1].endswith("$"))
        else:
            if words:
                commands.append(Command(tuple(words), follows, has_inner, text, writes))
                words = []
                text = ""
                has_inner = False
                writes = False
            follows = _joint(part)
    if words:
        commands.append(Command(tuple(words), follows, has_inner, text, writes))
    return commands


def _joint(part: str) -> str:
    """What joins two commands: `&&`, `||`, `|`, or `;` where the second runs whatever became of the first."""
    bare = part.strip("()\n")
    return bare if bare in ("&&", "||") else "|" if bare in ("|", "|&") else ";"


_NO_CALL: Any = ""
