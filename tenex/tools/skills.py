"""Skills: folders with a `SKILL.md`, whose front matter has a name and says when it is of use (agentskills.io).

Those of the operator are instructions. Those of the workspace are files that anyone may have written: they are shown as
data, and grant nothing. What a skill asks for in `allowed-tools` is not read: agents have their own tools.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from tenex.core.errors import ConfigurationError, UntrustedFolder
from tenex.core.file_guard import guarded
from tenex.core.text.foreign import decode, printable

from .bounded_read import opened_file
from .tool import Refusal
from .workspace import Workspace

FILE: Final = "SKILL.md"
PLACES: Final = (".agents/skills", ".claude/skills", "skills")
"""Where a workspace may have skills, each in a folder of its own."""
MOST: Final = 100
"""Skills of the operator, and of the workspace: each is a line in every prompt."""
DEPTH: Final = 3
"""Folders between the operator's folder and a skill, at most: a collection that was copied whole has one or two."""
LARGEST: Final = 256 * 1024
"""Bytes of a file of a skill."""
FRONT_MATTER: Final = 16_000
"""Characters; the longest of public collections have 2,000."""
LONGEST_NAME: Final = 64
LONGEST_DESCRIPTION: Final = 1_024
"""Characters, by the specification; what is longer is cut."""

