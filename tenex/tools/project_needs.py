"""What a project needs and the sandbox does not have: programs, and whether the machine has them outside of it.

The table of ecosystems says what is needed. Each program is looked up where the sandbox looks for it, then on the
`PATH` of the daemon's or the operator's process and in the known folders of toolchains: nothing is run.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .ecosystem_clues import asking_file, ecosystems_of, setup_rule
from .ecosystems import Ecosystem
from .project_environment import ProjectEnvironment
from .project_files import ProjectFiles
from .seen_programs import SeenPrograms
from .toolchains import homes_of_user, toolchain_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEcosystem:
    """An ecosystem of a project, and the programs that it needs."""

    kind: Ecosystem
    file: str
    """A file that shows it."""
    programs: Mapping[str, str | None]
    """Where each program is, None where it is missing; of several that will do, the one that is there."""
    lacks_packages: str = ""
    """The file that asks for packages, where none are installed in the workspace."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The programs that are not there."""
        return tuple(name for name, place in self.programs.items() if place is None)


def ecosystems_found(project: ProjectEnvironment) -> tuple[FoundEcosystem, ...]:
    """The ecosystems of a project, in the order of the table; blocks."""
    files = ProjectFiles(project.root)
    seen = project.programs()
    return tuple(_found(project, seen, files, kind, file) for kind, file in ecosystems_of(files).values())


def _found(
    project: ProjectEnvironment, seen: SeenPrograms, files: ProjectFiles, kind: Ecosystem, file: str
) -> FoundEcosystem:
    if kind.name == "python":
        is_installed = project.venv() is not None
    else:
        is_installed = any((project.root / place).exists() for place in kind.installed.split())
    asking = "" if is_installed else asking_file(files, kind)
    rule = setup_rule(files, kind) if asking else None
    in_setup = [step.split()[0] for step in rule.run.split(" && ")] if rule is not None else []
    made_by_setup = ("pip",) if kind.name == "python" else ()
    programs: dict[str, str | None] = {}
    for alternatives in (*kind.programs, *in_setup):
        names = alternatives.split()
        name = next((name for name in names if seen.find(name)), names[0])
        if "/" not in name and name not in made_by_setup:
            programs[name] = seen.find(name)
    return FoundEcosystem(
        kind=kind,
        file=file,
        programs=programs,
        lacks_packages=asking if kind.installed else "",
    )


_NOT_FOUND: Final = re.compile(r"(?:^|[ :])([\w.+-]{1,64}): (?:command )?not found$", re.MULTILINE)
_NO_SUCH: Final = re.compile(r"env: \W?([\w.+-]{1,64})\W?: No such file or directory$", re.MULTILINE)
"""What shells and `env` print of a program that they do not find."""
_MOST_PRINTED: Final = 4_096
"""Characters of the end of an output that are searched for them."""
_MOST_NAMED: Final = 3


def not_found_in(output: str) -> tuple[str, ...]:
    """The programs that a shell or `env` has printed it does not find; the output may be anybody's."""
    end = output[-_MOST_PRINTED:]
    names = [*_NOT_FOUND.findall(end), *_NO_SUCH.findall(end)]
    return tuple(dict.fromkeys(names))[:_MOST_NAMED]


def hint_for_missing(
    project: ProjectEnvironment, output: str, environment: Mapping[str, str], entries: Iterable[str] = ()
) -> str:
    """What to say of the programs that a command did not find; empty where the sandbox has them; blocks.

    What is printed only suggests names: each is looked up, inside and outside.
    """
    names = [name for name in not_found_in(output) if project.find(name) is None]
    said = (f"The sandbox has no {name}" for name in names)
    ways = how_to_get(project, names, environment, entries)
    return "".join(f" {what}; for the operator: {how}." for what, how in zip(said, ways, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """A program that the machine has and the sandbox does not."""

    program: Path
    entry: str
    """What `workspace.path` has to name."""


def outside(project: ProjectEnvironment, name: str, environment: Mapping[str, str]) -> Outside | None:
    """Where a program is outside the sandbox, for a user with these variables; None where it is not found.

    What lies in the workspace does not count: agents write there.
    """
    places = [(folder, toolchain.home) for toolchain in project.toolchains() for folder in toolchain.programs]
    folders = [Path(folder) for folder in environment.get("PATH", "").split(os.pathsep)]
    places += [(folder, toolchain_of(folder, project.root).home) for folder in folders if folder.is_absolute()]
    for home in homes_of_user(environment):
        places += [(folder, home) for folder in toolchain_of(home, project.root).programs]
    for folder, entry in places:
        program = shutil.which(name, path=str(folder))
        is_ours = Path(os.path.realpath(folder)).is_relative_to(project.root)
        if program is not None and not is_ours:
            return Outside(program=Path(program), entry=_shortened(entry, environment))
    return None


def _shortened(folder: Path, environment: Mapping[str, str]) -> str:
    """A folder as a person writes it, below the home folder."""
    home = Path(environment.get("HOME", ""))
    is_below = home.is_absolute() and folder.is_relative_to(home) and folder != home
    return f"~/{folder.relative_to(home)}" if is_below else str(folder)


def path_line(entries: Iterable[str]) -> str:
    """The line of `[workspace]` in the settings that names folders of programs."""
    return f"path = {json.dumps(list(dict.fromkeys(entries)), ensure_ascii=False)}"


def how_to_get(
    project: ProjectEnvironment, names: Iterable[str], environment: Mapping[str, str], entries: Iterable[str] = ()
) -> Iterator[str]:
    """For each program that is missing, whether the machine has it outside the sandbox, and the line for the settings.

    `entries` are those that `workspace.path` has already.
    """
    wanted = list(entries)
    home = environment.get("HOME", "~")
    named = {entry.replace("~", home, 1) for entry in wanted}
    for name in names:
        there = outside(project, name, environment)
        if there is None:
            yield "install it: it is not outside the sandbox either, on PATH or in a known toolchain"
        elif there.entry.replace("~", home, 1) in named:
            hidden = project.programs().hidden_of(there.program) or there.program
            entry = _shortened(toolchain_of(hidden.parent, project.root).home, environment)
            if entry.replace("~", home, 1) in named:
                yield f"it is {there.program} outside the sandbox: add its own folder to workspace.path"
            else:
                wanted.append(entry)
                line = path_line(wanted)
                yield f"{there.program} needs {hidden}, which the sandbox does not show: write {line} under [workspace]"
        elif there.entry in wanted:
            yield f"it is {there.program} outside the sandbox: the same line shows it"
        else:
            wanted.append(there.entry)
            yield f"it is {there.program} outside the sandbox: write {path_line(wanted)} under [workspace]"
