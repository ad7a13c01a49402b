"""Front matter of an agent's file: YAML read into pydantic models, every error with its line.

phases:
- [planning, research, plan]
- [research, analysis, data|length >= 3]
state:
plan: ""
data: {type: list, description: the findings}
tools:
- read_file
- shell: {phases: [research], when: plan}
agents:
- planner: {phases: [planning], shared: true}
output: {plan: [thinking, risks.py:Risks], act: [tool_call, python], min: 1, max: 3}
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PlainValidator,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError
from yaml.reader import ReaderError

from tenex.core.agent_phases.program import fits
from tenex.core.config import AgentKind
from tenex.core.phases import Phase
from tenex.core.text.foreign import character, plain, trimmed
from tenex.core.text.json_values import faults_of_value

WORKER_KEYS: Final = ("phases", "state", "tools", "agents", "triggers", "input", "output", "acp")
"""Keys that an orchestrator does not have."""
NOT_OF_PROGRAMS: Final = ("phases", "state", "agents", "input", "output")
"""Keys that an agent with `acp` does not have."""
DEFAULT_PLAN: Final = ("thinking", "scratchpad", "inner_monologue")
DEFAULT_ACT: Final = ("tool_call",)
DEFAULT_MOST: Final = 3
"""Planning states in one answer, as in Proxy Base Agent."""
RESERVED: Final = frozenset({"state", "phase", "conversation", "message"})
"""Names that mean something in templates and conditions."""

CHARACTERS: Final = 32_000
"""Of front matter: the longest of the shipped agents has 1,200, and YAML is read at 100,000 a second."""
NODES: Final = 10_000
"""Values of front matter: an alias is replaced by all that its anchor holds, so a few lines may hold billions."""

FieldType = Literal["text", "number", "integer", "boolean", "list", "object"]
Location = tuple[int | str, ...]
"""The keys and indices that lead to a value."""

_TYPES: Final[Mapping[str, tuple[str, Any]]] = {
    "boolean": ("boolean", False),
    "integer": ("integer", 0),
    "number": ("number", 0),
    "list": ("array", []),
    "object": ("object", {}),
    "text": ("string", ""),
}
"""JSON Schema's name and the default of each type; a value is of the first it fits."""
_JINJA_WORDS: Final = frozenset({"and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "loop", "self"})
_EDGE: Final = "must be a list of `[source, destination, condition]`."
_NULL: Final = "tag:yaml.org,2002:null"


def choices(word: str, known: Iterable[str]) -> str:
    """A sentence that lists the known names, the closest first."""
    names = sorted(known)
    near = get_close_matches(word.lower(), names, n=1)
    meant = f"Did you mean `{near[0]}`? " if near else ""
    return f"{meant}There are: {', '.join(names) or 'none'}."


def _kind(word: object) -> object:
    word = plain(word) if isinstance(word, str) else word
    if isinstance(word, str) and word.lower() not in [*AgentKind]:
        raise ValueError(f"{word!r} is not a kind of agent. {choices(word, AgentKind)}")
    return word.lower() if isinstance(word, str) else word


def _phase(word: object) -> object:
    phase = Phase.parse(word) if isinstance(word, str) else None
    if isinstance(word, str) and phase is None:
        raise ValueError(f"{word!r} is not a phase. {choices(word, Phase)}")
    return phase


def _field_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name) or name.lower() in _JINJA_WORDS:
        raise ValueError("this cannot be a field's name: begin with a letter, use letters, digits and `_` only.")
    if name in RESERVED:
        raise ValueError("this cannot be a field's name: it is reserved.")
    return name


def _edge(row: object) -> tuple[str, str, str | None]:
    if not isinstance(row, list) or len(row) not in (2, 3) or not all(isinstance(part, str | None) for part in row):
        raise ValueError(f"each of them {_EDGE.replace('must be a list of', 'must be')}")
    for name in row[:2]:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,27}", name or ""):
            raise ValueError(
                f"{name!r} is not a phase's name: one word of at most 28 letters, digits, `_` and `-`, a letter first."
            )
    return row[0], row[1], row[2] if len(row) == 3 else None


