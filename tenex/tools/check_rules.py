"""Which files of a project name which checks: a table, read from top to bottom.

A check is found where each of its clues is. Of the rules of a group the first that is found decides for its name. To
what a task runner of the whole project names (`WHOLE`) no language adds; of several languages each adds its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Clue:
    """What has to be seen in one of several files."""

    files: str
    """Names or patterns, separated by spaces."""
    key: str = ""
    """The dotted path of a value that the file has to hold; without, the file is enough."""
    text: str = ""
    """A regular expression that is found in the value, or in the file."""
    without: str = ""
    """One that is not."""


@dataclass(frozen=True, slots=True)
class CheckRule:
    """A check, and the clues by which it is known."""

    name: str
    run: str
    """A line for a shell; `{npm}` is replaced by the project's package manager."""
    clues: tuple[Clue, ...]


def _rule(name: str, run: str, *clues: Clue) -> CheckRule:
    return CheckRule(name, run, clues)


def _target(name: str) -> str:
    """A target of a makefile; `name := value` is none."""
    return rf"^{name}[ \t]*:(?!=)"


def _recipe(name: str) -> str:
    """A recipe of a justfile, with or without parameters."""
    return rf"^@?{name}\b[^:=\n]*:(?!=)"


def _task(name: str) -> str:
    """A task of a Taskfile."""
    return rf"^ +['\"]?{name}['\"]?:"


_MAKE: Final = "GNUmakefile makefile Makefile"
_JUST: Final = "justfile Justfile .justfile"
_TASK: Final = "Taskfile.yml Taskfile.yaml Taskfile.dist.yml Taskfile.dist.yaml"
_NAMES: Final = {
    "test": ("test",),
    "lint": ("lint",),
    "types": ("typecheck", "type-check", "types"),
    "build": ("build",),
}
"""What task runners and scripts call a check."""

PYTEST: Final = "python3 -m pytest"
_PYTEST_NAMED: Final = r"(?<![\w.-])pytest\b"
_TEST_CASE: Final = r"\b(?:IsolatedAsyncio)?TestCase\b"
_PYTHON_LISTS: Final = "pyproject.toml setup.cfg setup.py tox.ini Pipfile requirements*.txt *requirements.txt"
_PYTHON_TESTS: Final = "tests/test_*.py tests/*_test.py test/test_*.py test/*_test.py test_*.py"
_BUN_TESTS: Final = "*.test.ts *.test.js src/*.test.ts src/*.test.tsx test/*.test.ts test/*.test.js tests/*.test.ts"
_GRADLE: Final = "build.gradle build.gradle.kts settings.gradle settings.gradle.kts"
_RAKE_TEST: Final = r"TestTask|^\s*task\s*\(?\s*[:'\"]?test\b"

WHOLE: Final = frozenset({"make", "just", "task"})
"""Groups of task runners: they name the checks of the whole project."""

