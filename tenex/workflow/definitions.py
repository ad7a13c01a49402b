"""A workflow as its author writes it down: the graph, who takes part, what is expected by when; and where to read one.

A TOML or JSON file holds the graph's own keys (so a graph that AG2 wrote is one) and, if wanted, a table `workflow`:

    initial_speaker = "writer"
    [workflow]
    name = "Draft and review"
    participants = ["writer", "editor"]        # else everybody whom the rules name; `person` is whoever opens it
    expectations.turn_within = { warn = 120, close = 600 }    # seconds

A Python module holds a `Workflow`, a `TransitionGraph` or a mission's `Graph`, called `workflow` or `graph`, or the
only one there.

Never: know which agents there are; whoever configures a daemon checks that.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final, get_args

from tenex.core.errors import ConfigurationError
from tenex.core.ids import Slug
from tenex.core.rounds import faults_of_value
from tenex.core.rules import named_agents
from tenex.core.workflows import DEFAULTS, EXPECTATIONS, PERSON, View, Within

from . import toml
from .checks import faults_of_values
from .dicts import parsed_json
from .graph import TransitionGraph
from .loading import module_of, object_of, text_of
from .mission_definitions import MissionWorkflow, mission_of
from .missions import Graph
from .registry import TransitionRegistry

SUFFIXES: Final = (".toml", ".json", ".py")
TABLE: Final = "workflow"
_KEYS = ("name", "about", "participants", "context", "expectations", "view")
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST = 366 * 24 * 3600
_OF_WORKFLOWS = (
    "checks", "definitions", "dicts", "durable", "failures", "graph", "loading", "mission_definitions", "mission_edges",
    "mission_nodes", "mission_runs", "missions", "registry", "toml", "typed",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow of speakers, for whoever writes one in Python.

    Args of the constructor: `participants` in the order of a round robin; by default everybody whom the graph names.
    `expectations`: by name (`turn_within`, `acks_within`, `reply_within`, `max_silence`, `ttl`) the seconds after which
    people are told (`warn`) and after which it closes (`close`); a number alone is `close`, 0 is never.
    """

    graph: TransitionGraph
    participants: Sequence[str] = ()
    name: str = ""
    about: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    expectations: Mapping[str, Any] = field(default_factory=dict)
    view: str = "windowed"

    @property
    def everybody(self) -> tuple[Slug, ...]:
        """Who takes part."""
        named = named_agents(self.graph.initial_speaker, self.graph.transitions, self.graph.default_target)
        return tuple(map(Slug, self.participants or dict.fromkeys(named)))

    def within(self) -> dict[str, Within]:
        """The expectations in ms, those that are not set at their defaults; for a workflow without faults."""
        return {**DEFAULTS, **{name: _within(value) for name, value in self.expectations.items()}}

    def faults(self) -> Iterator[str]:
        """Everything wrong with it, each as a sentence; Python has let pass whatever its author wrote."""
        yield from self.faults_beside_graph()
        yield from self._faults_of_graph(self.graph, self.participants)

    def faults_beside_graph(self) -> Iterator[str]:
        """What is wrong with all but the graph, and with who takes part in it."""
        for key in ("name", "about"):
            if not isinstance(getattr(self, key), str):
                yield f"`{key}` must be a text."
        if self.view not in get_args(View):
            yield f"`view` is {self.view!r}; it must be one of {', '.join(get_args(View))}."
        for key in ("context", "expectations"):
            if not isinstance(getattr(self, key), Mapping):
                yield f"`{key}` must be a dict."
        yield from faults_of_value(self.context, "context")
        given: object = self.expectations
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if name not in EXPECTATIONS:
                yield f"There is no expectation {name!r}; there are {', '.join(EXPECTATIONS)}."
            elif not _is_expectation(value):
                yield f"`expectations.{name}` must be seconds, or {{ warn = seconds, close = seconds }}; 0 is never."

    def _faults_of_graph(self, graph: object, participants: object) -> Iterator[str]:
        is_list = isinstance(participants, list | tuple) and all(isinstance(name, str) for name in participants)
        if not is_list:
            yield "`participants` must be a list of agents' slugs."
        if not isinstance(graph, TransitionGraph):
            yield f"`graph` is a {type(graph).__name__}; it must be a TransitionGraph."
        elif broken := [*faults_of_values(graph, TransitionRegistry.default())]:  # else it cannot say whom it names
            yield from broken
        elif is_list:
            yield from graph.validate(self.everybody).faults

    def doubts(self) -> tuple[str, ...]:
        """What may be meant so; for a workflow without faults."""
        return self.graph.validate(self.everybody).warnings


