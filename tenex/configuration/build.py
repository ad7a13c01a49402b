"""What a reload may replace, built and checked as a whole: users, agents, rules, tools, prompts, models.

settings + what stays -> a Configuration, or every fault at once
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tenex.core.config import Agent, AgentKind, ApprovalPolicy, PeerGroup, Policy
from tenex.core.conversation import Conversation
from tenex.core.errors import ConfigurationError
from tenex.core.ids import PublicKey, Slug
from tenex.core.people.trust import may_reach
from tenex.core.phases import Phase
from tenex.core.ports import Checks, FileSender, KindRunner, Model
from tenex.llm.scripted import Pace
from tenex.nostr.keys import Key, KeyRing, RemoteKey, npub, parse_project_address, parse_public_key
from tenex.nostr.profiles import Identity
from tenex.nostr.rooms import Answers, RoomRules
from tenex.nostr.threading.base import Tag
from tenex.output_states.model import OnProgress
from tenex.prompting import PromptLibrary
from tenex.prompting.agents import AcpProgram
from tenex.prompting.prompter import ConversationPrompter
from tenex.runtime.notices import Notices
from tenex.settings import ProjectPaths, Settings, check_paths, reload_settings
from tenex.store.daemon_journal import DaemonJournal
from tenex.tools.background import BackgroundCommands
from tenex.tools.changing import ToolSource
from tenex.tools.check_runner import CheckRunner
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.dependencies import ToolDependencies
from tenex.tools.inbox import Inboxes
from tenex.tools.overview import overview, workspace_notes
from tenex.tools.process import DiskReserve
from tenex.tools.project_checks import TESTS, ProjectCheck, checks_of
from tenex.tools.project_environment import ProjectEnvironment
from tenex.tools.registry import ToolRegistry
from tenex.tools.sandbox import RunPolicy
from tenex.tools.sent_files import Keep, SentFiles
from tenex.tools.serialized_calls import Transactions
from tenex.tools.shadow_git import CheckpointFailed, has_git
from tenex.tools.shell_runner import Programs, ShellRules
from tenex.tools.standard import standard_tools
from tenex.tools.stores import PastMessages
from tenex.tools.tool import Tool
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace
from tenex.workflows.kit.loading import changed_since
from tenex.workflows.missions import config as missions_config
from tenex.workflows.missions.config import missions_of
from tenex.workflows.missions.definitions import MissionWorkflow
from tenex.workflows.missions.runner import Ask, NodeRunner
from tenex.workflows.speakers import config as speakers_config
from tenex.workflows.speakers.config import rules_of
from tenex.workflows.speakers.rules import compiler
from tenex.workflows.speakers.workflow import Workflow

from .agents import PROJECT, disabled_agents, keys_of, load_agents, only_agent, project_key
from .attestations import read_attestations
from .chosen_models import choices, configured_models, with_chosen
from .models import build_model_client, is_offline, sees_pictures, unusable_models
from .own_tools import Loaded, OwnTools, find_own_tools
from .workflows import TAKES_PART, disabled, load_workflows, log_findings, references

MOST_OWNERS = 3
"""Owners whom a profile names: more would fill it."""

AT_START = ("store", "relays", "log", "metrics", "traces", "web", "paths", "shutdown")
"""Sections and settings that are read once: sockets, files, logs and the database are opened by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticContext:
    """What stays for the life of the process."""

    places: ProjectPaths
    ring: KeyRing
    book: DaemonJournal
    workspace: Workspace
    has_sandbox: bool
    """Bubblewrap works on this machine."""
    past_messages: PastMessages | None = None
    """What agents may search; None in a preview."""
    model: Model | None = None
    """In place of the configured ones; not trusted like the offline model."""
    pace: Pace | None = None
    on_progress: OnProgress = lambda _: None
    """Receives what agents write by states, private or not."""
    ask: Ask | None = None
    """Asks an agent or a workflow by its name, for nodes of missions."""
    notices: Notices = field(default_factory=Notices)
    """What chats were sent of answers that do not count."""
    background: BackgroundCommands = field(default_factory=BackgroundCommands)
    """Programs of agents that go on after their calls."""
    views: TurnViews | None = None
    """What programs of agents write to in phases that permit no changes; None in a preview."""
    mcp_tools: ToolSource | None = None
    """The tools of MCP servers; None in a preview, which starts none."""
    file_sender: FileSender | None = None
    """Uploads files for people; None in a preview."""
    keep_file: Keep | None = None
    """Keeps files for people that no server took; None in a preview."""
    about_room: Callable[[Mapping[str, Any]], str] = lambda _: ""
    """Describes the room of a conversation by its address; "" outside of rooms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Everything that follows from settings, prompts, agents and keys as they are now."""

    settings: Settings
    keys: Mapping[str, Key]
    people: PeerGroup
    policy: Policy
    tools: ToolRegistry
    own_tools: Loaded
    prompter: ConversationPrompter
    model: Model
    missions: KindRunner
    parts: ToolDependencies
    """What the tools are made of."""
    programs: Mapping[Slug, AcpProgram] = field(default_factory=dict)
    """The agents that are programs of others."""
    checks: Checks | None = None
    """None in a preview, in which nothing is run."""
    project_event: str = ""
    """The address of the project's event (`31933:<key>:<d>`); "" where there is none."""
    attestations: Mapping[PublicKey, tuple[str, ...]] = field(default_factory=dict)
    """The tags by which an owner has attested our keys (NIP-OA)."""
    models: tuple[str, ...] = ()
    """The models that an owner may choose for an agent."""
    configured_models: Mapping[Slug, tuple[str, ...]] = field(default_factory=dict)
    """What settings and files name for each agent, whatever an owner has chosen."""

    @property
    def project(self) -> Key:
        """The key people write to."""
        return self.keys[PROJECT]

    @property
    def everybody(self) -> frozenset[PublicKey]:
        """Owners and members."""
        return self.people.owners | self.people.members

    @property
    def slugs(self) -> dict[str, PublicKey]:
        """The agents' and workflows' keys by the name people may call them."""
        keys: dict[str, PublicKey] = {slug: agent.pubkey for slug, agent in self.policy.roster.items()}
        disabled = (*self.policy.disabled, *self.policy.disabled_agents)
        keys |= {slug: self.keys[slug].public for slug in disabled if slug in self.keys}
        return keys | {
            slug: beginner.pubkey for slug, beginner in self.policy.begun_by_mention.items() if beginner.pubkey
        }

    @property
    def named(self) -> dict[PublicKey, Slug]:
        """Which key is which agent or workflow."""
        return {key: Slug(slug) for slug, key in self.slugs.items()}

    @property
    def workflows(self) -> frozenset[PublicKey]:
        """The keys of what a mention begins, disabled ones too."""
        slugs = (*self.policy.begun_by_mention, *self.policy.disabled)
        return frozenset(self.keys[slug].public for slug in slugs if slug in self.keys)

    @property
    def offers(self) -> dict[str, Any]:
        """Whom a new message may go to by name, and the models that an owner may choose for agents, for reports."""
        agents = self.policy.routable.values()
        models = self.settings.models
        in_use = {
            one.slug: list(dict.fromkeys(models.for_agent(one.slug, phase, one.model)[0] for phase in Phase))
            for one in agents
        }
        return {
            "agents": {one.slug: one.name for one in agents},
            "workflows": {slug: one.about or one.name for slug, one in self.policy.begun_by_mention.items()},
            "models": list(self.models),
            "modelsInUse": in_use,
        }

    @property
    def identities(self) -> list[Identity]:
        """The project, its agents and its workflows, as people are to see them."""
        project = self.settings.project
        others = [
            *((one.pubkey, one.name, _about("agent", one.role)) for one in self.policy.roster.values()),
            *(
                (beginner.pubkey, beginner.name, _about(beginner.noun, beginner.about))
                for beginner in self.policy.begun_by_mention.values()
                if beginner.pubkey
            ),
        ]
        owners = ", ".join(f"nostr:{npub(key)}" for key in sorted(self.people.owners)[:MOST_OWNERS])
        whose = f"the project {project.name}" + (f" of {owners}" if owners else "")
        remote = {key.public for key in self.keys.values() if isinstance(key, RemoteKey)}
        ours = Identity(
            pubkey=self.policy.project.pubkey,
            name=project.name,
            about=project.about,
            agents=tuple((key, name) for key, name, _ in others),
            attestation=self.attestations.get(self.policy.project.pubkey, ()),
            reads_direct=self.policy.project.pubkey not in remote,
        )
        return [
            ours,
            *(
                Identity(
                    pubkey=key,
                    name=name,
                    about=about.format(whose=whose),
                    attestation=self.attestations.get(key, ()),
                    reads_direct=key not in remote,
                )
                for key, name, about in others
            ),
        ]


