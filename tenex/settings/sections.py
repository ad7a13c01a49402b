"""Every setting: its name, its type, its default and its bounds.

`config/tenex.example.toml` says the same to people, and a test keeps the two equal. Times are in seconds here,
because people write them; `values` turns them into the core's milliseconds.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, PrivateAttr, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

EMBEDDED_RELAY_PORT: Final = 7447
"""Where `tenex relay` listens unless told otherwise: away from the 7777 and 8080 of other relays."""
_YEAR = 366 * 24 * 3600


def _relay_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_relay = parts.scheme.lower() in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        is_relay = False
    if not is_relay or any(not char.isprintable() or char.isspace() for char in url):
        raise ValueError("must be the address of a relay, such as wss://relay.example.com")
    if parts.username is not None:
        raise ValueError("must not hold a user or a password: relays know people by their keys")
    return url


def _http_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ValueError("must be an address such as http://127.0.0.1:8080/v1, without a user or a password")
    return url


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _models(given: object) -> object:
    names = given if isinstance(given, list) else [given]
    if not 1 <= len(names) <= 10 or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError('must be the name of a model in quotes, or a list of one to ten: ["a:b", "c:d"]')
    return given


Text = Annotated[str, AfterValidator(_not_blank)]
Seconds = Annotated[float, Field(gt=0, le=_YEAR)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Chain = Annotated[str | list[str], PlainValidator(_models)]
"""A model, or several: the next is asked where one cannot answer."""
Dollars = Annotated[float, Field(ge=0, le=1_000_000)]
Tokens = Annotated[int, Field(ge=0, le=1_000_000_000_000)]
"""A limit of tokens; 0 is none."""


class Section(BaseModel):
    """A table of the file: strict about types, and every name it does not know is a fault."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Relays(Section):
    """Where we listen and speak."""

    urls: Annotated[list[Annotated[str, AfterValidator(_relay_url)]], Field(min_length=1, max_length=100)] = [
        f"ws://127.0.0.1:{EMBEDDED_RELAY_PORT}"
    ]
    typing_indicators: Literal["auto", "on", "off"] = "auto"


class People(Section):
    """Who may do what."""

    owners: list[Text] = []
    members: list[Text] = []
    open: bool = False
    share_lessons: bool = False


class Project(Section):
    """How the project introduces itself on Nostr."""

    name: Text = "tenex"
    about: str = "A team of agents. Write to it, and it works on what you ask for."


class PhaseModels(Section):
    """A model for single phases; none means: whatever is set less specifically."""

    chat: Chain | None = None
    brainstorm: Chain | None = None
    plan: Chain | None = None
    execute: Chain | None = None
    verification: Chain | None = None
    chores: Chain | None = None
    reflection: Chain | None = None


class AgentModels(Section):
    """Models of one agent."""

    model: Chain | None = None
    phases: PhaseModels = PhaseModels()


class Provider(Section):
    """How the models of one provider are reached, and how hard it may be driven."""

    kind: Text | None = None
    base_url: Annotated[str, AfterValidator(_http_url)] | None = None
    api_key_env: Text | None = None
    api_key_file: Text | None = None
    concurrency: Annotated[int, Field(ge=1, le=1_000)] = 8
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    grammar: Literal["none", "gbnf", "structured_outputs", "guided_grammar", "structural_tag", "json_schema"] = "none"


class ModelPrice(Section):
    """What a model costs, in US dollars per million tokens."""

    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None


class Models(Section):
    """Which model works where; the most specific setting wins."""

    default: Chain = "offline"
    router: Chain | None = None
    timeout: Seconds = 300
    stream: bool = True
    context_tokens: Annotated[int, Field(ge=8_000, le=10_000_000)] = 100_000
    max_output_tokens: Annotated[int, Field(ge=256, le=1_000_000)] = 16_000
    phases: PhaseModels = PhaseModels()
    agents: dict[str, AgentModels] = {}
    providers: dict[str, Provider] = {}
    prices: dict[str, ModelPrice] = {}


class Gates(Section):
    """What it takes to pass a phase that guards quality."""

    plan_approval: Literal["router", "person"] = "router"
    members_may_waive: bool = False


class ExpectedTime(Section):
    """How long an agent may work in a phase."""

    warn_after: Seconds = 600
    close_after: Seconds = 1800

    @model_validator(mode="after")
    def _warns_first(self) -> "ExpectedTime":
        if self.warn_after > self.close_after:
            raise ValueError(
                f"warn_after ({self.warn_after:g}) must not be later than close_after ({self.close_after:g})"
            )
        return self


