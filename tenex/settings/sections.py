"""Every setting: its name, its type, its default and its bounds; and the core's values made of them.

`config/tenex.example.toml` documents the settings for users, and a test keeps the two equal. Times are in seconds here
and in milliseconds in the core. What the core goes by is a field of `Limits`, `Expectation`, `GateRules` or
`ConversationRules` there, and nowhere else: these sections are made of them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    create_model,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from tenex.core.approvals.rules import COMMAND, OPERANDS, ApprovalRule, Example, Verdict
from tenex.core.config import (
    ApprovalPolicy,
    Bounds,
    ConversationRules,
    Expectation,
    GateRules,
    Limits,
    NotificationRules,
    PeerGroup,
    QuietHours,
    Verbosity,
)
from tenex.core.errors import ConfigurationError, TenexError
from tenex.core.ids import Millis, PublicKey
from tenex.core.phases import Phase
from tenex.core.text.foreign import INVISIBLE, plain, trimmed

from .trust import Trust

EMBEDDED_RELAY_PORT: Final = 7447
"""Default port of `tenex relay`: away from the 7777 and 8080 of other relays."""
WEB_PORT: Final = 7448
"""Default port of `tenex web`, beside that of the relay."""
NO_USERS: Final = "no one may talk here"
"""The fault of settings without users."""
_YEAR = 366 * 24 * 3600
_HOURS: Final = re.compile(r"(?P<begin>(?:[01]?\d|2[0-3]):[0-5]\d)\s*[-–]\s*(?P<end>(?:[01]?\d|2[0-3]):[0-5]\d)")
_CHECK_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TIME: Final = "seconds"
"""Marks a time, which the core takes in milliseconds."""


def _relay_url(url: str) -> str:
    url = INVISIBLE.sub("", trimmed(url))
    try:
        parts = urlsplit(url)
        is_relay = parts.scheme.lower() in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        is_relay = False
    if not is_relay or any(not char.isprintable() or char.isspace() for char in url):
        raise ValueError("must be the address of a relay, such as wss://relay.example.com")
    if parts.username is not None:
        raise ValueError("must not hold a user or a password: relays know users by their keys")
    return url


def _http_url(url: str) -> str:
    url = INVISIBLE.sub("", trimmed(url))
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ValueError("must be an address such as http://127.0.0.1:8080/v1, without a user or a password")
    return url


def _file_server(url: str) -> str:
    url = _http_url(url).rstrip("/")
    parts = urlsplit(url)
    is_here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.query or parts.fragment or (parts.scheme.lower() != "https" and not is_here):
        raise ValueError("must be the https address of a Blossom server, such as https://blossom.example.com")
    return url


def _phase_or_any(name: str) -> str:
    phase = Phase.parse(name)
    if name and phase is None:
        raise ValueError(f'must be a phase, one of {", ".join(Phase)}, or "" for any')
    return str(phase or "")


def _quiet_hours(text: str) -> str:
    times = _HOURS.fullmatch(plain(text).strip())
    if text.strip() and (times is None or _minutes(times["begin"]) == _minutes(times["end"])):
        raise ValueError('must be two times of a day, such as "22:00-07:00", or "" for none')
    return f"{times['begin']}-{times['end']}" if times is not None else ""


def _time_zone(name: str) -> str:
    name = plain(name).strip()
    try:
        zone = ZoneInfo(name) if name else None
    except (ValueError, OSError, KeyError):  # KeyError: it is not installed here
        raise ValueError(
            'must be a time zone that this machine knows, such as "Europe/Berlin", or "" for its own'
        ) from None
    return name if zone is not None else ""


def _offset(zone: str) -> Callable[[Millis], int]:
    """By how many minutes local time is ahead of UTC at a moment; in the machine's own zone without a name."""
    there = ZoneInfo(zone) if zone else None

    def offset(at: Millis) -> int:
        local = datetime.fromtimestamp(at / 1000, UTC).astimezone(there)
        return int((local.utcoffset() or timedelta()).total_seconds()) // 60

    return offset


def _minutes(time: str) -> int:
    hours, minutes = time.split(":")
    return 60 * int(hours) + int(minutes)


