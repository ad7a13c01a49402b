"""Who works here and under which rules, as configured now.

`Policy` is what `decide` is given besides the conversation. `apply` never sees it: records carry every deadline and
class they need, so that an old journal keeps its meaning when the configuration changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, Protocol

from tenex.core.agent_phases.program import Program
from tenex.core.approvals.rules import ApprovalRule, Verdict
from tenex.core.ids import Millis, PublicKey, Slug
from tenex.core.phases import PHASES, Access, Phase
from tenex.core.text import names
from tenex.core.work.tool_names import FIND_TOOLS, all_of_server, server_of


class LessonSubject(StrEnum):
    """What a lesson is about, and with that who is shown it."""

    AGENT = "agent"
    """The work of the agent that recorded it, who alone is shown it."""
    WORKSPACE = "workspace"
    """The workspace: every agent is shown it."""


class Role(StrEnum):
    """What a user may do here."""

    OWNER = "owner"
    MEMBER = "member"
    GUEST = "guest"
    """Anyone, where the operator has opened the door."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerGroup:
    """Who may talk here, by public key."""

    owners: frozenset[PublicKey] = frozenset()
    members: frozenset[PublicKey] = frozenset()
    is_open: bool = False
    guest_work: int = 0
    """Zero bits that the id of a guest's message has to begin with: proof of work (NIP-13)."""

    def role(self, pubkey: PublicKey) -> Role | None:
        """What someone may do here; None for a stranger before a closed door."""
        if pubkey in self.owners:
            return Role.OWNER
        if pubkey in self.members:
            return Role.MEMBER
        return Role.GUEST if self.is_open else None


class AgentKind(StrEnum):
    """What an agent is for."""

    ORCHESTRATOR = "orchestrator"
    """Routes; never works itself. Speaks with the project's key."""
    WORKER = "worker"
    EXPERT = "expert"
    """Advises; never gets a tool that changes or runs anything."""


