"""A workflow as its author writes it down: the graph, who takes part, what is expected by when; and where to read one.

A TOML or JSON file holds the graph's own keys (so a graph that AG2 wrote is one) and, if wanted, a table `workflow`:

    initial_speaker = "writer"
    [workflow]
    name = "Draft and review"
    participants = ["writer", "editor"]        # else all whom the rules name; `person` is the user who opens it
    expectations.turn_within = { warn = 120, close = 600 }    # seconds

A Python module holds a `Workflow`, a `TransitionGraph` or a mission's `Graph`, called `workflow` or `graph`, or the
only one there. One without any may register conditions and targets for the others; it may be imported by its name.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tenex.core.errors import ConfigurationError
from tenex.core.ids import Slug
from tenex.log import get_logger
from tenex.workflows.kit.loading import importing_from, load_module, load_object, load_script, read_text
from tenex.workflows.missions.definitions import MissionWorkflow, mission_of
from tenex.workflows.missions.graph import Graph
from tenex.workflows.speakers.config import PERSON
from tenex.workflows.speakers.graph import TransitionGraph
from tenex.workflows.speakers.rules import faults_of_values, ignored, parsed_json, parsed_toml
from tenex.workflows.speakers.workflow import Workflow

SUFFIXES: Final = (".toml", ".json", ".py")
TABLE: Final = "workflow"
PREFIX: Final = "tenex_workflows"
"""Of the modules that an operator's files are."""
_KEYS = ("name", "about", "participants", "context", "expectations", "view")
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedWorkflow:
    """A workflow that can be used, its slug, and where it was read."""

    slug: Slug
    workflow: Workflow | MissionWorkflow
    source: str
    warnings: tuple[str, ...] = ()
    """What may not be meant so, each as a sentence."""