def _about(what: str, words: str) -> str:
    """A sentence on one of our keys, with a place for whose it is."""
    plain = words.strip().rstrip(".").replace("{", "{{").replace("}", "}}")
    does = f", which {plain}" if what == "agent" and plain else ""
    said = f" {plain}." if plain and not does else ""
    return f"{'An agent' if what == 'agent' else f'A {what}'} of {{whose}}{does}.{said} It is a program, not a person."


def configure(settings: Settings, ground: StaticContext) -> Configuration:
    """Build a configuration; a new agent gets a key, and one with a fault is disabled.

    Raises:
        ConfigurationError: with all faults of settings, prompts, the orchestrator, models and the project's key.
    """
    check_paths(settings)
    people = settings.peer_group(parse_public_key)
    project_event = project_event_of(settings)
    methods: dict[Slug, tuple[Tool, ...]] = {}
    own = find_own_tools(settings, ground.places)
    library = load_agents(ground.places, methods, own)
    configured = settings
    settings = with_chosen(settings, library, ground.book.models())
    model = ground.model or build_model_client(settings, ground.places, library, ground.pace, ground.on_progress)
    library = library.without(unusable_models(model, library))
    project_secret = project_key(ground.ring)
    agent_keys, faults = keys_of(ground.ring, [agent.slug for agent in library.roster], "agent")
    library = library.without(faults)
    disabled_slugs, disabled_keys = disabled_agents(ground.ring, library)
    read = load_workflows(settings, ground.places, [agent.slug for agent in library.roster], library.faults)
    workflow_keys, faults = keys_of(ground.ring, [one.slug for one in read.found], "workflow")
    read = read.without(lambda one: faults.get(one.slug, ()))
    log_findings(read)
    found = read.found
    unusable = disabled(read, [*library.definitions, *disabled_slugs])
    more_keys, _ = keys_of(ground.ring, unusable, "workflow")
    keys = {PROJECT: project_secret, **agent_keys, **workflow_keys, **disabled_keys, **more_keys}
    speakers = {one.slug: one.workflow for one in found if isinstance(one.workflow, Workflow)}
    missions = {one.slug: one.workflow for one in found if isinstance(one.workflow, MissionWorkflow)}
    roster = {definition.slug: definition.agent(keys[definition.slug].public) for definition in library.roster}
    has_rules = is_offline(settings, library)
    only_rules = ground.model is None and has_rules
    check = _check_policy(settings, has_sandbox=ground.has_sandbox, has_rules=has_rules, is_trusted=only_rules)
    methods = {slug: own for slug, own in methods.items() if slug in library.definitions}
    shadow = shadow_of(settings, ground.places, ground.workspace)
    tools, loaded, checks, parts = _tools(
        settings, ground, check, roster.get, methods, shadow, own, library, is_offline=only_rules
    )
    project = replace(
        library.orchestrator.agent(keys[PROJECT].public),
        name=settings.project.name,
        model=settings.models.for_router()[0],
    )
    attestations = read_attestations(ground.places)
    policy = Policy(
        roster={slug: agent for slug, agent in roster.items() if agent.kind is not AgentKind.ORCHESTRATOR},
        tools=tools.rules(),
        project=project,
        only_agent=only_agent(settings, library),
        sees_pictures=sees_pictures(settings, library),
        conversations=settings.conversations.to_core(),
        limits=settings.limits.to_core(),
        gates=settings.gates.to_core(),
        approvals=_approvals(settings, people.owners),
        notifications=settings.notifications(),
        kinds={
            speakers_config.NAME: speakers_config.WorkflowRules(
                workflows={slug: one.configured(slug, keys[slug].public) for slug, one in speakers.items()},
                compile_graph=compiler(),
            ),
            missions_config.NAME: missions_config.MissionRules(
                missions={slug: one.rule(slug, keys[slug].public) for slug, one in missions.items()}
            ),
        },
        disabled=unusable,
        disabled_agents=disabled_slugs,
        cost_owners=_cost_owners(settings, attestations, people.owners),
        # the router's are about its decisions, and recorded without any reflection
        has_lessons=lambda: any(known.agent != project.slug for known in ground.book.all_lessons()),
        notices_in_a_day=ground.notices.in_a_day,
    )
    policy_of_programs = shell_policy(settings, has_sandbox=ground.has_sandbox)
    prompter = ConversationPrompter(
        library,
        policy=lambda: policy,
        tools=tools.specs,
        project_name=settings.project.name,
        budget=settings.models.context_tokens,
        lessons=lambda slug, conversation: [
            f"{known.number}. {known.title}: {known.lesson}"
            for known in ground.book.lessons(slug)
            if (known.agent == slug or slug != policy.project.slug)  # the router's are about decisions
            and (settings.people.share_lessons or may_reach(known.role, conversation))
        ],
        workspace_notes=lambda: workspace_notes(ground.places.workspace),
        workspace_files=lambda runs: overview(
            ground.places.workspace,
            runs=runs,
            checks=applying_checks(settings, ground.places, policy_of_programs) if runs else (),
            path=program_folders(settings),
        ),
        changes=partial(_changes_of, shadow),
        skills=own.skill_lines(),
        room=lambda conversation: ground.about_room(conversation.identity.address),
    )
    return Configuration(
        settings=settings,
        project_event=project_event,
        attestations=attestations,
        models=choices(configured, library),
        configured_models={slug: configured_models(configured, library, slug) for slug in library.definitions},
        keys=keys,
        people=people,
        policy=policy,
        tools=tools,
        own_tools=loaded,
        prompter=prompter,
        model=model,
        missions=NodeRunner(
            {slug: (one.graph, one.make_deps(ground.places.workspace)) for slug, one in missions.items()}, ground.ask
        ),
        checks=checks,
        parts=parts,
        programs={slug: one.acp for slug, one in library.definitions.items() if one.acp is not None},
    )