class Replay(StrEnum):
    """What may happen to a call whose result was lost."""

    READ = "read"
    """Run again; runs beside other reads."""
    IDEMPOTENT = "idempotent"
    """Run again with the same idempotency key."""
    ONCE = "once"
    """Never run again: its outcome is reported as unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallNeed:
    """What a call has beyond the sandbox where its argument of this name is true; its argument `why` says what for."""

    name: str
    is_to: str
    """What the call wants, such as "use the network", for people and models."""
    changes: bool = False
    """Whether only phases permit it in which programs may change everything in the workspace."""
    refusal: str = ""
    """Why no call gets it, as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    """What the core knows of a tool."""

    name: str
    access: Access
    replay: Replay
    asks: bool = False
    """Whether a person is asked before a call runs, unless a rule of the operator allows it."""
    why: str = ""
    """Why it asks, as what follows “because”, such as `it can reach the network`; of a tool of a server, what follows
    “which”."""
    about: str = ""
    """What a server says that its tool does."""
    definition: str = ""
    """A digest of its name, description and schema: a person who allows its calls allows them as long as it is this."""
    needs: tuple[CallNeed, ...] = ()
    """What a call may ask for beyond that; a person is asked about each such call."""
    phases: frozenset[Phase] = frozenset()
    """The phases in which it may be used, of those that its access permits; all of them unless given."""
    address: str = ""
    """The argument that holds the address it goes to: what is like a call is one to the same host."""
    is_exact: bool = False
    """Whether nothing but the very same call is like a call."""

    def needs_of(self, arguments: Mapping[str, Any]) -> tuple[CallNeed, ...]:
        """What a call with these arguments asks for."""
        return tuple(need for need in self.needs if arguments.get(need.name) is True)

    def refusal(self, arguments: Mapping[str, Any], phase: Phase) -> str:
        """Why a call does not get what it asks for, whoever would allow it; empty if it may."""
        why = arguments.get("why")
        has_reason = isinstance(why, str) and bool(why.strip())
        for need in self.needs_of(arguments):
            if need.refusal:
                return f"Not run. {need.refusal}"
            if need.changes and PHASES[phase].is_confined:
                return f"Not run: in {phase} no command may {need.is_to}. Name what is left to do in your summary."
            if not has_reason:
                return f"Not run: `{need.name}: true` needs `why`, a sentence for the person. Call it again with both."
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A member of the roster."""

    slug: Slug
    name: str
    pubkey: PublicKey
    kind: AgentKind = AgentKind.WORKER
    role: str = ""
    use_when: str = ""
    phases: tuple[Phase, ...] = ()
    """The phases it usually works in, as advice to the router; empty means any."""
    tools: frozenset[str] = frozenset()
    """The tools its definition names, `server__*` for all of an MCP server; what it gets depends on the phase."""
    model: str = ""
    program: Program | None = None
    methods: Mapping[str, ToolRule] = field(default_factory=dict)
    """Tools that only it has, by name: the methods of one written in Python."""
    has_output_states: bool = False
    """Whether it answers by output states, whose grammar permits the tools of the phase and no others."""
    is_program: bool = False
    """Whether it is a program of others, whose steps are calls that it makes by itself: neither their number nor that
    they are alike ends its run."""
    is_called_only: bool = False
    """Whether other agents call it and no one routes to it: a class that another agent's Python file links."""

    def has_tool(self, name: str) -> bool:
        """Whether its definition names a tool, by itself or with all of its MCP server."""
        if name in self.tools:
            return True
        if name == FIND_TOOLS:
            return any(server_of(tool) for tool in self.tools)
        return all_of_server(name) in self.tools


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most that an operator may set: of a number, a time in ms, or the length of a list."""

    least: int
    most: int
    is_time: bool = False
    """Whether the setting of that name is in seconds."""


_YEAR: Final = 366 * 24 * 3600 * 1000

Count = Annotated[int, Bounds(1, 1_000_000_000)]
Tokens = Annotated[int, Bounds(0, 1_000_000_000_000)]
"""0 is no limit."""
Dollars = Annotated[float, Bounds(0, 1_000_000)]
"""0 is no limit."""
Milliseconds = Annotated[int, Bounds(1, _YEAR, is_time=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """How long an agent may work in a phase, in ms; parked time does not count."""

    warn_after: Milliseconds = 10 * 60_000
    close_after: Milliseconds = 30 * 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a conversation may use before it asks a user. Each hit is a record and a message.

    All are settings: `settings.sections` makes `[limits]` of these fields, with their defaults and bounds.
    """

    turns_per_message: Count = 25
    """Turns since a user last spoke: a full cycle with two rounds of repair is 12."""
    same_route: Count = 4
    """The same agents in the same phase, in a row, with nothing changed between."""
    steps_per_run: Count = 50
    link_depth: Annotated[int, Bounds(1, 10)] = 3
    """Sub-agents called by a sub-agent, in a row: an agent that passes work on any further does none of it."""
    nodes_per_mission: Count = 1_000
    """Nodes a mission enters before a user must continue it: five times the rounds of the longest search we know of."""
    steps_per_node: Count = 500
    """Durable steps of one visit of a node: all of them are state, and read again when it goes on."""
    tokens_per_run: Tokens = 1_000_000
    """Input and output of one agent's run."""
    cost_per_run_usd: Dollars = 10.0
    tokens_per_cycle: Tokens = 2_000_000
    cost_per_cycle_usd: Dollars = 20.0
    tokens_per_conversation: Tokens = 20_000_000
    cost_per_conversation_usd: Dollars = 100.0
    tokens_per_guests_day: Tokens = 2_000_000
    """Of all guests together, because anyone can make another key. A day is one of UTC."""
    cost_per_guests_day_usd: Dollars = 5.0
    tokens_per_member_day: Tokens = 10_000_000
    """Of each member."""
    cost_per_member_day_usd: Dollars = 20.0
    tokens_per_owner_day: Tokens = 100_000_000
    """Of each owner."""
    cost_per_owner_day_usd: Dollars = 200.0
    tokens_per_day: Tokens = 200_000_000
    """Of everyone together."""
    cost_per_day_usd: Dollars = 300.0
    routing_attempts: Annotated[int, Bounds(1, 20)] = 3
    router_warn_after: Milliseconds = 25_000
    """Time without a decision after which the user is informed, once: silence for half a minute looks like a crash."""
    handoff_window: Annotated[int, Bounds(0, _YEAR, is_time=True)] = 30_000
    """A transition younger than this is reported to the next agents."""
    retry_delays: Annotated[tuple[Milliseconds, ...], Bounds(0, 20)] = (1_000, 4_000, 16_000)
    """Before each new try of a model call that failed in transport."""
    hold_for: Milliseconds = 300_000
    """After the last try the work is held this long, the user informed once, then tried again."""
    expectations: Mapping[Phase, Expectation] = field(default_factory=dict)
    default_expectation: Expectation = field(default_factory=Expectation)

    def expectation(self, phase: Phase) -> Expectation:
        """The expectation for a phase."""
        return self.expectations.get(phase, self.default_expectation)


