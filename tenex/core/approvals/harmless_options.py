"""Options that change nothing but what a program prints, or how thoroughly it looks, by program and verb.

An allow rule permits them behind the words that it names. The list holds what is known to be harmless: an option that
names a file, a program or an address is not in it, and neither is one that nobody has looked at. Options that take
their value from the next word are left out where that word could be mistaken for an operand.
"""

from collections.abc import Mapping
from typing import Final

from .shell_text import Words, words_of

_DIFF: Final = words_of("""
    -- --stat --shortstat --numstat --name-only --name-status --summary --no-color --color=never --no-ext-diff
    --no-textconv -w -b
    """)
_LOG: Final = _DIFF | words_of("--oneline --graph --decorate --all --reverse --first-parent --merges --no-merges")

_BY_VERB: Final[Mapping[Words, frozenset[str]]] = {
    ("git", "status"): words_of("""
        -- -s --short -b --branch --long --show-stash --ahead-behind --no-ahead-behind -z --porcelain --porcelain=v1
        --porcelain=v2 --ignored
        """),
    ("git", "log"): _LOG,
    ("git", "show"): _LOG,
    ("git", "diff"): _DIFF | words_of("--cached --staged --check"),
    ("git", "branch"): words_of("-a --all -r --remotes -v -vv --show-current --no-color"),
    ("git", "grep"): words_of("-- -n -i -l -c -w -F -E -h -H -I -v --count --line-number --ignore-case --no-color"),
    ("git", "ls-files"): words_of("-- -m -o -d -s -u -z --exclude-standard"),
    ("git", "rev-parse"): words_of("--short --abbrev-ref --show-toplevel --verify"),
    ("npm", "test"): words_of("-s --silent"),
    ("npm", "run"): words_of("-s --silent"),
    ("npm", "ls"): words_of("-a --all"),
    ("pnpm", "test"): words_of("-s --silent"),
    ("pnpm", "run"): words_of("-s --silent"),
    ("yarn", "test"): words_of("-s --silent"),
    ("yarn", "run"): words_of("-s --silent"),
    ("cargo", "build"): words_of("-q --quiet -v --verbose --release --workspace --all-targets --locked --offline"),
    ("cargo", "check"): words_of("-q --quiet -v --verbose --release --workspace --all-targets --locked --offline"),
    ("cargo", "clippy"): words_of("-q --quiet -v --verbose --release --workspace --all-targets --locked --offline"),
    ("cargo", "test"): words_of("-q --quiet -v --verbose --release --workspace --all-targets --locked --offline"),
    ("go", "build"): words_of("-v -race"),
    ("go", "test"): words_of("-v -race -short"),
    ("go", "vet"): words_of("-v"),
    ("pip", "list"): words_of("-q --quiet --outdated --user"),
    ("pip", "show"): words_of("-q --quiet -v --verbose"),
}
"""Of programs whose first word is a verb: the words behind such a verb say no more than their kind."""

_BY_PROGRAM: Final[Mapping[str, frozenset[str]]] = {
    "cat": words_of("-- -n -b -s -A -E -T"),
    "du": words_of("-- -s -h -a -k -m -c"),
    "grep": words_of("-- -n -i -l -L -c -v -w -x -F -E -q -s -H -h -o -r --color=never"),
    "head": words_of("-- -q -v"),
    "ls": words_of("-- -l -a -A -h -1 -R -t -r -d -F -S -n -s -i --color=never"),
    "pytest": words_of("-q -v -vv -x -s -l --lf --ff --no-header"),
    "rg": words_of("-- -n -i -l -c -v -w -x -F -S -s -H --no-heading --color=never"),
    "sort": words_of("-- -n -r -u -f -b -h -V"),
    "tail": words_of("-- -q -v"),
    "uniq": words_of("-- -c -d -u -i"),
    "wc": words_of("-- -l -w -c -m -L"),
}


def harmless_options(command: Words) -> frozenset[str]:
    """The options of a command that no rule needs to name."""
    return _BY_VERB.get(command[:2]) or _BY_PROGRAM.get(command[0], frozenset())


def has_known_verb(command: Words) -> bool:
    """Whether a command is a program with a verb of which the harmless options are known."""
    return command[:2] in _BY_VERB