@dataclass(frozen=True, slots=True)
class DisabledWorkflow:
    """A workflow that cannot be used; each fault is a sentence that begins with where it is."""

    slug: Slug
    source: str
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadedWorkflows:
    """What was read of a folder and of references; `others` are Python files without a workflow."""

    found: tuple[LoadedWorkflow, ...] = ()
    disabled: tuple[DisabledWorkflow, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """All faults of all that cannot be used."""
        return tuple(sentence for one in self.disabled for sentence in one.faults)

    def without(self, faults: Callable[[LoadedWorkflow], Sequence[str]]) -> "LoadedWorkflows":
        """The same, with those workflows disabled that have such faults too."""
        bad = {one.source: tuple(found) for one in self.found if (found := faults(one))}
        kept = tuple(one for one in self.found if one.source not in bad)
        more = [DisabledWorkflow(one.slug, one.source, bad[one.source]) for one in self.found if one.source in bad]
        disabled = sorted((*self.disabled, *more), key=lambda one: one.source)
        return replace(self, found=kept, disabled=tuple(disabled))


def find_workflows(folder: Path, references: Sequence[str], code_refusal: str = "") -> LoadedWorkflows:
    """Every workflow of a folder, and those that `package.module:name` names; each is called after its file or name.

    Python is read first, so that conditions it registers are known to every TOML and JSON file; a file that fails is
    tried again after the others. A folder that is not there holds none. With a `code_refusal` no Python is run and no
    module imported, and that is the fault of each.
    """
    with importing_from(folder, PREFIX):
        files: list[Path | str] = [*_files(folder)]
        every = [*files, *dict.fromkeys(one for one in references if Path(one) not in files)]
        sources = sorted(every, key=lambda source: isinstance(source, Path) and source.suffix != ".py")
        found: dict[str, LoadedWorkflow] = {}
        others: list[str] = []
        failed: dict[str, DisabledWorkflow] = {}
        while True:
            before = len(sources)
            failed = {}
            for source in sources:
                if code_refusal and (isinstance(source, str) or source.suffix == ".py"):
                    failed[str(source)] = DisabledWorkflow(slug_of(source), str(source), (f"{source}: {code_refusal}",))
                    continue
                try:
                    one = read_workflow(source, may_be_other=True)
                except ConfigurationError as error:
                    failed[str(source)] = DisabledWorkflow(slug_of(source), str(source), error.faults)
                    continue
                if one is None:
                    others.append(str(source))
                else:
                    found[str(source)] = one
            sources = [source for source in sources if str(source) in failed]
            if not sources or len(sources) == before:
                break
    order = [found[str(source)] for source in every if str(source) in found]
    read = LoadedWorkflows(tuple(order), tuple(failed.values()), tuple(others))
    slugs = Counter([*(one.slug for one in read.found), *(one.slug for one in read.disabled)])
    return read.without(lambda one: _shared(one, read, slugs)).without(_displaced)


def _files(folder: Path) -> list[Path]:
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
    except OSError:  # not there, or not to be read, which the doctor reports
        return []
    return [path for path in paths if not path.name.startswith((".", "_"))]


def _shared(one: LoadedWorkflow, read: LoadedWorkflows, slugs: Mapping[Slug, int]) -> list[str]:
    if slugs[one.slug] == 1:
        return []
    known = [(known.slug, known.source) for known in read.found] + [(bad.slug, bad.source) for bad in read.disabled]
    other = next(source for slug, source in known if slug == one.slug and source != one.source)
    return [f"{one.source}: {other} is called {one.slug} too; rename one of them."]


def _displaced(one: LoadedWorkflow) -> list[str]:
    """Why a workflow that was read could not be found again by what is registered after all of them were read."""
    graph = one.workflow.graph
    if isinstance(graph, Graph) or not any(faults_of_values(graph)):
        return []
    what = "what was read after it registers another class under a name that its rules use"
    return [f"{one.source}: {what}. Give each condition and target a `name` of its own."]


def slug_of(source: Path | str) -> Slug:
    """What a file, or `package.module:name`, is called."""
    if isinstance(source, str) and Path(source).suffix not in SUFFIXES:
        module, _, name = source.partition(":")
        name = name.rpartition(".")[2]
        stem = module.rpartition(".")[2] if name in ("", TABLE, "graph") else name
    else:
        stem = Path(source).stem
    return Slug(stem.lower().replace("_", "-"))


def is_slug(name: str) -> bool:
    """Whether a workflow may be called so."""
    return _SLUG.fullmatch(name) is not None and name != PERSON


def read_workflow(source: Path | str, *, may_be_other: bool = False) -> LoadedWorkflow | None:
    """Read the workflow of a file, of `package.module:name`, or the only one of `package.module`.

    None where a Python module holds none, if it may.

    Raises:
        ConfigurationError: with every fault, and where it is.
    """
    try:
        return _read(source, may_be_other=may_be_other)
    except ConfigurationError:
        raise
    except Exception as fault:  # user code may fail in any way
        log.warning("workflow.not_read", source=str(source), exc_info=fault)
        raise ConfigurationError([f"{source}: it cannot be read: {type(fault).__name__}: {fault}."]) from fault


def _read(source: Path | str, *, may_be_other: bool) -> LoadedWorkflow | None:
    slug = slug_of(source)
    warnings: list[str] = []
    module: ModuleType | None = None
    if isinstance(source, str) and Path(source).suffix not in SUFFIXES:
        if ":" in source:
            value = load_object(source, _is_graph, "graph")
            module = sys.modules.get(source.partition(":")[0])
        else:
            module = load_module(source)
            value = _of_module(source, module, may_be_other=may_be_other)
    else:
        path = Path(source)
        with importing_from(path.parent, PREFIX):
            module = load_script(path, PREFIX) if path.suffix == ".py" else None
        value = _of_file(path, warnings) if module is None else _of_module(str(path), module, may_be_other=may_be_other)
    if value is None:
        return None
    workflow = Workflow(graph=value) if isinstance(value, TransitionGraph) else value
    if isinstance(value, Graph):
        workflow = mission_of(value, module)
    if not isinstance(workflow, Workflow | MissionWorkflow):
        kind = type(workflow).__name__
        raise ConfigurationError(
            [f"{source} is a {kind} and no workflow; name a Workflow, a TransitionGraph or a mission's Graph."]
        )
    faults = [*workflow.faults()]
    if not is_slug(slug):
        faults.insert(0, f"{slug!r} cannot be the name of a workflow; make one of a-z, 0-9 and -, other than {PERSON}.")
    if faults:
        raise ConfigurationError([f"{source}: {sentence}" for sentence in faults])
    return LoadedWorkflow(slug, workflow, str(source), (*warnings, *workflow.warnings()))


def _of_file(path: Path, warnings: list[str]) -> Workflow:
    text = read_text(path)
    faults: list[str] = []
    graph = TransitionGraph("")
    table = dict[str, Any]()
    try:
        data = parsed_toml(text) if path.suffix == ".toml" else parsed_json(text)
        table = data.pop(TABLE, {}) if isinstance(data, dict) else {}
        faults += _faults_of_table(table)
        graph = TransitionGraph.from_dict(data)
        warnings += ignored(data)
    except ConfigurationError as fault:
        if not faults:
            faults += Workflow(graph=graph, **table).faults_beside_graph()
        faults += fault.faults
    if faults:
        raise ConfigurationError([f"{path}: {sentence}" for sentence in faults])
    return Workflow(graph=graph, **table)


def _faults_of_table(table: object) -> list[str]:
    if not isinstance(table, dict):
        return [f"`{TABLE}` must be a table with the keys {', '.join(_KEYS)}."]
    faults = []
    if unknown := ", ".join(sorted(str(key) for key in table if key not in _KEYS)):
        faults.append(f"`{TABLE}` has unknown keys: {unknown}. Known are {', '.join(_KEYS)}.")
    faults += [
        f"`{TABLE}.{key}` must be a table."
        for key in ("context", "expectations")
        if not isinstance(table.get(key, {}), dict)
    ]
    if not isinstance(table.get("participants", []), list):
        faults.append(f"`{TABLE}.participants` must be a list of agents' slugs.")
    return faults


def _of_module(source: str, module: ModuleType, *, may_be_other: bool) -> Any:
    kinds = (Workflow, TransitionGraph, Graph)
    named = [getattr(module, name) for name in (TABLE, "graph") if hasattr(module, name)]
    for value in named:
        if isinstance(value, kinds):
            return value
    there = {key: value for key, value in vars(module).items() if isinstance(value, kinds)}
    if len(there) == 1:
        return next(iter(there.values()))
    if there:
        raise ConfigurationError(
            [f"{source}: it is ambiguous which of {', '.join(there)} is meant; call it `workflow`."]
        )
    if may_be_other and not named:
        return None
    raise ConfigurationError([f"{source}: it holds no workflow; give one to a variable `workflow` or `graph`."])


def _is_graph(value: object) -> bool:
    return isinstance(value, TransitionGraph)