Need = Literal["needed", "always", "never"]
"""When agents work in a gate: where there is something to do, after each change, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """How gates may be passed without being met."""

    plan_approval: Literal["router", "person"] = "router"
    members_may_waive: bool = False
    chores: Need = "needed"
    """When agents tidy; else a rule passes the gate, as with `reflection`."""
    reflection: Need = "needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRules:
    """How conversations go on, where that is neither a limit nor about a gate.

    All are settings: `settings.sections` makes `[conversations]` of these fields.
    """

    route_by_rule: bool = True
    """Whether a step that leaves one choice is taken without asking the router's model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginner:
    """What begins a conversation where the first message mentions it, as users see it."""

    pubkey: PublicKey
    """The key that a mention names; "" for none: then users write its name at the beginning of the message."""
    name: str
    noun: str
    """What it is: `workflow`, `mission`."""
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPolicy:
    """Which calls a person has to allow, and who may."""

    rules: tuple[ApprovalRule, ...] = ()
    """The operator's."""
    owners: frozenset[PublicKey] = frozenset()
    """Who is notified."""
    members_may_answer: bool = False
    unattended: bool = False
    """Whether no one is there to be asked: then what asks is refused at once."""
    expire_after: Milliseconds = 24 * 3_600_000
    """Time without an answer after which a call is refused."""
    remind: bool = True
    """Whether a request is sent once more when half of that time is over."""

    @property
    def asks(self) -> bool:
        """Whether a rule asks a person, whatever the tool says."""
        return any(rule.decision is Verdict.ASK for rule in self.rules)


class Verbosity(StrEnum):
    """How much of the work a user is sent."""

    QUIET = "quiet"
    """Answers, questions and what stops the work."""
    NORMAL = "normal"
    """What takes long too, where that does not notify anyone."""
    VERBOSE = "verbose"
    """Everything, also what is otherwise in the conversation's file only."""