def _store(text: str) -> str:
    text = INVISIBLE.sub("", trimmed(text))
    if text and not text.startswith(("postgresql://", "postgres://")):
        raise ValueError("must be empty, for files, or the address of a database such as postgresql://user@host/tenex")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _models(given: object) -> object:
    names = given if isinstance(given, list) else [given]
    if not 1 <= len(names) <= 10 or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError('must be the name of a model in quotes, or a list of one to ten: ["a:b", "c:d"]')
    chain = [plain(str(name)).strip() for name in names]
    return chain if isinstance(given, list) else chain[0]


Text = Annotated[str, AfterValidator(_not_blank)]
Name = Annotated[str, AfterValidator(plain), AfterValidator(str.strip), AfterValidator(_not_blank)]
"""A text that names something, which is found by it."""
Seconds = Annotated[float, Field(gt=0, le=_YEAR), _TIME]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Chain = Annotated[str | list[str], PlainValidator(_models)]
"""A model, or several: the next is asked where one cannot answer."""
Dollars = Annotated[float, Field(ge=0, le=1_000_000)]


FILE_WORD: Final = "{file}"
"""In a command: the path of the file that it reads."""


class Section(BaseModel):
    """A table of the file: strict about types; an unknown name is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _by_phase(kind: Any, **before: Any) -> Any:
    """A section with a field for each phase, None unless given; after those of `before`."""
    phases: dict[str, Any] = {phase.value: (kind | None, None) for phase in Phase}
    return create_model("ByPhase", __base__=Section, **before, **phases)


def _section_of(core: Any, *left_out: str) -> Any:
    """A section with the fields of a dataclass of the core, but those left out."""
    kinds = get_type_hints(core, include_extras=True)
    made: dict[str, Any] = {}
    for field in fields(core):
        if field.name not in left_out:
            assert field.default is not MISSING, f"{core.__name__}.{field.name} has no default"
            kind = _kind_of(kinds[field.name])
            made[field.name] = kind, _in_seconds(field.default) if _is_time(kind) else field.default
    return create_model(core.__name__, __base__=Section, **made)


def _kind_of(kind: Any) -> Any:
    """The type of a setting by the type of a field of the core: with its bounds, and with seconds for a time."""
    base, *marks = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    bounds = next((mark for mark in marks if isinstance(mark, Bounds)), None)
    if bounds is None:
        return kind
    if get_origin(base) is tuple:
        each = _kind_of(get_args(base)[0])
        times = (_TIME,) if _is_time(each) else ()
        return Annotated[GenericAlias(list, each), Field(max_length=bounds.most), *times]
    if bounds.is_time:
        least = Field(gt=0, le=bounds.most // 1000) if bounds.least else Field(ge=0, le=bounds.most // 1000)
        return Annotated[float, least, _TIME]
    return Annotated[base, Field(ge=bounds.least, le=bounds.most)]


def _is_time(kind: Any) -> bool:
    return _TIME in getattr(kind, "__metadata__", ())


def _in_seconds(value: Any) -> Any:
    return [each / 1000 for each in value] if isinstance(value, tuple) else value / 1000


def _core_values(section: Section, *left_out: str) -> dict[str, Any]:
    """The values of a section that was made of the core's fields; times become milliseconds."""
    values: dict[str, Any] = {}
    for name in type(section).model_fields.keys() - set(left_out):
        value = getattr(section, name)
        if _TIME in type(section).model_fields[name].metadata:
            value = tuple(map(_ms, value)) if isinstance(value, list) else _ms(value)
        values[name] = value
    return values


def _ms(seconds: float) -> int:
    return max(round(seconds * 1000), 1) if seconds > 0 else 0


class Relays(Section):
    """The relays that are read and written."""

    urls: Annotated[list[Annotated[str, AfterValidator(_relay_url)]], Field(min_length=1, max_length=100)] = [
        f"ws://127.0.0.1:{EMBEDDED_RELAY_PORT}"
    ]
    typing_indicators: Literal["auto", "on", "off"] = "auto"
    verbosity: Literal["quiet", "normal", "verbose"] = "normal"


class People(Section):
    """Who may talk to the project, and as what."""

    owners: list[Name] = []
    members: list[Name] = []
    open: bool = False
    proof_of_work: Annotated[int, Field(ge=0, le=64)] = 0
    share_lessons: bool = False
    quiet_hours: Annotated[str, AfterValidator(_quiet_hours)] = ""
    time_zone: Annotated[str, AfterValidator(_time_zone)] = ""