class Expectations(Section):
    """`default`, and phases that differ from it."""

    default: ExpectedTime = ExpectedTime()
    chat: ExpectedTime | None = None
    brainstorm: ExpectedTime | None = None
    plan: ExpectedTime | None = None
    execute: ExpectedTime | None = None
    verification: ExpectedTime | None = None
    chores: ExpectedTime | None = None
    reflection: ExpectedTime | None = None


class LimitSettings(Section):
    """What a conversation may use before it asks a person."""

    turns_per_message: Count = 25
    same_route: Count = 4
    steps_per_run: Count = 50
    link_depth: Annotated[int, Field(ge=1, le=10)] = 3
    nodes_per_mission: Count = 1_000
    steps_per_node: Count = 500
    tokens_per_run: Tokens = 1_000_000
    cost_per_run_usd: Dollars = 10.0
    tokens_per_cycle: Tokens = 2_000_000
    cost_per_cycle_usd: Dollars = 20.0
    tokens_per_conversation: Tokens = 20_000_000
    cost_per_conversation_usd: Dollars = 100.0
    tokens_per_guests_day: Tokens = 2_000_000
    cost_per_guests_day_usd: Dollars = 5.0
    tokens_per_member_day: Tokens = 10_000_000
    cost_per_member_day_usd: Dollars = 20.0
    tokens_per_owner_day: Tokens = 100_000_000
    cost_per_owner_day_usd: Dollars = 200.0
    tokens_per_day: Tokens = 200_000_000
    cost_per_day_usd: Dollars = 300.0
    routing_attempts: Annotated[int, Field(ge=1, le=20)] = 3
    router_warn_after: Seconds = 25
    handoff_window: Annotated[float, Field(ge=0, le=_YEAR)] = 30
    announce_after: Seconds = 1
    retry_delays: Annotated[list[Seconds], Field(max_length=20)] = [1, 4, 16]
    hold_for: Seconds = 300
    expectations: Expectations = Expectations()


class Shell(Section):
    """How commands of agents run."""

    sandbox: Literal["auto", "none", "off"] = "auto"
    network: bool = False
    timeout: Annotated[float, Field(gt=0, le=3600)] = 120


class ToolSettings(Section):
    """Which tools are offered."""

    check: Literal["auto", "on", "off"] = "auto"
    checkpoints: bool = True
    disk_reserve_mb: Annotated[int, Field(ge=0, le=1_000_000)] = 1_024
    shell: Shell = Shell()


class Metrics(Section):
    """Where health and numbers can be asked for."""

    host: Text = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65_535)] | None = None


class Traces(Section):
    """Where OpenTelemetry spans go."""

    endpoint: Annotated[str, AfterValidator(_http_url)] | None = None
    content: bool = False


class Log(Section):
    """What is written to stderr, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"


class Paths(Section):
    """Folders; relative ones lie in the data folder."""

    conversations: Text = "conversations"
    workspace: Text = "workspace"
    keys: Text = "keys"
    agents: Text = "agents"
    workflows: Text = "config/workflows"
    checkpoints: Text = "checkpoints"
    socket: Text = "tenex.sock"


class Shutdown(Section):
    """How the daemon stops."""

    deadline: Seconds = 8


class Settings(BaseSettings):
    """Everything that can be set. Made by `loading.load`; made by hand it holds the defaults and reads nothing."""

    model_config = SettingsConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        env_prefix="TENEX_",
        env_nested_delimiter="__",
        env_ignore_empty=True,  # compose files hand on variables that nobody has set as empty ones
    )

    workflows: list[Text] = []
    relays: Relays = Relays()
    people: People = People()
    project: Project = Project()
    models: Models = Models()
    gates: Gates = Gates()
    limits: LimitSettings = LimitSettings()
    tools: ToolSettings = ToolSettings()
    log: Log = Log()
    metrics: Metrics = Metrics()
    traces: Traces = Traces()
    paths: Paths = Paths()
    shutdown: Shutdown = Shutdown()

    _data: Path = PrivateAttr(default_factory=Path)
    _file: Path | None = PrivateAttr(default=None)
    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _overrides: Mapping[str, Any] = PrivateAttr(default_factory=dict)
    _code_refusal: str = PrivateAttr(default="")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values as given only: `loading` merges the sources itself, to know where each value came from."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @property
    def data(self) -> Path:
        """The data folder these settings are for."""
        return self._data

    @property
    def file(self) -> Path | None:
        """The file that was read; None where there is none and the defaults hold."""
        return self._file

    @property
    def origins(self) -> Mapping[str, str]:
        """Where each value that was set came from: dotted name -> a file, a variable or `command line`."""
        return self._origins

    @property
    def code_refusal(self) -> str:
        """Why code of the data folder may not be run, and what to do; empty where it may."""
        return self._code_refusal
