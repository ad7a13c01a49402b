"""The examples of agents and workflows that ship with the program, and copying them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tenex.core.errors import ConfigurationError, UsageError
from tenex.settings import example_folder

from . import output
from .files import add_trusted, make_folder, write_new
from .options import Globals


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An agent or a workflow to copy."""

    name: str
    about: str
    file: Path
    """The main file."""
    beside: tuple[Path, ...] = ()
    """Files it refers to, copied under their own names."""
    brings: tuple[str, ...] = ()
    """Other agents in the same file."""


def agent_examples() -> dict[str, Example]:
    """The agents, by name."""
    from tenex.configuration.agents import read_library
    from tenex.workflows.definitions import slug_of

    folder = example_folder("agents")
    there = [
        one for one in read_library(folder, code_refusal="").definitions.values() if Path(one.source).parent == folder
    ]
    found: dict[str, Example] = {}
    for one in there:
        file = Path(one.source)
        if one.slug != slug_of(file):
            continue
        states = (*one.output.plan, *one.output.act) if one.output is not None else ()
        named = {state.partition(":")[0] for state in states if isinstance(state, str)}
        found[str(one.slug)] = Example(
            name=str(one.slug),
            about=one.role,
            file=file,
            beside=tuple(folder / name for name in sorted(named) if name.endswith(".py")),
            brings=tuple(str(other.slug) for other in there if other.source == one.source and other is not one),
        )
    return found


def workflow_examples() -> dict[str, Example]:
    """The workflows and missions, by name.

    Raises:
        ConfigurationError: one of them cannot be read.
    """
    from tenex.workflows.definitions import find_workflows

    read = find_workflows(example_folder("workflows"), ())
    if read.disabled:
        raise ConfigurationError(read.faults)
    return {
        str(one.slug): Example(name=str(one.slug), about=one.workflow.about, file=Path(one.source))
        for one in read.found
    }


def list_examples(given: Globals, examples: Mapping[str, Example], note: str) -> None:
    """Print the names and descriptions."""
    given.folder()  # the note names a command on it
    rows = [(one.name, one.about) for one in examples.values()]
    given.show([{"name": name, "about": about} for name, about in rows], output.table(("example", "about"), rows), note)


def choose(examples: Mapping[str, Example], name: str) -> Example:
    """The example of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in examples:
        raise UsageError(f"There is no example {name!r}. Choose from {', '.join(examples)}.")
    return examples[name]


def print_files(given: Globals, files: Iterable[Path]) -> None:
    """Print which files were written; a folder that is trusted stays so."""
    add_trusted(given.folder(), files)
    names = [str(file) for file in files]
    given.show({"files": names}, "\n".join(names))


def copy(example: Example, folder: Path, name: str = "") -> list[Path]:
    """Copy an example into a folder, perhaps under another name; returns the files that were written.

    A referred file that exists with the same text is kept.

    Raises:
        UsageError: a file of that name exists; nothing is written.
        ConfigurationError: one cannot be written.
    """
    stem = name.replace("-", "_") if example.file.suffix == ".py" else name
    target = folder / (f"{stem}{example.file.suffix}" if name and name != example.name else example.file.name)
    texts = {folder / file.name: file.read_text("utf-8") for file in example.beside}
    texts = {file: text for file, text in texts.items() if not _holds(file, text)}
    texts[target] = example.file.read_text("utf-8")  # last: its references must exist
    return write(texts)


def write(texts: Mapping[Path, str]) -> list[Path]:
    """Write new files, each into a folder that is made where it is missing; returns them.

    Raises:
        UsageError: one exists; nothing is written.
        ConfigurationError: one cannot be written.
    """
    for file in texts:
        if file.exists():
            raise UsageError(f"{file} exists; edit it, or move it away first")
    for file, text in texts.items():
        make_folder(file.parent)
        write_new(file, text)
    return list(texts)


def _holds(file: Path, text: str) -> bool:
    try:
        return file.read_text("utf-8") == text
    except (OSError, ValueError):
        return False