class RoomSettings(Section):
    """The rooms of relays (NIP-29) that keys of the project are members of."""

    only: list[Text] = []
    writers: Literal["members", "people"] = "members"
    answers: Literal["thread", "channel"] = "thread"
    costs: bool = False


def parse_people(
    people: Mapping[str, Any], parse_key: Callable[[str], PublicKey]
) -> tuple[dict[str, set[PublicKey]], dict[str, str]]:
    """The keys of owners and members, and the errors by setting; what is no text is an error of its type already."""
    found: dict[str, set[PublicKey]] = {"owners": set(), "members": set()}
    faults: dict[str, str] = {}
    for group, keys in found.items():
        listed = people.get(group)
        for index, text in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(text, str) and text.strip():
                try:
                    keys.add(parse_key(text))
                except (ValueError, TenexError) as fault:
                    faults[f"people.{group}[{index}]"] = str(fault)
    return found, faults


class Project(Section):
    """How the project introduces itself on Nostr."""

    name: Annotated[str, AfterValidator(trimmed), AfterValidator(_not_blank)] = "tenex"
    about: str = "A team of agents. Write to it, and it works on what you ask for."
    event: Annotated[str, AfterValidator(plain), AfterValidator(str.strip)] = ""


class ConversationSettings(_section_of(ConversationRules)):  # type: ignore[misc] # made of the core's fields
    """What new conversations are, and how conversations go on."""

    agent: Annotated[str, AfterValidator(plain), AfterValidator(str.strip)] = ""

    def to_core(self) -> ConversationRules:
        """The core's rules for conversations."""
        return ConversationRules(**_core_values(self, "agent"))


class PhaseModels(_by_phase(Chain)):  # type: ignore[misc] # made of the phases
    """Models for single phases; None takes the less specific setting."""


class AgentModels(Section):
    """Models of one agent."""

    model: Chain | None = None
    phases: PhaseModels = PhaseModels()


class Provider(Section):
    """How the models of one provider are reached, and its rate limits."""

    kind: Name | None = None
    base_url: Annotated[str, AfterValidator(_http_url)] | None = None
    api_key_env: Name | None = None
    api_key_file: Text | None = None
    concurrency: Annotated[int, Field(ge=1, le=1_000)] = 8
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    grammar: Literal["none", "structural_tag", "json_schema"] = "none"


def _transcription(given: str | list[str]) -> str | list[str]:
    """A model as `provider:model`, or a command that names the file."""
    if isinstance(given, list):
        if not any(FILE_WORD in word for word in given):
            raise ValueError(f'a command names the file it reads: add "{FILE_WORD}" to its words')
        return given
    provider, colon, model = given.strip().partition(":")
    if given.strip() and not (colon and provider.strip() and model.strip()):
        raise ValueError('name a model as "<provider>:<model>", or give a command as a list of words')
    return given.strip()


class ModelPrice(Section):
    """What a model costs, in US dollars per million tokens."""

    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None
    cache_write: Dollars | None = None


class Models(Section):
    """Which model works where; the most specific setting wins."""

    default: Chain = "offline"
    router: Chain | None = None
    timeout: Seconds = 300
    stream: bool = True
    context_tokens: Annotated[int, Field(ge=8_000, le=10_000_000)] = 100_000
    max_output_tokens: Annotated[int, Field(ge=256, le=1_000_000)] = 16_000
    vision: list[Name] = []
    transcription: Annotated[str | list[Text], AfterValidator(_transcription)] = ""
    phases: PhaseModels = PhaseModels()
    agents: dict[str, AgentModels] = {}
    providers: dict[str, Provider] = {}
    prices: dict[str, ModelPrice] = {}

    def for_agent(self, slug: str, phase: Phase, own: str | None = None) -> tuple[str, ...]:
        """The models of an agent in a phase, the first choice first; the most specific setting wins.

        `own` is the model named in the agent's definition: it counts where no setting names this agent.
        """
        agent = self.agents.get(slug)
        candidates = (
            getattr(agent.phases, phase.value) if agent else None,
            agent.model if agent else None,
            own or None,
            getattr(self.phases, phase.value),
        )
        return _chain(next((name for name in candidates if name is not None), self.default))

    def for_router(self) -> tuple[str, ...]:
        """The models that route, the first choice first."""
        return _chain(self.router if self.router is not None else self.default)

    def named(self) -> dict[str, tuple[str, ...]]:
        """Every model that is named, by the setting that names it."""
        named = {"models.default": _chain(self.default)}
        if self.router is not None:
            named["models.router"] = _chain(self.router)
        tables = {"models.phases": self.phases}
        for slug, agent in self.agents.items():
            if agent.model is not None:
                named[f"models.agents.{slug}.model"] = _chain(agent.model)
            tables[f"models.agents.{slug}.phases"] = agent.phases
        for table, phases in tables.items():
            named |= {f"{table}.{phase}": _chain(name) for phase, name in phases if name is not None}
        return named


