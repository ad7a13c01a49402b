"""Which ecosystems the files of a project show, and where the clues of a rule are seen."""

import json
import re

from .ecosystems import ECOSYSTEMS, Clue, Ecosystem, SetupRule
from .project_files import ProjectFiles


def ecosystems_of(files: ProjectFiles) -> dict[str, tuple[Ecosystem, str]]:
    """The ecosystems of a project by name, each with a file that shows it."""
    shown = {kind.name: (kind, place_of(files, Clue(kind.files))) for kind in ECOSYSTEMS}
    return {name: (kind, file) for name, (kind, file) in shown.items() if file}


def asking_file(files: ProjectFiles, kind: Ecosystem) -> str:
    """The file by which a project asks for packages; empty where none does."""
    return next(filter(None, (place_of(files, clue) for clue in kind.asks)), "")


def setup_rule(files: ProjectFiles, kind: Ecosystem) -> SetupRule | None:
    """The first way to set up a project of a kind that fits; None where there is nothing to set up."""
    is_asked = bool(asking_file(files, kind))
    fitting = (rule for rule in kind.setup if (is_asked or not rule.is_asked) and are_seen(files, rule.clues))
    return next(fitting, None)


def package_manager(files: ProjectFiles) -> str:
    """The package manager of a project of Node: as `package.json` says, else as its lock files do."""
    (kind,) = (kind for kind in ECOSYSTEMS if kind.name == "node")
    return next(rule.run.split()[0] for rule in kind.setup if are_seen(files, rule.clues))


def are_seen(files: ProjectFiles, clues: tuple[Clue, ...]) -> bool:
    """Whether all clues are seen."""
    return all(place_of(files, clue) for clue in clues)


def place_of(files: ProjectFiles, clue: Clue) -> str:
    """The first file in which a clue is seen; empty where there is none."""
    names = (name for pattern in clue.files.split() for name in files.matching(pattern))
    return next((name for name in names if _is_in(files, name, clue)), "")


def _is_in(files: ProjectFiles, name: str, clue: Clue) -> bool:
    if clue.key:
        value = files.value(name, clue.key)
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        if value in (None, ""):
            return False
    elif clue.text or clue.without:
        text = files.text(name)
    else:
        return True
    is_right = not clue.text or re.search(clue.text, text, re.MULTILINE) is not None
    return is_right and not (clue.without and re.search(clue.without, text, re.MULTILINE))
