"""A scenario: a YAML file with messages of a person, answers of scripted models, and expectations.

    about: A request that names a file goes to execute and through all gates.
    messages:
      - Create hello.py that prints hello
    models: offline
    expect:
      status: ended
      phases: [execute, verification, chores, reflection]
      files: {hello.py: hello}
      sequential_calls: 15

`SHIPPED` is the folder of the scenarios that come with the program.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError

from tenex.core.errors import ConfigurationError
from tenex.core.phases import Phase
from tenex.core.router.answer import DECISION_SCHEMA
from tenex.core.text.foreign import decode
from tenex.prompting.frontmatter import choices
from tenex.settings.sections import CheckSettings

SHIPPED: Final = Path(__file__).parent / "scenarios"
ROUTER: Final = "orchestrator"
ANY: Final = "any"
"""In a script: all agents, or all phases."""
REST: Final = "..."
"""In `phases`: any phases, or none."""
_SANDBOXED: Final = ("shell", "python")
"""Tools that verification offers only where there is a sandbox."""
_DECISION: Final = tuple(DECISION_SCHEMA["properties"])
_WANTED: Final[Mapping[str, str]] = {
    "string_type": "must be text; put it in quotes",
    "list_type": "must be a list, such as `[a, b]`",
    "dict_type": "must be lines of `key: value`",
    "model_type": "must be lines of `key: value`",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}


def _phase(word: str) -> str:
    if word not in [*Phase]:
        raise ValueError(f"{word!r} is not a phase. {choices(word, Phase)}")
    return word


def calls_of(answer: Any) -> list[tuple[str, dict[str, Any]]] | None:
    """The calls of an agent's answer; None where it is a text.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(answer, str):
        return None
    tools = answer.items() if isinstance(answer, dict) else ()
    calls = [(tool, one) for tool, given in tools for one in (given if isinstance(given, list) else [given])]
    if not calls or not all(isinstance(arguments, dict) for _, arguments in calls):
        raise ValueError("must be a text, or tools with their arguments, such as `read_file: {path: a.py}`")
    return calls


def decision_of(answer: Any) -> dict[str, Any]:
    """A decision of the router: from END, USER, `phase: agents`, or its fields.

    Raises:
        ValueError: it is none of them.
    """
    if answer in ("END", "USER"):
        return {"agents": [answer]}
    if isinstance(answer, dict) and len(answer) == 1 and "agents" not in answer:
        ((phase, agents),) = answer.items()
        return {"phase": _phase(phase), "agents": agents}
    if not isinstance(answer, dict) or "agents" not in answer:
        raise ValueError("must be END, USER, or a phase with its agents, such as `execute: executor`")
    if unknown := [name for name in answer if name not in _DECISION]:
        raise ValueError(f"`{unknown[0]}` is not a known key. {choices(str(unknown[0]), _DECISION)}")
    return answer


def _script(value: Any) -> Any:
    """Complete a script: a list without phases is for any phase."""
    if not isinstance(value, dict):
        return value
    return {agent: {ANY: given} if isinstance(given, list) else given for agent, given in value.items()}


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError("must be a path in the workspace, such as `pkg/module.py`")
    return name


