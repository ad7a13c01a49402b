"""Toolchains in a home folder: what of one programs of agents see, read-only, and where they look for it.

A table names what is shown of each kind. Nothing else of its folder is: the files in which these tools keep passwords
lie beside (`.cargo/credentials.toml`, `.m2/settings.xml`, `etc/npmrc`), and so do other data of the user. Of several
versions that one counts which a file of the project asks for, then the default of the toolchain, then the newest.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

from .bounded_read import text_or_nothing

PARTS: Final = ("bin", "lib", "lib64", "libexec", "include", "share", "ssl")
"""Of the folder beside a `bin` only this is seen: it may hold data of somebody too."""

_OF_VENV: Final = "pyvenv.cfg"
"""By this file Python finds the packages of the virtual environment that it is in."""

_INSTALLED: Final = (*PARTS, "jmods", "release", "conf/security", "boot", "pkg", "src", "VERSION", "go.env", "erts-*")
"""Of an installation in a folder of its own; the other names are those of Java, Maven, Go and Erlang.

Its `etc` and the rest of `conf` are left out: `etc/npmrc` and `conf/settings.xml` may hold passwords.
"""

_LARGEST: Final = 64 * 1024
"""Bytes of a file that names a version."""
_MOST_ALIASES: Final = 5
"""Names of nvm that lead to one another: `default`, `lts/*`, `lts/iron`, and some of the user's."""
_NUMBER: Final = re.compile(r"\d{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A kind of folder in which toolchains are kept. Patterns are relative to it."""

    name: str
    places: tuple[str, ...]
    """Where it lies unless the variable names another folder."""
    marks: tuple[str, ...]
    """What is in each folder of this kind. One that has the hidden name of its usual place is of the kind without."""
    names: tuple[str, ...] = ()
    """How the folder is called, where the marks do not tell enough."""
    variable: str = ""
    """The variable of the user that names the folder."""
    programs: tuple[str, ...] = ()
    """Folders of programs."""
    shown: tuple[str, ...] = ()
    """What else is seen."""
    is_written: bool = False
    """Whether programs write to the folder itself: each call has an empty one there, with what is seen in it."""
    installations: tuple[str, ...] = ()
    """Installations that are all seen, by their parts."""
    tools: tuple[str, ...] = ()
    """Folders of the installations of one tool, of which one counts. Its programs are on the path."""
    asked_by: tuple[str, ...] = ()
    """Files of the project that name the version."""
    default: tuple[str, ...] = ()
    """Files of the folder, or links beside the installations, that name it otherwise."""
    beside: str = ""
    """The name of another kind that it needs."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What programs get to know, with `{home}` for the folder."""


HOMES: Final = (
    Home(
        name="cargo",
        places=("~/.cargo",),
        marks=("bin/rustup",),
        variable="CARGO_HOME",
        programs=("bin",),
        shown=("registry/index", "registry/cache", "registry/src"),
        is_written=True,
        beside="rustup",
        variables={"CARGO_HOME": "{home}"},
    ),
    Home(
        name="rustup",
        places=("~/.rustup",),
        marks=("toolchains", "settings.toml"),
        variable="RUSTUP_HOME",
        shown=("settings.toml",),
        installations=("toolchains/*",),
        tools=("toolchains",),
        default=("settings.toml",),
        variables={"RUSTUP_HOME": "{home}", "RUSTUP_AUTO_INSTALL": "0"},
    ),
    Home(
        name="nvm",
        places=("~/.nvm", "~/.config/nvm"),
        marks=("nvm.sh", "versions/node"),
        variable="NVM_DIR",
        tools=("versions/node",),
        asked_by=(".nvmrc", ".node-version"),
        default=("alias/default",),
    ),
    Home(
        name="Go",
        places=("/usr/local/go", "~/go", "~/.go", "~/sdk/go*"),
        marks=("bin/go", "src/runtime"),
        variable="GOROOT",
        programs=("bin",),
        shown=_INSTALLED,
    ),
    Home(
        name="packages of Go",
        places=("~/go",),
        marks=("pkg/mod/cache/download",),
        variable="GOPATH",
        programs=("bin",),
        shown=("pkg/mod/*.*", "pkg/mod/cache/download"),  # `cache/vcs` has addresses of repositories, with passwords
        variables={"GOMODCACHE": "{home}/pkg/mod"},
    ),
    Home(
        name="SDKMAN",
        places=("~/.sdkman",),
        marks=("candidates", "bin/sdkman-init.sh"),
        variable="SDKMAN_DIR",
        tools=("candidates/*",),
        asked_by=(".sdkmanrc",),
        default=("current",),
    ),
    Home(
        name="mise",
        places=("~/.local/share/mise",),
        marks=("installs", "shims"),
        names=("mise", "rtx"),
        variable="MISE_DATA_DIR",
        tools=("installs/*",),
        asked_by=("mise.toml", ".mise.toml", ".tool-versions"),
        default=("../../../.config/mise/config.toml", "../../../.tool-versions"),
    ),
    Home(
        name="asdf",
        places=("~/.asdf",),
        marks=("installs", "shims"),
        names=(".asdf", "asdf"),
        variable="ASDF_DATA_DIR",
        tools=("installs/*",),
        asked_by=(".tool-versions",),
        default=("../.tool-versions",),
    ),
    Home(
        name="pyenv",
        places=("~/.pyenv",),
        marks=("versions", "shims"),
        names=(".pyenv", "pyenv"),
        variable="PYENV_ROOT",
        tools=("versions",),
        asked_by=(".python-version",),
        default=("version",),
    ),
    Home(
        name="rbenv",
        places=("~/.rbenv",),
        marks=("versions", "shims"),
        names=(".rbenv", "rbenv"),
        variable="RBENV_ROOT",
        tools=("versions",),
        asked_by=(".ruby-version",),
        default=("version",),
    ),
    Home(
        name="Deno",
        places=("~/.deno",),
        marks=("bin/deno",),
        variable="DENO_INSTALL",
        programs=("bin",),
    ),
    Home(
        name="Bun",
        places=("~/.bun",),
        marks=("bin/bun",),
        variable="BUN_INSTALL",
        programs=("bin",),
        shown=("install/global/node_modules",),
    ),
    Home(
        name="programs of the user",
        places=("~/.local",),
        marks=("bin",),
        names=(".local",),
        programs=("bin",),
        shown=(
            "lib/python3*",
            "lib/node_modules",
            "pipx/venvs",
            "share/pipx/venvs",
            "share/uv/python",
            "share/uv/tools",
        ),
    ),
    Home(
        name="packages of Maven",
        places=("~/.m2",),
        marks=("repository",),
        names=(".m2",),
        shown=("repository",),
        variables={"MAVEN_OPTS": "-Dmaven.repo.local={home}/repository"},
    ),
)
"""Every kind of folder that is known; the first that fits counts."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What a folder of `workspace.path` brings."""

    programs: tuple[Path, ...]
    """Folders for the path."""
    shown: tuple[Path, ...]
    """What is seen, in its own place."""
    private: tuple[Path, ...]
    """Folders that programs write to, so each call has an empty one in its place."""
    variables: Mapping[str, str]
    home: Path
    """The folder that a person names for it."""
    name: str = ""
    """Its kind; empty for a plain folder of programs."""


def toolchain_of(folder: Path, project: Path) -> Toolchain:
    """What a folder brings that the operator names: a known one, or its programs; else a plain folder of programs.

    Of a folder without programs nothing is seen.
    """
    for home in dict.fromkeys((folder, *((folder.parent,) if folder.name in ("bin", "shims") else ()))):
        kinds = [kind for kind in HOMES if _is_kind(home, kind)]
        if kinds:
            return _of_home(home, kinds, project)
    beside = tuple(_existing(folder.parent, (*PARTS, _OF_VENV))) if folder.name == "bin" else ()
    shown = (folder, *beside) if has_programs(folder) else ()
    return Toolchain(programs=(folder,), shown=shown, private=(), variables={}, home=folder)


def homes_of_user(environment: Mapping[str, str]) -> Iterator[Path]:
    """The folders of known kinds that the user with these variables has."""
    for kind in HOMES:
        for folder in dict.fromkeys(_places(kind, environment)):
            if _is_kind(folder, kind):
                yield folder


def _is_kind(folder: Path, kind: Home) -> bool:
    if folder.name.startswith(".") and folder.name in {Path(place).name for place in kind.places}:
        return _has(folder, ".")
    has_name = not kind.names or folder.name in kind.names
    return has_name and all(_has(folder, mark) for mark in kind.marks)


def has_programs(folder: Path) -> bool:
    """Whether there is a program in a folder."""
    try:
        return any(file.is_file() and os.access(file, os.X_OK) for file in folder.iterdir())
    except OSError:
        return False


def _of_home(home: Path, kinds: list[Home], project: Path) -> Toolchain:
    """What a folder brings that is of several kinds at once, as `~/go` with the toolchain and the packages."""
    programs: list[Path] = []
    shown: list[Path] = []
    variables: dict[str, str] = {}
    for kind in kinds:
        installations = list(_chosen(home, kind, project))
        programs += chain(_existing(home, kind.programs), (folder / "bin" for folder in installations))
        shown += _shown(home, kind, installations)
        variables |= _variables(home, kind)
        beside = _beside(home, kind)
        if beside is not None:  # it is reached by the programs of this one
            other, of_other = beside
            shown += _shown(other, of_other, [])
            variables |= _variables(other, of_other)
    return Toolchain(
        programs=tuple(dict.fromkeys(programs)),
        shown=tuple(dict.fromkeys(shown)),
        private=(home,) if any(kind.is_written for kind in kinds) else (),
        variables=variables,
        home=home,
        name=kinds[0].name,
    )


def _beside(home: Path, kind: Home) -> tuple[Path, Home] | None:
    """The folder of another kind that a kind needs: beside it, or where its user has it."""
    for other in HOMES:
        if other.name == kind.beside:
            beside = (home.parent / Path(place).name for place in other.places)
            places = (*beside, *_places(other, os.environ))
            return next(((place, other) for place in places if _is_kind(place, other)), None)
    return None


def _places(kind: Home, environment: Mapping[str, str]) -> Iterator[Path]:
    """Where a user with these variables has a folder of a kind."""
    named = Path(environment.get(kind.variable, ""))
    if named.is_absolute():
        yield named
    for place in kind.places:
        whole = Path(place.replace("~", environment.get("HOME", "~"), 1))
        yield from _existing(whole.parent, (whole.name,)) if "*" in place else (whole,)


def _variables(home: Path, kind: Home) -> dict[str, str]:
    return {name: value.format(home=home) for name, value in kind.variables.items()}


def _shown(home: Path, kind: Home, chosen: list[Path]) -> Iterator[Path]:
    """What is seen of a folder: what its kind names, and the parts of installations."""
    yield from _existing(home, (*kind.programs, *kind.shown))
    for installation in (*_existing(home, kind.installations), *chosen):
        yield from _existing(installation, _INSTALLED)


def _existing(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        if "*" in pattern:
            yield from sorted(folder.glob(pattern)) if _has(folder, ".") else ()
        elif _has(folder, pattern):
            yield folder / pattern


def _has(folder: Path, name: str) -> bool:
    """Whether something is in a folder; not where it may not be looked at, as in the home of another user."""
    return os.access(f"{folder}/{name}", os.F_OK)


def _entries(folder: Path) -> list[Path]:
    """What is in a folder; nothing in a file, or where it may not be read."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _chosen(home: Path, kind: Home, project: Path) -> Iterator[Path]:
    """The installation of each tool that counts."""
    for tool in _existing(home, kind.tools):
        versions = {
            version.name: installation
            for version in _entries(tool)
            for installation in (version, version / "go")  # so asdf keeps Go
            if _has(installation, "bin/.") and not version.is_symlink()
        }
        wanted = (_matching(word, versions) for word in _wanted(home, kind, project, tool))
        if versions:
            yield versions[next(filter(None, wanted), None) or max(versions, key=_order)]


def _wanted(home: Path, kind: Home, project: Path, tool: Path) -> Iterator[str]:
    """What the project's files and then the toolchain's own name as the version of a tool."""
    for file in (*(project / name for name in kind.asked_by), *(home / name for name in kind.default)):
        for word in _words(text_or_nothing(file, _LARGEST), tool.name):
            yield _without_aliases(home, word)
    for name in kind.default:
        if (tool / name).is_symlink():
            yield Path(os.path.realpath(tool / name)).name


def _words(text: str, tool: str) -> Iterator[str]:
    """The versions in a file: alone on a line, or after the name of the tool."""
    for line in text.splitlines():
        words = [word.strip("\"'") for word in re.split(r"[\s=]+", line.partition("#")[0].strip())]
        if words[0] in (tool, "default_toolchain"):
            yield from words[1:2]
        elif len(words) == 1 and words[0]:
            yield words[0]


def _without_aliases(home: Path, word: str) -> str:
    """The version that a name of nvm stands for."""
    for _ in range(_MOST_ALIASES):
        is_name = ".." not in word and "\0" not in word and not word.startswith("/")
        text = text_or_nothing(home / "alias" / word, _LARGEST).strip() if is_name else ""
        if not text:
            break
        word = text
    return word


def _matching(word: str, versions: Iterable[str]) -> str | None:
    """The newest of these versions that a word names, in full or by its beginning."""
    wanted = word.removeprefix("v")
    names = {name: name.removeprefix("v") for name in versions}
    fitting = [name for name, plain in names.items() if plain == wanted or plain.startswith(f"{wanted}.")]
    return max(fitting, key=_order, default=None)


def _order(name: str) -> tuple[list[int], str]:
    return [int(number) for number in _NUMBER.findall(name)], name