def project_event_of(settings: Settings) -> str:
    """The address of the project's event, as an `a` tag has it; "" where the settings name none.

    Raises:
        ConfigurationError: it is no address of a project.
    """
    try:
        return parse_project_address(settings.project.event) if settings.project.event else ""
    except ValueError as error:
        raise ConfigurationError([f"{settings.file or settings.data}: project.event: {error}"]) from error


def reconfigure(known: Configuration, ground: StaticContext) -> tuple[Configuration, list[str]]:
    """Read settings and agents again, from where they came; what only a start can change stays as it is.

    Returns the new configuration, and a sentence for each change that needs a restart.

    Raises:
        ConfigurationError: with all faults, also of a workflow that could be used until now.
    """
    settings, kept = reload_settings(known.settings, keep=AT_START, parse_key=parse_public_key)
    stale = [
        f"workflows: the package {name} has changed; that takes effect after a restart."
        for name in changed_since(references(settings))
    ]
    stale += [
        f"plugins: the package {name} has changed; that takes effect after a restart."
        for name in changed_since(known.own_tools.own.plugins.references())
    ]
    found = configure(settings, ground)
    if found.project.public != known.project.public:  # people write to the old address, and relays know it
        npub_now = found.project.npub
        raise ConfigurationError([f"the project's key is another one now, {npub_now}; restart the daemon to use it"])
    usable = {*rules_of(known.policy).workflows, *missions_of(known.policy)}
    lost = [fault for slug, faults in found.policy.disabled.items() if slug in usable for fault in faults]
    if lost := [fault for fault in lost if TAKES_PART not in fault]:  # of a faulty agent only what needs it is disabled
        raise ConfigurationError(lost)  # what is under way would stop
    return found, [*(f"[{name}] has changed; that takes effect after a restart." for name in kept), *stale]