def _chain(name: str | list[str]) -> tuple[str, ...]:
    return (name,) if isinstance(name, str) else tuple(dict.fromkeys(name))


class Gates(_section_of(GateRules)):  # type: ignore[misc] # made of the core's fields
    """What it takes to pass a quality gate."""

    def to_core(self) -> GateRules:
        """The core's rules for quality gates."""
        return GateRules(**_core_values(self))


class Approvals(_section_of(ApprovalPolicy, "rules", "owners")):  # type: ignore[misc] # made of the core's fields
    """Who is asked about calls that leave the sandbox, and how long an answer is waited for."""

    def to_core(self, rules: "list[ApproveRule]", owners: frozenset[PublicKey]) -> ApprovalPolicy:
        """The core's rules for calls, with those that `[[approve]]` lists."""
        numbered = tuple(rule.to_core(number) for number, rule in enumerate(rules, start=1))
        return ApprovalPolicy(rules=numbered, owners=owners, **_core_values(self))


Call = str | dict[str, Any]
"""A call as an example: a command line, or the arguments of any tool."""


def _listed(given: object) -> object:
    """Several values; a single one may be given by itself."""
    return [given] if isinstance(given, str) else given


class ApproveRule(Section):
    """A rule on calls of tools."""

    decision: Literal["ask", "allow", "refuse"]
    tool: Name = "*"
    match: list[Text] = []
    options: list[Text] = []
    path: str = ""
    host: str = ""
    phase: Annotated[str, AfterValidator(_phase_or_any)] = ""
    agent: str = ""
    needs: Annotated[list[Literal["network", "write_git"]], BeforeValidator(_listed)] = []
    examples: dict[Literal["match", "not"], list[Call]] = {}

    @model_validator(mode="after")
    def _says_something(self) -> "ApproveRule":
        if self.decision == "allow" and (self.path or self.host) and self.tool == "*":
            raise ValueError("a rule that allows a path or a host must name the `tool`")
        if OPERANDS in self.match[:-1] or self.match == [OPERANDS]:
            raise ValueError("`*` in `match` stands for further words, so it must be the last of several")
        if self.options and (self.decision != "allow" or not self.match):
            raise ValueError("`options` belong to a rule that allows the words of a `match`")
        if not all(option.startswith("-") for option in self.options):
            raise ValueError('`options` begin with a hyphen, such as "--force" or "--depth=*"')
        return self

    def to_core(self, number: int) -> ApprovalRule:
        """The core's rule, named by its place in the file."""
        wants = f"with {' and '.join(self.needs)}" if self.needs else ""
        about = " ".join(word for word in [self.tool, *self.match, self.path, self.host, wants] if word)
        return ApprovalRule(
            decision=Verdict(self.decision),
            name=f"rule {number} of [[approve]] ({self.decision} {about})",
            tool=self.tool,
            match=tuple(self.match),
            options=tuple(self.options),
            path=self.path,
            host=self.host,
            phase=self.phase,
            agent=self.agent,
            needs=frozenset(self.needs),
            examples=tuple(
                Example(arguments={COMMAND: call} if isinstance(call, str) else call, matches=kind == "match")
                for kind, calls in self.examples.items()
                for call in calls
            ),
        )


class ExpectedTime(_section_of(Expectation)):  # type: ignore[misc] # made of the core's fields
    """How long an agent may work in a phase."""

    @model_validator(mode="after")
    def _warns_first(self) -> "ExpectedTime":
        if self.warn_after > self.close_after:
            raise ValueError(
                f"warn_after ({self.warn_after:g}) must not be later than close_after ({self.close_after:g})"
            )
        return self

    def to_core(self) -> Expectation:
        """The core's expectation."""
        return Expectation(**_core_values(self))


class Expectations(_by_phase(ExpectedTime, default=(ExpectedTime, ExpectedTime()))):  # type: ignore[misc] # as above
    """`default`, and the phases that differ from it."""