def _below(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError("must be a folder below that of the scenario, such as `repositories/samples`")
    return name


def _message(value: Any) -> Any:
    """Complete a message: a text is one that is sent when work rests."""
    return value if isinstance(value, dict | Message) else {"text": value}


Text = Annotated[str, Field(min_length=1)]
FileName = Annotated[str, Field(min_length=1), AfterValidator(_inside)]
FolderName = Annotated[str, Field(min_length=1), AfterValidator(_below)]
PhaseName = Annotated[str, AfterValidator(_phase)]
Step = Annotated[str, AfterValidator(lambda word: word if word == REST else _phase(word))]
ScriptPhase = Annotated[str, AfterValidator(lambda word: word if word == ANY else _phase(word))]
Script = Annotated[dict[str, dict[ScriptPhase, list[Any]]], BeforeValidator(_script)]
Bound = Annotated[int, Field(ge=0)]


class Table(BaseModel):
    """A mapping whose keys are all known, strict about types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Message(Table):
    """What a person writes, and when."""

    text: Text
    after: Text | None = None
    """A tool: it is sent as soon as that was called with success, in mid-work; None: when the work before it rests."""
    new_thread: bool = False
    """Whether it begins another conversation."""


class Expectations(Table):
    """What must hold at the end; what is not given is not looked at."""

    status: Literal["waiting", "ended"] | None = None
    phases: list[Step] | None = None
    """The phases in which turns were taken, in order; `...` is any number of others."""
    agents: list[str] | dict[PhaseName, list[str]] = []
    """Who had a turn, at least; or in which phase."""
    tools: list[str] = []
    """Each was called with success."""
    results: dict[str, str] = {}
    """The last result of a tool contains this."""
    verdicts: list[str] | None = None
    """Of all runs, in order."""
    ran: dict[PhaseName, list[dict[str, int]]] = {}
    """Programs by phase, in order, among others: what the command contains, and its exit status."""
    files: dict[FileName, str | None] = {}
    """A file of the workspace contains this; null: there is none."""
    replies: list[str] = []
    """Each is in a message that the project or an agent sent."""
    never: list[str] = []
    """None of them is in such a message."""
    notes: Bound | None = None
    """Messages published to the person; at most, like those below. `cached` is at least, as a fraction."""
    calls: Bound | None = None
    sequential_calls: Bound | None = None
    prompt_tokens: Bound | None = None
    cost: Annotated[float, Field(ge=0)] | None = None
    cached: Annotated[float, Field(ge=0, le=1)] | None = None


class Scenario(Table):
    """One file."""

    name: Text
    about: str = ""
    messages: Annotated[list[Annotated[Message, BeforeValidator(_message)]], Field(min_length=1)]
    """Each is sent when the work for the one before has ended or waits for the person, or in mid-work (`after`)."""
    agent: str = ""
    """The agent that works alone, as `conversations.agent`; none: they work in phases."""
    repository: FolderName | None = None
    """A folder below that of the scenario: copied to the workspace, which becomes a git repository with one commit."""
    venv: bool = False
    """Whether the workspace gets an empty virtual environment, `.venv`."""
    needs: list[Text] = []
    """Programs of the system: the scenario is skipped where one is not installed."""
    checks: dict[Text, CheckSettings] = {}
    """The checks that are set, as in the settings; those of the user's settings are of another project."""
    lessons: dict[Text, list[Text]] = {}
    """What agents have learnt before: in a project without a lesson all who took part reflect."""
    files: dict[FileName, str] = {}
    """In the workspace at the beginning; they replace those of the repository."""
    models: Literal["scripted", "offline", "settings"] | None = None
    """Who answers: only `script`, also the offline model, or the models of the settings."""
    script: Script = {}
    """Answers by agent and phase, in order. Not used with real models."""
    given: Script = {}
    """The same, used with real models too: what they are to react to."""
    turns: Annotated[int, Field(ge=1)] | None = None
    """The run ends after so many turns; None: when the work for the last message has."""
    timeout: Annotated[float, Field(gt=0)] = 600
    """Seconds of the whole run."""
    expect: Expectations = Expectations()

    _is_shipped: bool = PrivateAttr(default=False)
    _folder: Path = PrivateAttr(default=Path())

    @property
    def is_shipped(self) -> bool:
        """Whether it comes with the program: what its script writes may be run like what the offline model writes."""
        return self._is_shipped

    @property
    def source(self) -> Path | None:
        """The folder of the repository."""
        return self._folder / self.repository if self.repository is not None else None

    @property
    def needs_sandbox(self) -> bool:
        """Whether its script runs command lines, or the daemon the checks of its repository."""
        phases = [answers for agent, one in self.script.items() if agent != ROUTER for answers in one.values()]
        calls = [call for answers in phases for answer in answers for call in calls_of(answer) or ()]
        return self.venv or any(tool in _SANDBOXED for tool, _ in calls)

    @property
    def answered_by(self) -> Literal["scripted", "offline", "settings"]:
        """`models`; where it is not given, the script if there is one."""
        return self.models or ("scripted" if self.script else "settings")


def find(names: Iterable[str]) -> list[Path]:
    """The files that are named, as paths or as names of shipped scenarios; all shipped ones where none is."""
    own = {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}
    return [own.get(name, Path(name)) for name in names] or list(own.values())


def read_scenarios(paths: Iterable[Path]) -> list[Scenario]:
    """Read files.

    Raises:
        ConfigurationError: with every fault of every file: file, line, key, what is wrong and what is allowed.
    """
    faults: list[str] = []
    found = [scenario for path in paths if (scenario := _read(path, faults)) is not None]
    if faults:
        raise ConfigurationError(faults)
    return found


def _read(path: Path, faults: list[str]) -> Scenario | None:
    try:
        text = decode(path.read_bytes())
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except OSError as error:
        faults.append(f"{path}: cannot be read ({error.strerror}); `tenex eval --list` shows the shipped scenarios")
    except RecursionError:
        faults.append(f"{path}:1: it is nested too deeply to be read, or contains itself. A scenario has a few levels.")
    except (yaml.YAMLError, ValueError) as error:  # the latter: not UTF-8
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        faults.append(
            f"{path}{line}: this is not valid YAML: {getattr(error, 'problem', None) or error}. Put texts that "
            "contain `: ` in quotes."
        )
    else:
        if tree is None or not isinstance(values, dict):
            faults.append(f"{path}:1: must be lines of `key: value`, with: {', '.join(Scenario.model_fields)}")
            return None
        try:
            scenario = Scenario.model_validate({"name": path.stem, **values})
        except ValidationError as invalid:
            faults += _sentences(path, tree, invalid)
        else:
            faults += _script_faults(path, tree, scenario)
            scenario._is_shipped = path.parent == SHIPPED
            scenario._folder = path.parent
            if scenario.source is not None and not scenario.source.is_dir():
                at, _ = _place(tree, ("repository",))
                faults.append(f"{path}:{at}: repository: there is no folder {scenario.source}; create it.")
            return scenario
    return None


def _sentences(path: Path, tree: yaml.Node, invalid: ValidationError) -> Iterator[str]:
    for problem in invalid.errors():
        line, keys = _place(tree, problem["loc"])
        name = ".".join(map(str, keys)) or "the file"
        kind = problem["type"]
        if kind == "extra_forbidden":
            tables: Mapping[str, type[Table]] = {"expect": Expectations, "messages": Message}
            allowed = tables.get(str(keys[0]), Scenario).model_fields
            sentence = f"there is no such key. {choices(str(keys[-1]), allowed)}"
        elif kind == "missing":
            name = str(problem["loc"][-1])
            sentence = "is missing. Add it."
        elif kind == "value_error":
            sentence = str(problem["ctx"]["error"])
        else:
            sentence = _WANTED.get(kind) or problem["msg"]
        yield f"{path}:{line}: {name}: {sentence}"


def _script_faults(path: Path, tree: yaml.Node, scenario: Scenario) -> Iterator[str]:
    for name, script in (("script", scenario.script), ("given", scenario.given)):
        for agent, phases in script.items():
            for phase, answers in phases.items():
                for place, answer in enumerate(answers):
                    try:
                        decision_of(answer) if agent == ROUTER else calls_of(answer)
                    except ValueError as error:
                        line, keys = _place(tree, (name, agent, phase, place))
                        yield f"{path}:{line}: {'.'.join(map(str, keys))}: {error}"


def _place(node: yaml.Node, location: tuple[int | str, ...]) -> tuple[int, list[int | str]]:
    """The line of a location, and its keys as the file has them: without pydantic's names of alternatives."""
    line = 1
    keys = list[int | str]()
    for part in location:
        inner = None
        if isinstance(node, yaml.MappingNode):
            inner = next(((key, value) for key, value in node.value if key.value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            inner = (node.value[part], node.value[part])
        if inner is not None:
            line = inner[0].start_mark.line + 1
            node = inner[1]
            keys.append(part)
    return line, keys