def _approvals(settings: Settings, owners: frozenset[PublicKey]) -> ApprovalPolicy:
    approvals = settings.approvals.to_core(settings.approve, owners)
    return replace(approvals, rules=(*approvals.rules, *settings.workspace.commit_rules()))


def check_people(settings: Settings, ring: KeyRing) -> None:
    """See that somebody may talk here, and that there is an address to write to, before anything is made.

    Raises:
        ConfigurationError: no user may, or there is none.
    """
    if settings.data.exists() and not settings.data.is_dir():
        raise ConfigurationError(
            [f"{settings.data}: cannot be made a data folder, it is a file; name another by --data"]
        )
    faults: list[str] = []
    try:
        settings.peer_group(parse_public_key)
    except ConfigurationError as error:
        faults.extend(error.faults)
    if PROJECT not in ring.names():  # whether one that is there can be used is reported later, together with the others
        try:
            ring.read(PROJECT)
        except ConfigurationError as error:
            faults.extend(error.faults)
    if faults:
        raise ConfigurationError(faults)


def _tools(
    settings: Settings,
    ground: StaticContext,
    check: RunPolicy,
    find_agent: Callable[[Slug], Agent | None],
    methods: Mapping[Slug, tuple[Tool, ...]],
    shadow: Checkpoints | None,
    own: OwnTools,
    library: PromptLibrary,
    *,
    is_offline: bool,
) -> tuple[ToolRegistry, Loaded, CheckRunner | None, ToolDependencies]:
    given = settings.tools
    turns = Transactions(ground.workspace, shadow, ground.background, ground.views)
    where = ground.places
    reserve = disk_reserve(settings, where)
    shell = ShellRules(
        policy=shell_policy(settings, has_sandbox=ground.has_sandbox),
        network=given.shell.network,
        network_environment=given.shell.network_environment,
        commits=settings.workspace.commit != "never",
        timeout=given.shell.timeout,
        reserve=reserve,
        path=program_folders(settings),
        packages=where.packages,
        folders=own.skills.folders,
    )
    parts = ToolDependencies(
        workspace=ground.workspace,
        lessons=ground.book,
        past_messages=ground.past_messages,
        check=check,
        shell=shell,
        has_sandbox=ground.has_sandbox,
        transactions=turns,
        views=ground.views,
        commits=settings.workspace.commit != "never",
        commit_asks=settings.workspace.commit == "ask",
        check_asks=check is RunPolicy.UNSANDBOXED and not is_offline,
        skills=own.skills,
        background=ground.background,
        sent_files=sent_files(settings, ground),
        inboxes=Inboxes(where.conversations),
    )
    loaded = own.load(library, ground.workspace, shell.policy, parts.programs)
    tools = [*standard_tools(parts), *loaded.tools]
    registry = ToolRegistry(tools, find_agent, turns, methods=methods, source=ground.mcp_tools)
    if ground.views is None:
        return registry, loaded, None, parts
    checks = CheckRunner(
        parts.programs or Programs(ground.workspace, shell, ground.views),  # it looks where it may run nothing, too
        shadow,
        ground.views,
        lambda earlier: applying_checks(settings, where, shell.policy, earlier),
        lambda conversation: where.check_logs / conversation,
    )
    return registry, loaded, checks, parts