def _not_names(rows: object) -> object:
    if not isinstance(rows, list):
        raise ValueError(_EDGE)  # noqa: TRY004 - a ValueError is what pydantic collects
    if rows and all(isinstance(row, str) for row in rows):
        raise ValueError(
            f"{_EDGE} This is the agent's own graph; the conversation's phases it works in are "
            f"`in_phases: [{', '.join(rows)}]`."
        )
    return rows


def _named_tables(items: object) -> object:
    if isinstance(items, dict):
        items = [items]
    if not isinstance(items, list) or not all(isinstance(item, str | dict) for item in items):
        raise ValueError("must be a list of names, such as `[a, b]`, or of `a: {phases: [...], when: condition}`.")
    return [{plain(item): None} if isinstance(item, str) else item for item in items]


def _output(value: object) -> object:
    word = value.lower() if isinstance(value, str) else ""
    return {} if word in ("true", "yes", "on") else None if word in ("false", "no", "off") else value


def _output_state(value: object) -> object:
    if not isinstance(value, type) and not (isinstance(value, str) and value.strip()):
        raise ValueError("must be a list of states, such as `[thinking, scratchpad]`.")
    return value.strip() if isinstance(value, str) else value


Line = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(lambda text: " ".join(text.split()))
]
OneLine = Annotated[
    str, BeforeValidator(lambda text: text if isinstance(text, list | dict) else " ".join(str(text).split()))
]
Names = Annotated[
    tuple[Annotated[str, AfterValidator(plain)], ...],
    BeforeValidator(lambda names: [names] if isinstance(names, str) else names),
]
OutputStates = tuple[Annotated[Any, PlainValidator(_output_state)], ...]


class Table(BaseModel):
    """A mapping whose keys are all known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StateField(Table):
    """A field of an agent's state: `{type, default, description}`, or only its default."""

    type: FieldType | None = None
    default: Any = None
    description: OneLine = ""

    @model_validator(mode="before")
    @classmethod
    def _only_default(cls, value: object) -> object:
        return value if isinstance(value, dict) and value else {"default": value}

    @model_validator(mode="after")
    def _check(self) -> "StateField":
        if any(faults_of_value(self.default, "")):
            raise ValueError("the default is not a JSON value. Put it in quotes.")
        if self.type is None and self.default is None:
            raise ValueError("has neither a type nor a default. Give one of them.")
        if self.default is not None and not fits(self.default, {"type": self._json_type}):
            raise ValueError(f"the default is not of type {self.type}.")
        return self

    @property
    def _json_type(self) -> str:
        if self.type is not None:
            return _TYPES[self.type][0]
        return next(name for name, _ in _TYPES.values() if fits(self.default, {"type": name}))

    @property
    def schema_(self) -> Mapping[str, Any]:
        """The field as JSON Schema."""
        return {"type": self._json_type, **({"description": self.description} if self.description else {})}

    @property
    def initial(self) -> Any:
        """The value the field begins with."""
        return self.default if self.default is not None else _TYPES[self.type or "text"][1]


class ToolTable(Table):
    """Where a tool is offered: in which of the agent's own phases, and on which condition."""

    phases: Names = ()
    when: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _empty(cls, value: object) -> object:
        return {} if value is None else value


class SubAgentTable(ToolTable):
    """How a sub-agent may be called."""

    shared: bool = False
    description: OneLine = ""


class OutputTable(Table):
    """The states an agent's answers are made of."""

    plan: OutputStates = DEFAULT_PLAN
    act: OutputStates = DEFAULT_ACT
    least: NonNegativeInt | None = Field(None, alias="min")
    most: NonNegativeInt = Field(DEFAULT_MOST, alias="max")