class LimitSettings(_section_of(Limits, "expectations", "default_expectation")):  # type: ignore[misc] # as above
    """What a conversation may use before it asks a user."""

    expectations: Expectations = Expectations()

    def to_core(self) -> Limits:
        """The core's limits."""
        own = {phase: getattr(self.expectations, phase.value) for phase in Phase}
        return Limits(
            **_core_values(self, "expectations"),
            expectations={phase: given.to_core() for phase, given in own.items() if given is not None},
            default_expectation=self.expectations.default.to_core(),
        )


class Shell(Section):
    """How agents' commands run."""

    sandbox: Literal["auto", "none", "off"] = "auto"
    network: bool = False
    network_environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], Text] = {}
    timeout: Annotated[float, Field(gt=0, le=3600)] = 120


class AgentTools(Section):
    """Tools of one agent."""

    add: list[Name] = []


class CommandTool(Section):
    """A command that agents call as a tool; `tools.command_template` reads the arguments of `run`."""

    run: Annotated[list[Text], Field(min_length=1, max_length=100)]
    description: Text
    access: Literal["read", "run"]
    approve: Literal["auto", "ask", "never"] = "auto"
    timeout: Annotated[float, Field(gt=0, le=3600)] | None = None


class ToolSettings(Section):
    """Which tools are offered."""

    add: list[Name] = []
    check: Literal["auto", "on", "off"] = "auto"
    checkpoints: bool = True
    disk_reserve_mb: Annotated[int, Field(ge=0, le=1_000_000)] = 1_024
    shell: Shell = Shell()
    agents: dict[str, AgentTools] = {}
    commands: dict[str, CommandTool] = {}

    def added(self, slug: str) -> tuple[str, ...]:
        """The tools that an agent has besides those that its file names."""
        own = self.agents.get(slug)
        return tuple(dict.fromkeys([*self.add, *(own.add if own is not None else ())]))


class Plugins(Section):
    """Installed packages whose code may run."""

    allow: list[Name] = []


def _steps(given: object) -> object:
    """The steps of a command; a single one may be given by itself."""
    if isinstance(given, (list, tuple)) and given and all(isinstance(word, str) for word in given):
        given = [given]
    is_right = isinstance(given, (list, tuple)) and all(
        isinstance(step, (list, tuple)) and step and all(isinstance(word, str) and word for word in step)
        for step in given
    )
    if not is_right or not isinstance(given, (list, tuple)):
        raise ValueError('must be a list of arguments, ["make", "test"], or a list of such lists')
    if any("\0" in word for step in given for word in step):
        raise ValueError("must not hold a NUL character")
    return [list(step) for step in given]


Steps = Annotated[list[list[str]], PlainValidator(_steps)]
"""A command as a list of arguments, or several that run one after the other."""


Commits = Literal["never", "ask", "auto"]
"""Whether agents commit in the project's repository: not at all, where a person allows it, or by themselves."""


_COMMITTING: Final = {"add": ("-A", "--all", "-u", "-v"), "commit": ("-a", "--all", "-m", "--message=*", "-q", "-v")}
"""What `workspace.commit = "auto"` allows, with its options besides those that change nothing."""


class WorkspaceSettings(Section):
    """The project that agents work on: how its environment is made, and programs it needs."""

    setup: Steps = []
    setup_network: bool = False
    setup_timeout: Seconds = 1_800
    path: list[Text] = []
    commit: Commits = "never"

    def commit_rules(self) -> tuple[ApprovalRule, ...]:
        """What `commit = "auto"` allows without a question: `git add` and `git commit` in a shell."""
        if self.commit != "auto":
            return ()
        return tuple(
            ApprovalRule(
                decision=Verdict.ALLOW,
                name='workspace.commit = "auto"',
                tool="shell",
                match=("git", verb, "*"),
                options=options,
                needs=frozenset({"write_git"}),
            )
            for verb, options in _COMMITTING.items()
        )


def _shell_line(text: str) -> str:
    text = text.strip()
    if not all(char.isprintable() or char == "\t" for char in text):
        raise ValueError("must be one line of plain text; join several commands with &&")
    return text


class CheckSettings(Section):
    """A check of the project; one that runs nothing switches off what the project's files name."""

    run: Annotated[str, AfterValidator(_shell_line)]
    timeout: Annotated[float, Field(ge=1, le=86_400)] = 1_800
    when: Annotated[list[Text], Field(max_length=100)] = []
    tests: bool | None = None
    """Whether it runs tests; unless given, whether its name says so."""