def room_rules(settings: Settings) -> RoomRules:
    """Which rooms are read, who may write there, and where answers go, as the settings say."""
    rooms = settings.rooms
    return RoomRules(
        only=frozenset(rooms.only),
        members_may_write=rooms.writers == "members",
        answers=Answers(rooms.answers),
    )


def _cost_owners(
    settings: Settings, attestations: Mapping[PublicKey, Tag], owners: Collection[PublicKey]
) -> dict[PublicKey, PublicKey]:
    """Who is informed of the costs of a key of ours: who has attested it, while they are an owner."""
    if not settings.rooms.costs:
        return {}
    attested = {key: PublicKey(tag[1]) for key, tag in attestations.items()}
    return {key: owner for key, owner in attested.items() if owner in owners}


def sent_files(settings: Settings, ground: StaticContext) -> SentFiles:
    """What sends files to people, as the settings permit it."""
    return SentFiles(
        ground.file_sender, most=settings.files.max_bytes, never=settings.files.never, keep=ground.keep_file
    )


def _changes_of(shadow: Checkpoints | None, conversation: Conversation, belongs: Mapping[str, str]) -> str:
    """What a turn or a cycle changed, as a patch; empty where that is not known within a moment: the loop waits."""
    try:
        found = shadow.diff_of(conversation.id, belongs, conversation.cycle.touched, patience=0.5) if shadow else ""
    except CheckpointFailed:
        return ""
    return found