class AcpTable(Table):
    """The program that an agent is, by the Agent Client Protocol, and how it is started."""

    command: Annotated[tuple[Annotated[str, StringConstraints(min_length=1)], ...], Field(min_length=1)]
    """The program and its arguments."""
    version: OneLine = ""
    """What the version that it states has to begin with; "" for any."""
    mode: OneLine = ""
    """The mode that is set in each of its sessions, and read back; "" for the one that it begins with."""
    model: OneLine = ""
    """What the program calls its model, set and read back likewise."""
    env: dict[str, str] = {}
    """Variables; `{openai}`, `{anthropic}` and `{google}` are addresses of the agent's model, `{mcp}` of our tools."""
    pass_env: Names = ()
    """Variables of the daemon that it is given, by name."""
    hosts: Names = ()
    """The hosts that it may reach; none unless named."""


class OriginTable(Table):
    """Which published definition an agent was made of; `name` is the one that its newer versions share."""

    author: OneLine
    event: OneLine
    name: OneLine = ""


class FrontMatter(Table):
    """All keys of an agent's front matter."""

    name: Line
    role: Line
    kind: Annotated[AgentKind, BeforeValidator(_kind)]
    use_when: OneLine = Field("", validate_default=True)
    in_phases: tuple[Annotated[Phase, BeforeValidator(_phase)], ...] = ()
    model: Annotated[OneLine, AfterValidator(plain)] = ""
    triggers: bool = False
    state: dict[Annotated[str, AfterValidator(_field_name)], StateField] = {}
    phases: Annotated[tuple[Annotated[Any, PlainValidator(_edge)], ...], BeforeValidator(_not_names)] = ()
    tools: Annotated[tuple[dict[str, ToolTable], ...], BeforeValidator(_named_tables)] = ()
    agents: Annotated[tuple[dict[str, SubAgentTable], ...], BeforeValidator(_named_tables)] = ()
    input: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)] = ""
    output: Annotated[OutputTable | None, BeforeValidator(_output)] = None
    acp: AcpTable | None = None
    origin: OriginTable | None = None

    @field_validator("use_when")
    @classmethod
    def _needed_for_routing(cls, text: str, info: ValidationInfo) -> str:
        if not text and info.data.get("kind") not in (None, AgentKind.ORCHESTRATOR):
            raise PydanticCustomError("missing", "missing")
        return text


_TABLES: Final[Mapping[str, type[Table]]] = {
    "state": StateField,
    "tools": ToolTable,
    "agents": SubAgentTable,
    "output": OutputTable,
    "acp": AcpTable,
    "origin": OriginTable,
}