def _check_names(checks: dict[str, CheckSettings]) -> dict[str, CheckSettings]:
    wrong = [name for name in checks if not _CHECK_NAME.fullmatch(name)]
    if wrong:
        raise ValueError(
            f"{wrong[0]!r} is no name for a check; use lower-case letters, digits, `-` and `_`, 32 at most, "
            "a letter first"
        )
    return checks


class McpServer(Section):
    """How one MCP server is started or reached, and what its tools may do."""

    command: Text | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: Text | None = None
    type: Text | None = None
    url: Text | None = None
    headers: dict[str, str] = {}
    trust: bool = False
    sandbox: bool = True
    network: bool = False
    folders: list[Text] = []
    tools: list[Text] = []
    replay: dict[str, Literal["once", "idempotent", "read"]] = {}
    timeout: Annotated[float, Field(gt=0, le=3600)] = 60


class Mcp(Section):
    """The MCP servers whose tools agents may have."""

    servers_file: Text | None = None
    servers: dict[str, McpServer] = {}


class Metrics(Section):
    """Where health and metrics are served."""

    host: Text = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    hosts: list[Text] = []


class Web(Section):
    """The pages of `tenex web`."""

    enabled: bool = False
    listen: Text = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65_535)] = WEB_PORT
    certificate: str = ""
    key: str = ""
    hosts: list[Text] = []
    answers: Literal["auto", "on", "off"] = "auto"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return ip_address(self.listen).is_loopback

    @model_validator(mode="after")
    def _is_safe(self) -> "Web":
        try:
            address = ip_address(self.listen)
        except ValueError:
            raise ValueError('`listen` has to be an address of this machine, such as "192.168.1.20"') from None
        if bool(self.certificate) != bool(self.key):
            raise ValueError("`certificate` and `key` have to be given together")
        if not address.is_loopback and not self.certificate:
            raise ValueError(
                "`listen` is an address that others can reach, so it needs `certificate` and `key`; or leave it at "
                '"127.0.0.1" behind a reverse proxy'
            )
        if address.is_unspecified and not self.hosts:
            raise ValueError("`listen` is every address, so `hosts` has to name this machine as browsers will")
        return self


class Traces(Section):
    """Where OpenTelemetry spans go."""

    endpoint: Annotated[str, AfterValidator(_http_url)] | None = None
    content: bool = False


class Files(Section):
    """Where files for people are uploaded, and which are not."""

    servers: Annotated[list[Annotated[str, AfterValidator(_file_server)]], Field(max_length=3)] = []
    max_bytes: Annotated[int, Field(ge=1_000, le=100_000_000)] = 20_000_000
    never: list[Text] = [
        *(".env", ".env.*", "*.pem", "*.key", "*.p12", "*.kdbx", "id_*", ".netrc", ".ssh", ".gnupg"),
        *(".npmrc", ".yarnrc.yml", ".pypirc", ".git-credentials", ".aws"),
        *("**/.cargo/credentials*", "**/.docker/config.json", "**/.m2/settings.xml"),
    ]


class WebSearch(Section):
    """Where the tool `web_search` looks."""

    kind: Literal["", "searxng", "brave", "template"] = ""
    url: str = ""
    key_env: str = ""
    key_header: str = ""
    results: str = ""
    title: str = "title"
    link: str = "url"
    snippet: str = "content"
    count: Annotated[int, Field(ge=1, le=20)] = 8

    @model_validator(mode="after")
    def _is_complete(self) -> "WebSearch":
        if self.url:
            _http_url(self.url)
        if self.kind == "searxng" and not self.url:
            raise ValueError('needs `url`, the address of SearXNG, such as "http://127.0.0.1:8888"')
        if self.kind == "brave" and not self.key_env:
            raise ValueError('needs `key_env`, the name of the variable with the key, such as "BRAVE_API_KEY"')
        if self.kind == "template" and "{query}" not in self.url:
            raise ValueError("needs `url` with {query} in the place of the words")
        if self.key_header and "{key}" not in self.key_header:
            raise ValueError('`key_header` needs {key} in the place of the key, such as "Authorization: Bearer {key}"')
        return self


