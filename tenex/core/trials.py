"""What a call has tried, in one form however it was typed, and which later trial shows what an earlier one should have.

    .venv/bin/python -m pytest -q 2>&1      pytest -q
    set -o pipefail; pytest -q | tail       pytest -q
    cd pkg && FOO=1 ./tool a                cd pkg, ./tool a
    python -c '...'                         python -c: a script that is written in the call has no name

After a failure the same trial has to succeed, or a wider one of the same tests: `pytest` shows what `pytest tests/a.py`
should have, and not the other way round. A corrected script takes the place of the one before it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tenex.core.ids import Slug
from tenex.core.messages import CallRequest
from tenex.core.programs import (
    Command,
    Kind,
    base_of,
    commands_of,
    hides_trial,
    kind_of,
    line_of,
    line_within,
    unwrapped,
    words_of,
)
from tenex.core.work.records import ToolCallCompleted
from tenex.core.work.turn import ProgramRun

Trial = tuple[tuple[str, ...], ...]
"""Programs with their arguments, in order, and the folders they were run in as `cd`."""

TRIAL_CHARACTERS: Final = 1_000
"""Of a trial in this form; a longer one is compared by its first words."""
NOT_FOUND: Final = 127
"""The exit status by which a shell says that there is no such program."""

_SCRIPTS: Final = frozenset({"-", "-c"})
_RUN: Final = frozenset(
    tuple(words.split())
    for words in ("bundle exec", "hatch run", "npx", "pdm run", "pipenv run", "poetry run", "uv run")
)
"""Words that only run the program that follows in an environment."""
_RUNNERS: Final = tuple(
    tuple(words.split(" "))
    for words in (
        *("pytest", "unittest", "nose2", "tox", "nox", "jest", "vitest", "mocha", "ctest", "rspec", "phpunit"),
        *("npm test", "npm run test", "yarn test", "pnpm test", "bun test", "deno test", "go test", "cargo test"),
        *("make test", "make check", "mvn test", "gradle test", "dotnet test", "mix test", "rake test"),
    )
)
"""Programs that run tests, of which their arguments choose some."""
_CHOOSING: Final = words_of("""
    -k -m -t -g -R -E -run --run --deselect --ignore --ignore-glob --lf --last-failed --filter --grep --testNamePattern
    --testPathPattern --only --exclude --skip
    """)
"""Options of them that leave tests out."""
_WITH_VALUE: Final = words_of("""
    -c -n -o -p -r -W -j --basetemp --color --config --cov --cov-report --durations --import-mode --log-level --maxfail
    --rootdir --tb --timeout --workers
    """)
"""Options of them that take a word and leave none out."""


def trial_of(request: CallRequest) -> Trial:
    """What a call that ran a program has tried."""
    arguments = request.arguments
    if request.tool == "shell":
        folder = str(arguments.get("cwd") or ".")
        inside = (("cd", folder),) if folder != "." else ()
        trial = (*inside, *_of_line(str(arguments.get("command", ""))))
    elif request.tool == "python":
        trial = (("python", "-c"),)
    elif request.tool == "check":
        path = str(arguments.get("path", ""))
        name = base_of(path)
        is_test = name.startswith("test_") or name.endswith("_test.py")
        trial = (("pytest" if is_test else "python", path),)
    else:
        trial = ((request.tool, *map(str, arguments.values())),)
    length = sum(len(word) for program in trial for word in program)
    return trial if 0 < length <= TRIAL_CHARACTERS else ((line_of(request),),)


def program_run(agent: Slug, request: CallRequest, record: ToolCallCompleted) -> ProgramRun:
    """What a call ran: a trial of unknown status where its command line hides that, none where nothing was started."""
    is_hidden = not record.is_trial and hides_trial(request)
    tried = trial_of(request) if record.is_trial or is_hidden else ()
    is_trial = bool(tried) and not _names_missing_program(tried, record.exit_status, record.content)
    status = None if is_hidden else record.exit_status
    return ProgramRun(agent=agent, command=line_of(request), status=status, is_trial=is_trial, tried=tried)


def _names_missing_program(trial: Trial, status: int | None, output: str) -> bool:
    """Whether nothing was tried, because a program or module of that name is not installed."""
    names = [program[0] for program in trial if program[0] != "cd"]
    if status == NOT_FOUND:
        return not any("/" in name for name in names)
    return status == 1 and any(output.rstrip().endswith(f"No module named {name}") for name in names)


def shown_by(failed: Trial, later: Iterable[Trial]) -> bool:
    """Whether later trials, which succeeded, show all that a failed one should have."""
    succeeded = [(_folders(trial), program) for trial in later for program in _programs(trial)]
    folders = _folders(failed)
    return all(
        any(folders == where and _covers(wider, program) for where, wider in succeeded) for program in _programs(failed)
    )


def _folders(trial: Trial) -> Trial:
    return tuple(program for program in trial if program[0] == "cd")


def _programs(trial: Trial) -> Trial:
    return tuple(program for program in trial if program[0] != "cd") or trial


def _of_line(line: str) -> Iterator[tuple[str, ...]]:
    commands = commands_of(line)
    if commands is None:
        yield (line,)
        return
    has_tried = False
    for command in commands:
        words = unwrapped(command.words)
        kind = kind_of(command)
        has_tried = kind is Kind.TRIES or (has_tried and command.follows == "|")
        if not words:
            continue
        inner = line_within(words)
        if inner is not None:
            yield from _of_line(inner)
        elif words[0] == "cd":
            yield words
        elif kind is Kind.TRIES or (kind is Kind.COMPARES and (has_tried or command.has_inner)):
            yield _program(command, words)


def _program(command: Command, words: tuple[str, ...]) -> tuple[str, ...]:
    """A program with its arguments, whichever interpreter or environment it was called by."""
    wrapper = next((length for length in (1, 2) if words[:length] in _RUN), 0)
    words = words[wrapper:] or words
    name = words[0]
    arguments = words[1:]
    if "/bin/" in name:
        name = base_of(name)
    if not name.startswith("python"):
        return ("pytest" if name == "py.test" else name, *arguments)
    start = next((place for place, word in enumerate(arguments) if not word.startswith("-")), len(arguments))
    options = arguments[:start]
    if options[-1:] == ("-m",) and start < len(arguments):
        return arguments[start:]
    is_script = bool(command.text) or not _SCRIPTS.isdisjoint(options)
    return ("python", "-c") if is_script else ("python", *arguments[start:])


def _covers(wider: tuple[str, ...], program: tuple[str, ...]) -> bool:
    """Whether the success of a program shows what another should have: it is the same, or it runs those tests too."""
    if wider == program:
        return True
    runner = next((words for words in _RUNNERS if program[: len(words)] == words), None)
    if runner is None or wider[: len(runner)] != runner:
        return False
    chosen, options = _chosen(program[len(runner) :])
    chosen_wider, options_wider = _chosen(wider[len(runner) :])
    if not options_wider <= options:
        return False
    return not chosen_wider or (
        bool(chosen) and all(any(_holds(path, part) for path in chosen_wider) for part in chosen)
    )


def _chosen(arguments: Sequence[str]) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """The tests that are named, and the options that leave some out."""
    named: set[str] = set()
    options: set[tuple[str, str]] = set()
    rest = iter(arguments)
    for word in rest:
        option, has_value, value = word.partition("=")
        if option in _CHOOSING:
            options.add((option, value if has_value else next(rest, "")))
        elif word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            named.add(word.removeprefix("./").rstrip("/"))
    return frozenset(named - {"", ".", "..."}), frozenset(options)


def _holds(path: str, part: str) -> bool:
    return part == path or part.startswith((f"{path}/", f"{path}::", f"{path}["))