_DAY: Final = 24 * 60
"""Minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """The time of each day in which nothing is to wake anyone."""

    begin: int
    """Minutes after midnight, as `end`."""
    end: int
    offset: Callable[[Millis], int]
    """By how many minutes local time is ahead of UTC at a moment."""

    def until(self, now: Millis) -> Millis:
        """When they end; 0 outside of them."""
        minutes = now // 60_000
        here = (minutes + self.offset(now)) % _DAY
        if (here - self.begin) % _DAY >= (self.end - self.begin) % _DAY:
            return Millis(0)
        end = Millis((minutes + (self.end - here) % _DAY) * 60_000)
        return Millis(end + (self.offset(now) - self.offset(end)) * 60_000)  # a clock may change in the night


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRules:
    """What users are notified of, where they have not said otherwise in the conversation."""

    verbosity: Verbosity = Verbosity.NORMAL
    quiet_hours: QuietHours | None = None


class KindRules(Protocol):
    """What is configured of a kind of conversation."""

    @property
    def begun_by_mention(self) -> Mapping[Slug, Beginner]:
        """What begins one, by the name that the first message mentions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything configured that `decide` goes by.

    No field has a default: `configure` in `configuration/build.py` gives each, and a forgotten one starts no daemon.
    """

    roster: Mapping[Slug, Agent]
    tools: Mapping[str, ToolRule]
    project: Agent
    """The orchestrator, who speaks with the project's key."""
    only_agent: Slug
    """The agent that new conversations are with; "" where the orchestrator routes them through the phases."""
    sees_pictures: bool
    """Whether a model can be shown pictures."""
    conversations: ConversationRules
    limits: Limits
    gates: GateRules
    approvals: ApprovalPolicy
    notifications: NotificationRules
    kinds: Mapping[str, KindRules]
    """What is configured of each kind of conversation, by its name."""
    disabled: Mapping[Slug, tuple[str, ...]]
    """What a mention would begin and that cannot be used, each with its faults."""
    disabled_agents: Mapping[Slug, tuple[str, ...]]
    """Agents whose files have faults, each with them."""
    cost_owners: Mapping[PublicKey, PublicKey]
    """Who is informed in rooms of what the answers of a key of ours cost: its owner; empty unless that is wanted."""
    has_lessons: Callable[[], bool] = field(compare=False)
    """Whether agents have recorded a lesson in this project; what is decided by it is recorded, so no replay asks."""
    notices_in_a_day: Callable[[str, Millis], int] = field(compare=False)
    """How many notices of answers that do not count a chat (`trust.chat_of`) was sent in the 24 hours before a time;
    likewise."""

    @property
    def begun_by_mention(self) -> Mapping[Slug, Beginner]:
        """What begins a conversation of its own, by the name that the first message mentions."""
        return {slug: beginner for kind in self.kinds.values() for slug, beginner in kind.begun_by_mention.items()}

    @property
    def callable(self) -> Mapping[Slug, Agent | None]:
        """All that a mention can call, also what is disabled: agents with themselves, everything else with None."""
        others = (*self.begun_by_mention, *self.disabled, *self.disabled_agents)
        return {**dict.fromkeys(others), **self.roster}

    @property
    def routable(self) -> Mapping[Slug, Agent]:
        """Those of the roster who may be given a turn of a conversation."""
        return {slug: agent for slug, agent in self.roster.items() if not agent.is_called_only}

    def may_ask(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a person may be asked about a call: by its tool, by what it needs, or by a rule of the operator."""
        methods = [agent.methods[tool] for agent in self.roster.values() if tool in agent.methods]
        rules = (self.tools.get(tool), *methods)
        known = [rule for rule in rules if rule is not None]
        return self.approvals.asks or any(rule.asks or rule.needs_of(arguments) for rule in known)

    def tools_of(self, agent: Agent) -> Mapping[str, ToolRule]:
        """All tools that an agent may name: everyone's and its own."""
        return {**self.tools, **agent.methods} if agent.methods else self.tools

    def definition_of_server(self, tool: str) -> str:
        """A digest of the definitions of all tools of a tool's server; "" for a tool of no server."""
        server = server_of(tool)
        if not server:
            return ""
        each = sorted(rule.definition for name, rule in self.tools.items() if server_of(name) == server)
        return sha256(" ".join(each).encode()).hexdigest()

    def find(self, written: str) -> Agent | None:
        """The worker or expert who is meant and may be given a turn, however the name is written (`names.find`)."""
        slug = names.find(written, self.routable)
        return None if slug is None else self.roster[slug]


def default_policy(*, roster: Mapping[Slug, Agent], tools: Mapping[str, ToolRule], project: Agent) -> Policy:
    """A policy without settings, for what runs without a daemon: each rule is as it is by default."""
    return Policy(
        roster=roster,
        tools=tools,
        project=project,
        only_agent=Slug(""),
        sees_pictures=False,
        conversations=ConversationRules(),
        limits=Limits(),
        gates=GateRules(),
        approvals=ApprovalPolicy(),
        notifications=NotificationRules(),
        kinds={},
        disabled={},
        disabled_agents={},
        cost_owners={},
        has_lessons=lambda: False,
        notices_in_a_day=lambda _chat, _now: 0,
    )