class Log(Section):
    """What is logged to stderr, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"


class Paths(Section):
    """Folders; relative ones are below the data folder."""

    conversations: Text = "conversations"
    workspace: Text = "workspace"
    keys: Text = "keys"
    agents: Text = "agents"
    tools: Text = "tools"
    skills: Text = "skills"
    workflows: Text = "config/workflows"
    checkpoints: Text = "checkpoints"
    socket: Text = "tenex.sock"


class Shutdown(Section):
    """How the daemon stops."""

    deadline: Seconds = 8


FEATURES_OF: Final = {"files": "file_uploads", "metrics": "metrics", "traces": "traces", "web_search": "web_access"}
"""The sections of features, each with the feature's name, which is said where a program is without it."""


class Settings(BaseSettings):
    """All settings. `loading.load` reads them; constructed directly they are the defaults, and nothing is read."""

    model_config = SettingsConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        env_prefix="TENEX_",
        env_nested_delimiter="__",
        env_ignore_empty=True,  # compose files pass unset variables on as empty ones
    )

    workflows: list[Text] = []
    store: Annotated[str, AfterValidator(_store)] = ""
    relays: Relays = Relays()
    people: People = People()
    rooms: RoomSettings = RoomSettings()
    project: Project = Project()
    conversations: ConversationSettings = ConversationSettings()
    models: Models = Models()
    gates: Gates = Gates()
    approvals: Approvals = Approvals()
    approve: list[ApproveRule] = []
    limits: LimitSettings = LimitSettings()
    tools: ToolSettings = ToolSettings()
    plugins: Plugins = Plugins()
    workspace: WorkspaceSettings = WorkspaceSettings()
    checks: Annotated[dict[str, CheckSettings], AfterValidator(_check_names)] = {}
    mcp: Mcp = Mcp()
    files: Files = Files()
    log: Log = Log()
    metrics: Metrics = Metrics()
    traces: Traces = Traces()
    web: Web = Web()
    web_search: WebSearch = WebSearch()
    paths: Paths = Paths()
    shutdown: Shutdown = Shutdown()

    _data: Path = PrivateAttr(default_factory=Path)
    _file: Path | None = PrivateAttr(default=None)
    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _overrides: Mapping[str, Any] = PrivateAttr(default_factory=dict)
    _trust: Trust | None = PrivateAttr(default=None)
    _features: Mapping[str, Mapping[str, str]] | None = PrivateAttr(default=None)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only the given values: `loading` merges the sources itself, to know where each value came from."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    def peer_group(self, parse_key: Callable[[str], PublicKey]) -> PeerGroup:
        """Who may talk here, by public key.

        Raises:
            ConfigurationError: a key cannot be read, or no one may talk here.
        """
        source = str(self._file or self._data)
        found, wrong = parse_people(self.people.model_dump(), parse_key)
        faults = [f"{source}: {name}: {fault}" for name, fault in wrong.items()]
        if not faults and not any(found.values()) and not self.people.open:
            faults.append(f"{source}: people.owners: {NO_USERS}; list your npub, or run `tenex init`")
        if faults:
            raise ConfigurationError(faults)
        return PeerGroup(
            owners=frozenset(found["owners"]),
            members=frozenset(found["members"] - found["owners"]),
            is_open=self.people.open,
            guest_work=self.people.proof_of_work,
        )

    def notifications(self) -> NotificationRules:
        """What users are notified of."""
        hours = None
        if self.people.quiet_hours:
            begin, end = map(_minutes, self.people.quiet_hours.split("-"))
            hours = QuietHours(begin=begin, end=end, offset=_offset(self.people.time_zone))
        return NotificationRules(verbosity=Verbosity(self.relays.verbosity), quiet_hours=hours)

    @property
    def data(self) -> Path:
        """The data folder these settings are for."""
        return self._data

    @property
    def file(self) -> Path | None:
        """The file that was read; None without one."""
        return self._file

    @property
    def origins(self) -> Mapping[str, str]:
        """Where each value that was set came from, by dotted name: a file, a variable or `command line`."""
        return self._origins

    @property
    def feature_tools(self) -> Mapping[str, str]:
        """The tools of the program's features by name, each with the function that makes it, as `module:name`."""
        return {name: function for tools in (self._features or {}).values() for name, function in tools.items()}

    @property
    def trust(self) -> Trust | None:
        """The trust that the data folder needs, each time it is read; None where it is used as it is."""
        return self._trust
