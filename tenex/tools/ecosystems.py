"""The ecosystems of projects, one row each: what shows one, the programs it needs, its set-up and its checks.

The rows are read from top to bottom. A project may be of several. Of the checks of a row the first whose clues are all
seen decides for its name; of the ways to set it up the first decides. To what a task runner of the whole project names
(`is_whole`) no language adds; of several languages each adds its own.
"""

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


@dataclass(frozen=True, slots=True)
class SetupRule:
    """A way to install what a project needs, and the clues by which it is known; without any it always fits."""

    run: str
    """Steps, joined by `&&`; `{pip}` is replaced by what pip has to install, as the files name it."""
    clues: tuple[Clue, ...] = ()
    is_asked: bool = True
    """Whether it only counts where the project asks for packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ecosystem:
    """A kind of project."""

    name: str
    """Also what follows the name of a check where another kind has one of that name: `test-node`."""
    title: str
    files: str
    """Names or patterns of the files that show it."""
    programs: tuple[str, ...] = ()
    """What it cannot do without besides its set-up and checks; of several names in one entry any will do."""
    is_whole: bool = False
    """Whether it is a task runner, which names the checks of the whole project."""
    asks: tuple[Clue, ...] = ()
    """Where the project asks for packages: any of these."""
    setup: tuple[SetupRule, ...] = ()
    installed: str = ""
    """What is in the workspace once it is set up, as files or folders, any of these; empty where it lies elsewhere."""
    checks: tuple[CheckRule, ...] = ()


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

_C_COMPILER: Final = "cc gcc clang"
PYTEST: Final = "python3 -m pytest"
_PYTEST_NAMED: Final = r"(?<![\w.-])pytest\b"
_TEST_CASE: Final = r"\b(?:IsolatedAsyncio)?TestCase\b"
_PYTHON_LISTS: Final = "pyproject.toml setup.cfg setup.py tox.ini Pipfile requirements*.txt *requirements.txt"
REQUIREMENTS: Final = "requirements.txt requirements-dev.txt requirements-test.txt dev-requirements.txt"
_PYTHON_PACKAGES: Final = (
    "project.dependencies",
    "project.optional-dependencies",
    "dependency-groups",
    "tool.poetry.dependencies",
)
_PIP: Final = "python3 -m venv .venv && pip install {pip}"
_PYTHON_TESTS: Final = "tests/test_*.py tests/*_test.py test/test_*.py test/*_test.py test_*.py"
_BUN_TESTS: Final = "*.test.ts *.test.js src/*.test.ts src/*.test.tsx test/*.test.ts test/*.test.js tests/*.test.ts"
_GRADLE: Final = "build.gradle build.gradle.kts settings.gradle settings.gradle.kts"
_RAKE_TEST: Final = r"TestTask|^\s*task\s*\(?\s*[:'\"]?test\b"


def _node_setup(manager: str, locks: str, pinned: str, unpinned: str) -> tuple[SetupRule, ...]:
    """The ways of a package manager that `package.json` names: with a file that pins what it installs, and without."""
    named = Clue("package.json", "packageManager", text=manager)
    return SetupRule(pinned, (named, Clue(locks))), SetupRule(unpinned, (named,))


ECOSYSTEMS: Final = (
    Ecosystem(
        name="make",
        title="Make",
        files=_MAKE,
        programs=("make",),
        is_whole=True,
        checks=(
            *(_rule(kind, f"make {name}", Clue(_MAKE, text=_target(name))) for kind in _NAMES for name in _NAMES[kind]),
            _rule("check", "make check", Clue(_MAKE, text=_target("check"), without=_target("test"))),
        ),
    ),
    Ecosystem(
        name="just",
        title="just",
        files=_JUST,
        programs=("just",),
        is_whole=True,
        checks=tuple(
            _rule(kind, f"just {name}", Clue(_JUST, text=_recipe(name))) for kind in _NAMES for name in _NAMES[kind]
        ),
    ),
    Ecosystem(
        name="task",
        title="Task",
        files=_TASK,
        programs=("task",),
        is_whole=True,
        checks=tuple(
            _rule(kind, f"task {name}", Clue(_TASK, text=_task(name))) for kind in _NAMES for name in _NAMES[kind]
        ),
    ),
    Ecosystem(
        name="python",
        title="Python",
        files=f"{_PYTHON_LISTS} *.py",
        programs=("python3 python",),
        asks=(
            *(Clue("pyproject.toml", key, text=r"\w") for key in _PYTHON_PACKAGES),
            Clue(REQUIREMENTS),
        ),
        setup=(
            SetupRule("uv sync --locked", (Clue("uv.lock"),)),
            SetupRule("python3 -m venv .venv && poetry install --no-interaction", (Clue("poetry.lock"),)),
            SetupRule("pdm sync", (Clue("pdm.lock"),)),
            SetupRule(_PIP),
            *(SetupRule(_PIP, (Clue("pyproject.toml", key),), is_asked=False) for key in ("project", "build-system")),
            SetupRule(_PIP, (Clue("setup.py"),), is_asked=False),
        ),
        installed=".venv venv",
        checks=(
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
    ),
    Ecosystem(
        name="node",
        title="Node.js",
        files="package.json",
        programs=("node bun",),
        asks=tuple(Clue("package.json", key, text='"') for key in ("dependencies", "devDependencies")),
        setup=(
            *_node_setup(r"^yarn@(?:[2-9]|\d\d)", "yarn.lock", "yarn install --immutable", "yarn install"),
            *_node_setup(r"^yarn@1", "yarn.lock", "yarn install --frozen-lockfile", "yarn install"),
            *_node_setup(r"^pnpm@\d", "pnpm-lock.yaml", "pnpm install --frozen-lockfile", "pnpm install"),
            *_node_setup(r"^bun@\d", "bun.lock bun.lockb", "bun install --frozen-lockfile", "bun install"),
            *_node_setup(r"^npm@\d", "package-lock.json npm-shrinkwrap.json", "npm ci", "npm install"),
            SetupRule("pnpm install --frozen-lockfile", (Clue("pnpm-lock.yaml"),)),
            SetupRule("yarn install --immutable", (Clue("yarn.lock", text=r"^__metadata:"),)),
            SetupRule("yarn install --frozen-lockfile", (Clue("yarn.lock"),)),
            SetupRule("bun install --frozen-lockfile", (Clue("bun.lock bun.lockb"),)),
            SetupRule("npm ci", (Clue("package-lock.json npm-shrinkwrap.json"),)),
            SetupRule("npm install"),
        ),
        installed="node_modules .pnp.cjs",
        checks=(
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
    ),
    Ecosystem(
        name="deno",
        title="Deno",
        files="deno.json deno.jsonc",
        programs=("deno",),
        checks=(
            _rule("test", "deno task test", Clue("deno.json deno.jsonc", text=r'"tasks"[^}]*"test"\s*:')),
            _rule(
                "test", "deno test", Clue("deno.json deno.jsonc"), Clue("*_test.ts *.test.ts tests/*.ts src/*_test.ts")
            ),
        ),
    ),
    Ecosystem(
        name="rust",
        title="Rust",
        files="Cargo.toml",
        programs=("cargo", "rustc", _C_COMPILER),
        asks=(
            Clue("Cargo.toml", text=r"^\[(?:[\w.'\"()=-]+\.)?(?:dev-|build-)?dependencies"),
            Clue("Cargo.toml", "workspace"),
        ),
        setup=(SetupRule("cargo fetch --locked", (Clue("Cargo.lock"),)), SetupRule("cargo fetch")),
        checks=(_rule("test", "cargo test --offline", Clue("Cargo.toml")),),
    ),
    Ecosystem(
        name="go",
        title="Go",
        files="go.mod",
        programs=("go",),
        asks=(Clue("go.mod", text=r"^require\b"),),
        setup=(SetupRule("go mod download"),),
        checks=(_rule("test", "go test ./...", Clue("go.mod")),),
    ),
    Ecosystem(
        name="java",
        title="Java",
        files=f"pom.xml {_GRADLE}",
        programs=("javac",),
        asks=(Clue("pom.xml"),),
        setup=(
            SetupRule("./mvnw -B dependency:go-offline", (Clue("mvnw"),)),
            SetupRule("mvn -B dependency:go-offline"),
        ),
        checks=(
            _rule("test", "./gradlew --offline test", Clue("gradlew"), Clue(_GRADLE)),
            _rule("test", "gradle --offline test", Clue(_GRADLE)),
            _rule("test", "./mvnw -o test", Clue("mvnw"), Clue("pom.xml")),
            _rule("test", "mvn -o test", Clue("pom.xml")),
        ),
    ),
    Ecosystem(
        name="dotnet",
        title=".NET",
        files="*.sln *.slnx *.csproj *.fsproj *.vbproj",
        programs=("dotnet",),
        asks=(Clue("*.sln *.slnx *.csproj *.fsproj *.vbproj"),),
        setup=(SetupRule("dotnet restore --locked-mode", (Clue("packages.lock.json"),)), SetupRule("dotnet restore")),
        checks=(_rule("test", "dotnet test", Clue("*.sln *.slnx *.csproj *.fsproj *.vbproj")),),
    ),
    Ecosystem(
        name="ruby",
        title="Ruby",
        files="Gemfile *.gemspec Rakefile rakefile .rspec",
        programs=("ruby",),
        asks=(Clue("Gemfile"),),
        setup=(SetupRule("bundle config set --local path vendor/bundle && bundle install"),),
        installed="vendor/bundle",
        checks=(
            _rule("test", "bundle exec rspec", Clue("Gemfile.lock"), Clue(".rspec spec/spec_helper.rb spec/*_spec.rb")),
            _rule("test", "rspec", Clue(".rspec spec/spec_helper.rb spec/*_spec.rb")),
            _rule("test", "bundle exec rake test", Clue("Gemfile.lock"), Clue("Rakefile rakefile", text=_RAKE_TEST)),
            _rule("test", "rake test", Clue("Rakefile rakefile", text=_RAKE_TEST)),
            _rule("lint", "bundle exec rubocop", Clue("Gemfile.lock", text=r"^ +rubocop "), Clue(".rubocop.yml")),
        ),
    ),
    Ecosystem(
        name="php",
        title="PHP",
        files="composer.json phpunit.xml phpunit.xml.dist phpunit.dist.xml",
        programs=("php",),
        asks=tuple(Clue("composer.json", key, text='"') for key in ("require", "require-dev")),
        setup=(SetupRule("composer install --no-interaction"),),
        installed="vendor",
        checks=(
            _rule("test", "vendor/bin/phpunit", Clue("phpunit.xml phpunit.xml.dist phpunit.dist.xml")),
            _rule("test", "composer run-script test", Clue("composer.json", "scripts.test")),
        ),
    ),
    Ecosystem(
        name="elixir",
        title="Elixir",
        files="mix.exs",
        programs=("elixir",),
        asks=(Clue("mix.exs", text=r"\{:\w+,"),),
        setup=(
            SetupRule("mix deps.get --check-locked", (Clue("mix.lock"),)),
            SetupRule("mix deps.get"),
        ),
        installed="deps",
        checks=(_rule("test", "mix test", Clue("mix.exs")),),
    ),
    Ecosystem(
        name="cmake",
        title="CMake",
        files="CMakeLists.txt",
        programs=("cmake", _C_COMPILER),
        checks=(
            _rule(
                "test",
                "cmake -B build && cmake --build build && cd build && ctest --output-on-failure --no-tests=error",
                Clue("CMakeLists.txt", text=r"(?i)\b(?:enable_testing|include)\s*\(\s*(?:CTest\s*)?\)"),
            ),
        ),
    ),
    Ecosystem(
        name="meson",
        title="Meson",
        files="meson.build",
        programs=("meson", "ninja ninja-build", _C_COMPILER),
        checks=(_rule("test", "meson setup build && meson test -C build", Clue("meson.build", text=r"^project\s*\(")),),
    ),
    Ecosystem(
        name="autotools",
        title="Autotools",
        files="configure configure.ac",
        programs=("make", _C_COMPILER),
        checks=(
            _rule("check", "./configure && make check", Clue("configure"), Clue("Makefile.in", text=_target("check"))),
        ),
    ),
    Ecosystem(
        name="bats",
        title="Bats",
        files="*.bats test/*.bats tests/*.bats",
        programs=("bats",),
        checks=(
            _rule("test", "bats test", Clue("test/*.bats")),
            _rule("test", "bats tests", Clue("tests/*.bats")),
            _rule("test", "bats .", Clue("*.bats")),
        ),
    ),
    Ecosystem(
        name="perl",
        title="Perl",
        files="Makefile.PL Build.PL cpanfile dist.ini",
        programs=("perl",),
        checks=(_rule("test", "prove -lr", Clue("Makefile.PL Build.PL cpanfile dist.ini"), Clue("t/*.t")),),
    ),
)