def shadow_of(settings: Settings, where: ProjectPaths, workspace: Workspace) -> Checkpoints | None:
    """The checkpoints of the workspace; None where they are off, or git is missing."""
    return (
        Checkpoints(where.checkpoints, workspace.root, workspace.umask)
        if settings.tools.checkpoints and has_git(workspace.root)
        else None
    )


def set_checks(settings: Settings) -> tuple[ProjectCheck, ...]:
    """The checks of the project that the operator has set; one that runs nothing is switched off."""
    return tuple(
        ProjectCheck(
            name=name,
            run=check.run,
            timeout=check.timeout,
            when=tuple(check.when),
            has_tests=check.tests if check.tests is not None else name in TESTS,
        )
        for name, check in settings.checks.items()
    )


def applying_checks(
    settings: Settings, where: ProjectPaths, policy: RunPolicy, earlier: Mapping[str, bytes | None] | None = None
) -> tuple[ProjectCheck, ...]:
    """The checks that the daemon runs, as the workspace is, or as it was with what files held `earlier`; blocks.

    Without a sandbox nothing is run that only files of the workspace name, and where programs are off, nothing at all.
    """
    if policy is RunPolicy.OFF:
        return ()
    with_found = policy is RunPolicy.SANDBOXED
    return checks_of(set_checks(settings), environment_of(settings, where), with_found=with_found, earlier=earlier)


def environment_of(settings: Settings, where: ProjectPaths) -> ProjectEnvironment:
    """What programs find in the workspace."""
    is_sandboxed = settings.tools.shell.sandbox != "none"
    return ProjectEnvironment(where.workspace.resolve(), program_folders(settings), is_sandboxed)


def program_folders(settings: Settings) -> tuple[Path, ...]:
    """Folders of programs and toolchains besides the workspace's and the system's.

    Relative ones are below the data folder, and `~` is the home folder of the daemon's user.
    """
    return tuple(settings.data / Path(folder).expanduser() for folder in settings.workspace.path)


def disk_reserve(settings: Settings, where: ProjectPaths) -> DiskReserve:
    """What stays free on the disks of the workspace and of the data folder."""
    return DiskReserve(
        size=settings.tools.disk_reserve_mb * 1024**2,
        folders={
            "the workspace": where.workspace,
            "the conversations": where.conversations,
            "the checkpoints": where.checkpoints,
        },
    )


def shell_policy(settings: Settings, *, has_sandbox: bool) -> RunPolicy:
    """How commands of agents run; without a sandbox only where the operator set that."""
    match settings.tools.shell.sandbox:
        case "none":
            return RunPolicy.UNSANDBOXED
        case "auto" if has_sandbox:
            return RunPolicy.SANDBOXED
    return RunPolicy.OFF


def _check_policy(settings: Settings, *, has_sandbox: bool, has_rules: bool, is_trusted: bool) -> RunPolicy:
    """Whether `check` may run a program: unless set, for the offline model alone, as other models have `shell`.

    In a sandbox where there is one; without, only what the rules of the settings' model have written.
    """
    is_offered = settings.tools.check == "on" or (settings.tools.check == "auto" and has_rules)
    if not is_offered:
        return RunPolicy.OFF
    if has_sandbox:
        return RunPolicy.SANDBOXED
    return RunPolicy.UNSANDBOXED if is_trusted or settings.tools.check == "on" else RunPolicy.OFF