def _is_expectation(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(key in ("warn", "close") and _is_seconds(part) for key, part in value.items())
    return _is_seconds(value)


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LONGEST


def _within(value: Any) -> Within:
    given = value if isinstance(value, Mapping) else {"close": value}
    return Within(warn=round(given.get("warn", 0) * 1000), close=round(given.get("close", 0) * 1000))


@dataclass(frozen=True, slots=True)
class Found:
    """A workflow that was read, its slug, and where it stands."""

    slug: Slug
    workflow: Workflow | MissionWorkflow
    source: str


def find_workflows(folder: Path, references: Sequence[str], faults: list[str], *, code_refusal: str) -> list[Found]:
    """Every workflow of a folder, and those that `package.module:name` names; each is called after its file or name.

    What is wrong is added to `faults`; a folder that is not there holds none, a Python file may hold something else.
    With a `code_refusal` no Python is run and no module imported, and it is their fault.
    """
    found: list[Found] = []
    paths = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES) if folder.is_dir() else []
    sources: list[Path | str] = [path for path in paths if not path.name.startswith((".", "_"))]
    for source in [*sources, *references]:
        if code_refusal and (isinstance(source, str) or source.suffix == ".py"):
            faults.append(f"{source}: {code_refusal}")
            continue
        try:
            one = read_workflow(source, may_be_other=isinstance(source, Path))
        except ConfigurationError as error:
            faults.extend(error.faults)
            continue
        known = {other.slug: other for other in found}
        if one is None:
            continue
        if one.slug in known:
            faults.append(f"{source}: {known[one.slug].source} is called {one.slug} too; rename one of them.")
        found.append(one)
    faults += [sentence for one in found if (sentence := _displaced(one))]
    return found


def _displaced(one: Found) -> str | None:
    """Why a workflow that was read could not be found again by what is registered after all of them were read."""
    graph = one.workflow.graph
    if isinstance(graph, Graph) or not any(faults_of_values(graph, TransitionRegistry.default())):
        return None
    return (
        f"{one.source}: what was read after it registers another class under a name that its rules use. Give each "
        "condition and target a `name` of its own."
    )


def read_workflow(source: Path | str, *, may_be_other: bool = False) -> Found | None:
    """Read the workflow of a file, or of `package.module:name`; None where that holds another kind of graph.

    Raises:
        ConfigurationError: with every fault, and where it is.
    """
    if isinstance(source, str) and Path(source).suffix not in SUFFIXES:
        name = source.rpartition(":")[2].rpartition(".")[2]
        generic = name in (TABLE, "graph")
        value = object_of(source)
        module = sys.modules.get(source.partition(":")[0])
        slug = source.partition(":")[0].rpartition(".")[2] if generic else name
    else:
        path = Path(source)
        slug = path.stem
        module = module_of(path, "tenex_workflows") if path.suffix == ".py" else None
        value = _of_file(path) if module is None else _of_module(path, module, may_be_other=may_be_other)
        if value is None:
            return None
    slug = slug.lower().replace("_", "-")
    workflow = Workflow(graph=value) if isinstance(value, TransitionGraph) else value
    if isinstance(value, Graph):
        workflow = mission_of(value, module)
    if not isinstance(workflow, Workflow | MissionWorkflow):
        kind = type(workflow).__name__
        raise ConfigurationError(
            [f"{source} is a {kind} and no workflow; name a Workflow, a TransitionGraph or a mission's Graph."]
        )
    faults = [*workflow.faults()]
    if not _SLUG.fullmatch(slug) or slug == PERSON:
        faults.insert(0, f"{slug!r} cannot be the name of a workflow; make one of a-z, 0-9 and -, other than {PERSON}.")
    if faults:
        raise ConfigurationError([f"{source}: {sentence}" for sentence in faults])
    return Found(Slug(slug), workflow, str(source))


def _of_file(path: Path) -> Workflow:
    text = text_of(path)
    faults: list[str] = []
    graph, table = TransitionGraph(""), dict[str, Any]()
    try:
        data = toml.parsed(text) if path.suffix == ".toml" else parsed_json(text)
        table = data.pop(TABLE, {}) if isinstance(data, dict) else {}
        faults += _faults_of_table(table)
        graph = TransitionGraph.from_dict(data, TransitionRegistry.default())
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
    faults += [f"`{TABLE}.{key}` must be a table." for key in ("context", "expectations")
               if not isinstance(table.get(key, {}), dict)]  # fmt: skip
    if not isinstance(table.get("participants", []), list):
        faults.append(f"`{TABLE}.participants` must be a list of agents' slugs.")
    return faults


def _of_module(path: Path, module: ModuleType, *, may_be_other: bool) -> Any:
    named = [getattr(module, name) for name in (TABLE, "graph") if hasattr(module, name)]
    for value in named:
        if isinstance(value, Workflow | TransitionGraph | Graph):
            return value
    there = {key: value for key, value in vars(module).items() if isinstance(value, Workflow | TransitionGraph | Graph)}
    if len(there) == 1:
        return next(iter(there.values()))
    if not there and may_be_other and any(map(_is_of_another_kind, vars(module).values())):
        return None
    if not there:
        raise ConfigurationError([f"{path}: it holds no workflow; give one to a variable `workflow` or `graph`."])
    raise ConfigurationError([f"{path}: it does not say which of {', '.join(there)} is meant; call it `workflow`."])


def _is_of_another_kind(value: object) -> bool:
    """Whether it is of this package and about no workflow: of an agent with phases."""
    module = getattr(value, "__module__", None) or type(value).__module__
    package, _, name = module.rpartition(".") if isinstance(module, str) else ("", "", "")
    return package == "tenex.workflow" and name not in _OF_WORKFLOWS