RULES: Final[Mapping[str, tuple[CheckRule, ...]]] = {
    "make": (
        *(_rule(kind, f"make {name}", Clue(_MAKE, text=_target(name))) for kind in _NAMES for name in _NAMES[kind]),
        _rule("check", "make check", Clue(_MAKE, text=_target("check"), without=_target("test"))),
    ),
    "just": tuple(
        _rule(kind, f"just {name}", Clue(_JUST, text=_recipe(name))) for kind in _NAMES for name in _NAMES[kind]
    ),
    "task": tuple(
        _rule(kind, f"task {name}", Clue(_TASK, text=_task(name))) for kind in _NAMES for name in _NAMES[kind]
    ),
    "python": (
        _rule("test", "python3 manage.py test", Clue("manage.py", text="django")),
        _rule("test", PYTEST, Clue("pytest.ini .pytest.ini conftest.py tests/conftest.py test/conftest.py")),
        _rule("test", PYTEST, Clue("pyproject.toml", "tool.pytest")),
        _rule("test", PYTEST, Clue("setup.cfg", "tool:pytest")),
        _rule("test", PYTEST, Clue("tox.ini", "pytest")),
        _rule("test", PYTEST, Clue(_PYTHON_LISTS, text=_PYTEST_NAMED)),
        _rule("test", "python3 -m unittest", Clue("test*.py", text=_TEST_CASE)),
        _rule("test", "python3 -m unittest", Clue("tests/__init__.py"), Clue("tests/test*.py", text=_TEST_CASE)),
        _rule("test", "python3 -m unittest discover -s tests", Clue("tests/test*.py", text=_TEST_CASE)),
        _rule("test", "python3 -m unittest", Clue("test/__init__.py"), Clue("test/test*.py", text=_TEST_CASE)),
        _rule("test", "python3 -m unittest discover -s test", Clue("test/test*.py", text=_TEST_CASE)),
        _rule("test", PYTEST, Clue(_PYTHON_LISTS), Clue(_PYTHON_TESTS)),
        _rule("test", "tox", Clue("tox.ini", text=r"^\[testenv")),
        _rule("test", "nox", Clue("noxfile.py")),
        _rule("lint", "ruff check .", Clue("ruff.toml .ruff.toml")),
        _rule("lint", "ruff check .", Clue("pyproject.toml", "tool.ruff")),
        _rule("lint", "flake8", Clue(".flake8")),
        _rule("lint", "flake8", Clue("setup.cfg tox.ini", "flake8")),
        _rule("types", "mypy", Clue("pyproject.toml", "tool.mypy.files")),
        _rule("types", "mypy", Clue("pyproject.toml", "tool.mypy.packages")),
        _rule("types", "mypy", Clue("mypy.ini .mypy.ini setup.cfg", "mypy.files")),
        _rule("types", "mypy .", Clue("pyproject.toml", "tool.mypy")),
        _rule("types", "mypy .", Clue("mypy.ini .mypy.ini setup.cfg", "mypy")),
        _rule("types", "pyright", Clue("pyrightconfig.json")),
        _rule("types", "pyright", Clue("pyproject.toml", "tool.pyright")),
    ),
    "node": (
        _rule("test", "{npm} run test", Clue("package.json", "scripts.test", without="no test specified")),
        _rule("test", "bun test", Clue("bun.lock bun.lockb bunfig.toml"), Clue(_BUN_TESTS)),
        *(
            _rule(kind, f"{{npm}} run {name}", Clue("package.json", f"scripts.{name}"))
            for kind in ("lint", "types", "build")
            for name in _NAMES[kind]
        ),
        *(
            _rule(
                "types",
                "tsc --noEmit",
                Clue("tsconfig.json"),
                Clue("package.json", f"{listed}.typescript"),
                Clue("package.json", without=r'"\s*:\s*"[^"]*\btsc\b'),
            )
            for listed in ("devDependencies", "dependencies")
        ),
    ),
    "deno": (
        _rule("test", "deno task test", Clue("deno.json deno.jsonc", text=r'"tasks"[^}]*"test"\s*:')),
        _rule("test", "deno test", Clue("deno.json deno.jsonc"), Clue("*_test.ts *.test.ts tests/*.ts src/*_test.ts")),
    ),
    "rust": (_rule("test", "cargo test --offline", Clue("Cargo.toml")),),
    "go": (_rule("test", "go test ./...", Clue("go.mod")),),
    "java": (
        _rule("test", "./gradlew --offline test", Clue("gradlew"), Clue(_GRADLE)),
        _rule("test", "gradle --offline test", Clue(_GRADLE)),
        _rule("test", "./mvnw -o test", Clue("mvnw"), Clue("pom.xml")),
        _rule("test", "mvn -o test", Clue("pom.xml")),
    ),
    "dotnet": (_rule("test", "dotnet test", Clue("*.sln *.slnx *.csproj *.fsproj *.vbproj")),),
    "ruby": (
        _rule("test", "bundle exec rspec", Clue("Gemfile.lock"), Clue(".rspec spec/spec_helper.rb spec/*_spec.rb")),
        _rule("test", "rspec", Clue(".rspec spec/spec_helper.rb spec/*_spec.rb")),
        _rule("test", "bundle exec rake test", Clue("Gemfile.lock"), Clue("Rakefile rakefile", text=_RAKE_TEST)),
        _rule("test", "rake test", Clue("Rakefile rakefile", text=_RAKE_TEST)),
        _rule("lint", "bundle exec rubocop", Clue("Gemfile.lock", text=r"^ +rubocop "), Clue(".rubocop.yml")),
    ),
    "php": (
        _rule("test", "vendor/bin/phpunit", Clue("phpunit.xml phpunit.xml.dist phpunit.dist.xml")),
        _rule("test", "composer run-script test", Clue("composer.json", "scripts.test")),
    ),
    "elixir": (_rule("test", "mix test", Clue("mix.exs")),),
    "cmake": (
        _rule(
            "test",
            "cmake -B build && cmake --build build && cd build && ctest --output-on-failure --no-tests=error",
            Clue("CMakeLists.txt", text=r"(?i)\b(?:enable_testing|include)\s*\(\s*(?:CTest\s*)?\)"),
        ),
    ),
    "meson": (_rule("test", "meson setup build && meson test -C build", Clue("meson.build", text=r"^project\s*\(")),),
    "autotools": (
        _rule("check", "./configure && make check", Clue("configure"), Clue("Makefile.in", text=_target("check"))),
    ),
    "bats": (
        _rule("test", "bats test", Clue("test/*.bats")),
        _rule("test", "bats tests", Clue("tests/*.bats")),
        _rule("test", "bats .", Clue("*.bats")),
    ),
    "perl": (_rule("test", "prove -lr", Clue("Makefile.PL Build.PL cpanfile dist.ini"), Clue("t/*.t")),),
}