_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_PLAIN: Final = re.compile(r"^([A-Za-z][\w-]*):[ \t]+(?![\"'|>{\[&*!])(.*)$", re.MULTILINE)
"""A line of front matter whose value has no quotes: of two colons in it YAML makes an error."""
_LOADER: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Ten times as fast where libyaml is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill as it is listed."""

    name: str
    description: str
    folder: Path
    """Its real path."""
    place: Path
    """The same as it was found, which may be a link."""
    is_of_workspace: bool = False

    @property
    def line(self) -> str:
        """The skill in a list."""
        return f"- `{self.name}`: {self.description}"


@dataclass(frozen=True, slots=True)
class Skills:
    """All skills that can be used, and what is wrong with others."""

    found: tuple[Skill, ...] = ()
    faults: tuple[str, ...] = ()
    """Each begins with the file."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """Those outside the workspace, which programs of agents have to see."""
        return tuple(skill.folder for skill in self.found if not skill.is_of_workspace)


def find_skills(folder: Path, workspace: Workspace) -> Skills:
    """The skills of the operator's folder and of the workspace; of two with one name the operator's, or the first.

    Raises:
        UntrustedFolder: a file of the operator's has changed since its folder was trusted.
    """
    found: dict[str, Skill] = {}
    faults: list[str] = []
    for skill in (*_of_operator(folder, faults), *_of_workspace(workspace, faults)):
        if skill.name in found:
            other = found[skill.name].place / FILE
            faults.append(f"{skill.place / FILE}: {skill.name} is the skill {other} too, which is used. Rename one.")
        else:
            found[skill.name] = skill
    return Skills(tuple(found.values()), tuple(faults))


def _of_operator(folder: Path, faults: list[str]) -> Iterator[Skill]:
    for count, place in enumerate(_folders(folder, DEPTH)):
        if count == MOST:
            faults.append(f"{folder}: there are more than {MOST} skills, and the others are left out. Remove some.")
            return
        file = place / FILE
        try:
            data = guarded(file, read_within(place, FILE))
            yield _read(data, place, is_of_workspace=False)
        except UntrustedFolder:
            raise
        except (Refusal, ConfigurationError) as error:
            faults.append(f"{file}: {str(error).removeprefix(f'{file}: ')}")


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    """The folders below one that hold a skill, in order; a link to a folder is followed, as the operator made it."""
    try:
        entries = sorted(
            entry.name for entry in os.scandir(folder) if not entry.name.startswith(".") and entry.is_dir()
        )
    except OSError:
        return
    for name in entries:
        place = folder / name
        if os.path.lexists(place / FILE):
            yield place
        elif depth > 1:
            yield from _folders(place, depth - 1)


def _of_workspace(workspace: Workspace, faults: list[str]) -> Iterator[Skill]:
    count = 0
    for base in PLACES:
        try:
            names = sorted(entry.name for entry in os.scandir(workspace.resolve(base)) if entry.is_dir())
        except (OSError, Refusal):
            continue
        for name in names:
            path = f"{base}/{name}/{FILE}"
            if not os.path.lexists(workspace.root / path):
                continue
            count += 1
            if count > MOST:
                faults.append(f"{workspace.root}: there are more than {MOST} skills, and the others are left out.")
                return
            try:
                real = workspace.resolve(path)
                yield _read(workspace.read(real, LARGEST), real.parent, is_of_workspace=True)
            except Refusal as error:
                faults.append(f"{workspace.root / path}: {error}")


def _read(data: bytes, place: Path, *, is_of_workspace: bool) -> Skill:
    """The skill that the bytes of a `SKILL.md` describe.

    Raises:
        Refusal: they do not; with the reason.
    """
    front, _ = parts_of(data)
    values = _values(front)
    name = " ".join((values.get("name") or place.name).split())
    description = " ".join(values.get("description", "").split())
    if len(name) > LONGEST_NAME or not name.isprintable() or "`" in name:
        raise Refusal(f"`name` must be a line of at most {LONGEST_NAME} characters.")
    if not description:
        raise Refusal("`description` is missing; agents read by it when the skill is of use.")
    if len(description) > LONGEST_DESCRIPTION:
        description = f"{description[: LONGEST_DESCRIPTION - 1]}…"
    return Skill(
        name=name,
        description=printable(description),
        folder=Path(os.path.realpath(place)),
        place=place,
        is_of_workspace=is_of_workspace,
    )


def parts_of(data: bytes) -> tuple[str, str]:
    """The front matter and the body of a `SKILL.md`.

    Raises:
        Refusal: it has none, or is no text.
    """
    try:
        text = decode(data).lstrip("\n")
    except ValueError as error:  # of which UnicodeDecodeError is one
        raise Refusal("it is not UTF-8 text; save it as UTF-8.") from error
    match = _FRONT_MATTER.match(text)
    if match is None:
        raise Refusal("there is no front matter. Begin with `---`, `name:`, `description:`, and `---` again.")
    if len(match[1]) > FRONT_MATTER:
        raise Refusal(f"the front matter has {len(match[1]):,} characters, and {FRONT_MATTER:,} is the most.")
    return match[1], text[match.end() :].strip("\n")


def _values(front: str) -> dict[str, str]:
    """The texts of front matter by their keys; other values are left out.

    Raises:
        Refusal: it is not YAML, also with its plain values in quotes.
    """
    try:
        tree = _yaml(front)
    except (yaml.YAMLError, RecursionError):
        quoted = _PLAIN.sub(_quoted, front)
        try:
            tree = _yaml(quoted)
        except (yaml.YAMLError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            where = f"line {mark.line + 2}: " if mark is not None else ""
            raise Refusal(f"{where}the front matter is not valid YAML. Put values with `: ` in quotes.") from error
    if not isinstance(tree, dict):
        raise Refusal("the front matter must be lines of `key: value`.")
    return {key: value for key, value in tree.items() if isinstance(key, str) and isinstance(value, str)}


def _quoted(match: re.Match[str]) -> str:
    text = match[2].strip().replace("'", "''")
    return f"{match[1]}: '{text}'"


def _yaml(text: str) -> object:
    """A document of YAML in which each scalar stays the text that it is: a name may be `on`, or a date."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 it makes texts, lists and dicts only


def read_within(folder: Path, path: str) -> bytes:
    """A file of a folder, by a relative path that does not lead out of it, also not by a link.

    Raises:
        Refusal: it does, or it is no file, missing or too large.
    """
    root = Path(os.path.realpath(folder))
    real = Path(os.path.realpath(root / path))
    if "\0" in path or not real.is_relative_to(root) or real == root:
        raise Refusal(f"{path[:80]} is no file of this skill; name one by its path from the skill's folder.")
    try:
        with opened_file(real) as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError as error:
        raise Refusal(f"There is no file {path[:80]} in this skill.") from error
    except OSError as error:
        raise Refusal(f"{path[:80]} cannot be read: {error.strerror}.") from error
    if len(data) > LARGEST:
        raise Refusal(f"{path[:80]} is larger than {LARGEST // 1024} KiB; a program may read it.")
    return data