@dataclass(slots=True)
class FrontMatterReader:
    """Reads one file's front matter; errors are added to `faults` as `file:line: sentence`."""

    source: str
    faults: list[str]
    lines: dict[Location, int] = field(default_factory=dict)
    _nodes: int = 0
    """Values read so far."""
    _text: tuple[str, ...] = ()
    """The lines of the front matter."""

    def fault(self, at: Location | int, sentence: str) -> None:
        """Add an error at a location, or in a line."""
        self.faults.append(f"{self.source}:{at if isinstance(at, int) else self.line(at)}: {sentence}")

    def line(self, at: Location) -> int:
        """The line of a location, or of the closest one around it."""
        while at and at not in self.lines:
            at = at[:-1]
        return self.lines.get(at, 1) if at else 1

    def read(self, text: str) -> FrontMatter | None:
        """Validate the text between the `---` lines; None if there was an error."""
        known = len(self.faults)
        if len(text) > CHARACTERS:
            self.fault(1, f"the front matter has {len(text):,} characters, and {CHARACTERS:,} is the most.")
            return None
        self._text = tuple(text.split("\n"))
        try:
            tree = yaml.compose(text, Loader=yaml.SafeLoader)
            if not isinstance(tree, yaml.MappingNode):
                self.fault(1, "the front matter must be lines of `key: value`.")
                return None
            values = self._plain(tree, ())
            front = FrontMatter.model_validate({key: value for key, value in values.items() if value is not None})
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            what = getattr(error, "problem", None) or "a character that YAML does not permit"
            if isinstance(error, ReaderError) and isinstance(error.character, int):
                what += f", {character(chr(error.character))}"
            self.fault(
                mark.line + 2 if mark else 1,
                f"the front matter is not valid YAML: {what}. Put values in quotes that contain `: ` or begin with "
                "a mark.",
            )
        except RecursionError:
            self.fault(1, "the front matter is nested too deeply, contains itself, or repeats too much by aliases.")
        except ValidationError as invalid:
            for problem in invalid.errors():
                self.fault(problem["loc"], _sentence(dict(problem)))
        return front if len(self.faults) == known else None

    def _plain(self, node: yaml.Node, at: Location) -> Any:
        """The node's value; scalars stay text except in `state`, so that a name may be `yes` or a role a date."""
        self._nodes += 1
        if self._nodes > NODES:
            raise RecursionError
        match node:
            case yaml.MappingNode():
                found: dict[str, Any] = {}
                for key, value in node.value:
                    name = plain(str(key.value)).strip() if isinstance(key, yaml.ScalarNode) else "?"
                    line = int(key.start_mark.line) + 2  # the front matter begins in the file's second line
                    if name in found:
                        self.fault(line, f"`{name}` appears twice, first in line {self.lines[*at, name]}. Keep one.")
                    else:
                        self.lines[*at, name] = line
                        found[name] = self._plain(value, (*at, name))
                return found
            case yaml.SequenceNode():
                for index, item in enumerate(node.value):
                    self.lines[*at, index] = int(item.start_mark.line) + 2
                return [self._plain(item, (*at, index)) for index, item in enumerate(node.value)]
            case _ if node.tag == _NULL:
                return None
            case _ if at[0] == "state":
                try:
                    return yaml.SafeLoader("").construct_document(node)
                except yaml.YAMLError:
                    return ...  # no JSON value, which is reported for its field
            case _:
                self._check_whole(node, at)
                return trimmed(node.value)

    def _check_whole(self, node: yaml.Node, at: Location) -> None:
        """Report a text without quotes of which YAML takes a part for something else."""
        if not isinstance(node, yaml.ScalarNode) or node.style is not None:
            return
        start = node.start_mark
        end = node.end_mark
        rest = self._text[end.line][end.column :] if end.line < len(self._text) else ""
        first = self._text[start.line][start.column : start.column + 1]
        name = f"`{'.'.join(part for part in at if isinstance(part, str))}`"
        if re.match(r"\s+#", rest):
            self.fault(
                int(end.line) + 2,
                f"{name}: YAML takes `{rest.strip()[:30]}` for a comment. Put the text in quotes, or the comment on a "
                "line of its own.",
            )
        elif first in ("!", "&"):
            word = self._text[start.line][start.column :].split()[0][:30]
            self.fault(int(start.line) + 2, f"{name}: `{word}` means something else in YAML. Put the text in quotes.")


def _sentence(error: dict[str, Any]) -> str:
    at = error["loc"]
    given = error.get("input")
    parts = [part for part in at if isinstance(part, str) and part != "[key]"]
    name = f"`{'.'.join(parts)}`"
    match error["type"]:
        case "missing":
            return f"{name} is missing. Add it."
        case "extra_forbidden":
            table = FrontMatter if len(parts) == 1 else _TABLES[parts[0]]
            return f"{name} is not a known key. {choices(parts[-1], _keys(table))}"
        case "value_error":
            sentence = str(error["ctx"]["error"])
            return f"{name}{'' if sentence.startswith(('must', 'has')) else ':'} {sentence}"
        case "string_too_short":
            return f"{name} is empty. Fill it in."
        case "string_type":
            return f"{name} must be text."
        case "bool_parsing" | "bool_type":
            return f"{name} must be true or false."
        case "literal_error":
            return f"{name}: {given!r} is not a type. {choices(str(given), get_args(FieldType))}"
        case "tuple_type" | "list_type":
            return f"{name} must be a list, such as `[a, b]`."
        case "dict_type" | "model_type":
            known = _keys(_TABLES[parts[0]]) if len(parts) > 1 else []
            return f"{name} must be lines of `key: value`{', with: ' if known else ''}{', '.join(known)}."
        case "int_parsing" | "int_type" | "greater_than_equal":
            return f"{name} must be a whole number, 0 or more."
        case _:
            return f"{name}: {error['msg']}."


def _keys(table: type[Table]) -> list[str]:
    return [field.alias or name for name, field in table.model_fields.items()]
