"""What is taken for a plain command line is tried in bash itself: it has to run exactly these words.

Bash is given no program: what it looks for and does not find is written down with its words, and so are the built-in
commands that a plain line may have. Only plain lines are run.
"""

import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tenex.core.approvals.shell_text import Words, parsed

RECORDER = r"""
PATH=/nonexistent
shopt -u expand_aliases
command_not_found_handle() { builtin printf '%s\0' "$@" $'\1' >&3; }
for name in : cd echo false printf pwd true; do
    eval "$name() { builtin printf '%s\\0' $name \"\$@\" \$'\\1' >&3; }"
done
while IFS= read -r -d '' line; do
    (eval -- "$line") </dev/null >/dev/null 2>&1
    builtin printf '\2\0' >&3
done
"""

PLAIN = ["git", "ls", "a", "-s", "--opt", "a=b", "'a b'", '"c d"', " && ", "; ", " | ", "\n", "echo", "%a", "x.y"]
PIECES = [
    *(
        "git",
        "status",
        "ls",
        "npm",
        "a",
        "b-c",
        "x.y",
        "é漢",
        "-s",
        "--opt",
        "--a=b",
        "a=b",
        "_=1",
        "A+=1",
        "a[0]=1",
        "=",
        "1",
        "2",
    ),
    *("'a b'", '"c d"', "''", '""', "'", '"', "'a\nb'", '"a\nb"', "a'b'", '"a"b', "'a''b'", "'#'", '"!"', "'&'", '";"'),
    *(" && ", " || ", "; ", " | ", "\n", " & ", ";;", "|&", ";", "|", "&&", "\n\n", " ;\n"),
    *(
        "*",
        "?",
        "[a]",
        "{a,b}",
        "{a}",
        "{",
        "}",
        "(",
        ")",
        "<",
        ">",
        "<<",
        "<<<",
        ">&",
        "2>",
        "1",
        "~",
        "a:~",
        "=~",
        "!",
        "!!",
    ),
    *(
        "$",
        "$x",
        "`",
        "\\",
        "\\\n",
        "#",
        "a#b",
        "%",
        "@",
        "^",
        ",",
        "+",
        "-",
        "--",
        ":",
        "/",
        "\t",
        "  ",
        "\r",
        "\x0b",
        "\u00a0",
    ),
    *("\u2028", "\u3000", "\u200b", "@(a)", "+(a)", "!(a)", "a()", "[[", "]]", "[", "]", "((", "))"),
    *(
        "time",
        "if",
        "then",
        "fi",
        "for",
        "in",
        "do",
        "done",
        "case",
        "esac",
        "while",
        "until",
        "function",
        "select",
        "coproc",
    ),
    *(
        "cd",
        "echo",
        "printf",
        "pwd",
        "true",
        "false",
        "test",
        "export",
        "declare",
        "read",
        "exec",
        "eval",
        "let",
        "set",
        ".",
    ),
]


def lines(seed: int, count: int) -> list[str]:
    """Lines of pieces, most with blanks between, that are taken for plain."""
    chance = random.Random(seed)
    plain: list[str] = []
    while len(plain) < count:
        pieces = [chance.choice(PIECES if chance.random() < 0.25 else PLAIN) for _ in range(chance.randint(1, 9))]
        line = chance.choice(PIECES) + "".join(chance.choice(("", " ", " ", " ")) + piece for piece in pieces)
        text = parsed(line)
        if text.is_plain and not any("/" in command[0] for command in text.commands):
            plain.append(line)
    return plain


def run_by_bash(plain: list[str], folder: Path) -> list[list[Words]]:
    """The commands that bash carries out for each line."""
    record = folder / "record"
    with record.open("wb") as file:
        subprocess.run(
            ["bash", "--norc", "--noprofile", "-c", f"exec 3>>{record}\n{RECORDER}"],
            input="".join(f"{line}\0" for line in plain).encode(),
            stdout=file,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            check=True,
            timeout=600,
        )
    by_line: list[list[Words]] = [[]]
    words: list[str] = []
    for word in record.read_bytes().decode().split("\0")[:-1]:
        if word == "\2":
            by_line.append([])
        elif word == "\1":
            by_line[-1].append(tuple(words))
            words = []
        else:
            words.append(word)
    return by_line[:-1]


def check(plain: list[str], folder: Path) -> None:
    ran = run_by_bash(plain, folder)
    assert len(ran) == len(plain)
    for line, commands in zip(plain, ran, strict=True):
        read = Counter(parsed(line).commands)
        assert not Counter(commands) - read, f"{line!r} is read as {read}, and bash runs {commands}"
        if "||" not in line:
            assert Counter(commands) == read, f"{line!r} is read as {read}, and bash runs {commands}"


def test_bash_runs_what_a_plain_line_says(tmp_path: Path) -> None:
    check(lines(1, 400), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 22))
def test_bash_runs_what_plain_lines_say(tmp_path: Path, seed: int) -> None:
    check(lines(seed, 5_000), tmp_path)
