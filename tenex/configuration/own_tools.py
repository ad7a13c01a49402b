"""The operator's own tools and skills: files, packages and commands of the settings, and who has them.

One with a fault is left out and named, by the log, `tenex status`, `tenex config check` and `tenex doctor`; everything
else is served.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any, Final

from tenex.core.errors import ConfigurationError
from tenex.core.ids import Slug
from tenex.core.work.tool_names import server_of
from tenex.log import get_logger
from tenex.mcp.config import Configured
from tenex.plugins.kinds import register_kinds
from tenex.plugins.names import RESERVED, fault_of_name
from tenex.plugins.sources import Plugins, find_plugins
from tenex.prompting import PromptLibrary
from tenex.prompting.render import SkillLines
from tenex.settings import ProjectPaths, Settings, suggestion
from tenex.settings.sections import CommandTool
from tenex.tools.command_template import CommandTemplate, Placeholder, command_tool, read_template, why_not_offered
from tenex.tools.project_commands import missing_program
from tenex.tools.project_environment import ProjectEnvironment
from tenex.tools.read_skill import NAME as READ_SKILL
from tenex.tools.sandbox import RunPolicy
from tenex.tools.shell_runner import Programs
from tenex.tools.skills import Skills, find_skills
from tenex.tools.standard import TOOL_NAMES
from tenex.tools.tool import Tool
from tenex.tools.workspace import Workspace

from .mcp import read_mcp, why_no_tool

_BUILT_IN: Final = "a tool of the daemon's"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTools:
    """What there is; the code of a tool is loaded once an agent has it."""

    settings: Settings
    plugins: Plugins
    commands: Mapping[str, CommandTemplate]
    skills: Skills
    faults: tuple[str, ...] = ()
    """What is wrong with commands, each as a sentence that begins with the setting."""

    @property
    def names(self) -> frozenset[str]:
        """Every tool that an agent may name, built in or not; of one that was left out nothing is offered."""
        own = {*self.plugins.names, *self.settings.tools.commands}
        return frozenset({*TOOL_NAMES, *self.settings.feature_tools, *own})

    def added(self, agent: Slug) -> tuple[str, ...]:
        """The tools that an agent has besides those that its file names; those of MCP servers may come later."""
        named = [name for name in self.settings.tools.added(agent) if name in self.names or server_of(name)]
        return (*named, READ_SKILL) if self.skills.found else tuple(named)

    def additions(self) -> Mapping[str, Sequence[str]]:
        """The names that agents have by the settings, by the place where they are written."""
        tools = self.settings.tools
        by_agent = {f"tools.agents.{slug}.add": one.add for slug, one in tools.agents.items()}
        return {"tools.add": tools.add, **by_agent}

    def unknown(self, library: PromptLibrary) -> Iterator[str]:
        """Names in `tools.add` that are no tool, each as a sentence."""
        tools = self.settings.tools
        known = sorted(self.names)
        places = self.additions()
        servers = read_mcp(self.settings) if any(map(server_of, chain(*places.values()))) else Configured()
        for place, names in places.items():
            for name in names:
                if server_of(name):
                    why = why_no_tool(name, servers)
                else:
                    why = "" if name in known else f"there is no tool {name!r}; {suggestion(name, known)}"
                if why:
                    yield f"{place}: {why}"
        agents = [*map(str, library.definitions), *map(str, library.faults)]
        for slug in tools.agents:
            if slug not in agents:
                yield f"tools.agents.{slug}: there is no such agent, so this does nothing; {suggestion(slug, agents)}"

    def unused(self, library: PromptLibrary) -> list[str]:
        """Tools that no agent has, each as a sentence."""
        had = named_tools(library)
        places = {name: source.name for source in self.plugins.sources for name in source.claims}
        places |= {name: f"tools.commands.{name}" for name in self.commands}
        return [
            f"{place}: no agent has the tool {name}; add it to `tools.add`, or to `tools` in an agent's file"
            for name, place in places.items()
            if name not in had
        ]

    def missing_programs(self, project: ProjectEnvironment) -> list[str]:
        """Commands whose program is not there now, each as a sentence: the workspace may still get it."""
        lines = {name: tuple(map(_shown, template.arguments)) for name, template in self.commands.items()}
        missing = {name: missing_program(project, line) for name, line in lines.items()}
        return [
            f"tools.commands.{name}: there is no {program} for it here; install it, or correct `run`"
            for name, program in missing.items()
            if program
        ]

    def feature_tools(self, named: Collection[str]) -> tuple[list[Tool], list[str]]:
        """The tools of features that agents name, and for each that cannot be made why, as a sentence."""
        tools: list[Tool] = []
        faults: list[str] = []
        for name, place in self.settings.feature_tools.items():
            if name not in named:
                continue
            module, _, function = place.partition(":")
            try:
                tools.append(getattr(import_module(module), function)(self.settings))
            except ConfigurationError as error:
                faults += error.faults
        return tools, faults

    def skill_lines(self) -> SkillLines:
        """The skills as prompts list them."""
        return SkillLines(
            tuple(skill.line for skill in self.skills.found if not skill.is_of_workspace),
            tuple(skill.line for skill in self.skills.found if skill.is_of_workspace),
        )

    def load(
        self, library: PromptLibrary, workspace: Workspace, policy: RunPolicy, programs: Programs | None
    ) -> "Loaded":
        """Load the tools that agents of the library have, and kinds of conversation; what is wrong is logged.

        Args:
            library: the agents.
            workspace: what the tools work on.
            policy: how programs run.
            programs: runs them; None where they are switched off.

        Raises:
            UntrustedFolder: a file has changed since the user trusted its folder.
        """
        named = named_tools(library)
        tools = self.plugins.load(named, workspace.root)
        of_features, without = self.feature_tools(named)
        tools += of_features
        reasons = {name: why_not_offered(template, policy) for name, template in self.commands.items()}
        if programs is not None:
            tools += [command_tool(self.commands[name], programs) for name, why in reasons.items() if not why]
        kinds = register_kinds(self.settings.plugins.allow)
        unavailable = (f"tools.commands.{name}: {why}" for name, why in reasons.items() if why)
        loaded = Loaded(self, tuple(tools), (*self.faults, *without, *kinds, *unavailable, *self.unknown(library)))
        loaded.log()
        return loaded


@dataclass(frozen=True, slots=True)
class Loaded:
    """The tools of a configuration, and what was left out."""

    own: OwnTools
    tools: tuple[Tool, ...]
    faults: tuple[str, ...]
    """Of the settings and of kinds of conversation, each as a sentence that begins with its place."""

    def log(self) -> None:
        """Log what was loaded and what was not."""
        for source in self.own.plugins.sources:
            if source.faults:
                log.error("plugin.left_out", source=source.name, faults=list(source.faults))
            if source.tools:
                log.info("plugin.loaded", source=source.name, tools=sorted(source.tools), remarks=list(source.remarks))
        for fault in self.faults:
            log.error("tool.left_out", fault=fault)
        for fault in self.own.skills.faults:
            log.warning("skill.left_out", fault=fault)

    def left_out(self) -> list[str]:
        """A sentence for each tool and skill that cannot be used."""
        return [*self.own.plugins.faults(), *self.faults, *self.own.skills.faults]

    def report(self) -> list[dict[str, Any]]:
        """What `tenex status` shows: files and packages with their tools, and everything that was left out."""
        shown = [
            {"source": source.name, "tools": sorted(source.tools), "faults": [*source.faults, *source.blockings()]}
            for source in self.own.plugins.sources
            if source.tools or source.faults
        ]
        for sentence in (*self.faults, *self.own.skills.faults):
            place, _, fault = sentence.partition(": ")
            shown.append({"source": place, "tools": [], "faults": [fault]})
        return shown


def find_own_tools(settings: Settings, where: ProjectPaths) -> OwnTools:
    """What the operator has; no code of it is run.

    Raises:
        UntrustedFolder: a file has changed since the user trusted its folder.
    """
    faults: list[str] = []
    built_in = dict.fromkeys({*TOOL_NAMES, *settings.feature_tools, *RESERVED}, _BUILT_IN)
    commands: dict[str, CommandTemplate] = {}
    for name, given in settings.tools.commands.items():
        own: list[str] = []
        template = _template(name, given, own, taken=built_in)
        if template is not None:
            commands[name] = template
        faults += [f"tools.commands.{name}: {fault}" for fault in own]
    taken = {**built_in, **{name: f"the command tools.commands.{name}" for name in commands}}
    plugins = find_plugins(where.tools, settings.plugins.allow, taken=taken, code_refusal=where.code_refusal)
    for name in sorted(commands.keys() & plugins.claimed):
        faults.append(f"tools.commands.{name}: a plugin claims this name too, and neither is used. Rename one of them.")
        del commands[name]
    skills = find_skills(where.skills, Workspace(where.workspace))
    return OwnTools(settings=settings, plugins=plugins, commands=commands, skills=skills, faults=tuple(faults))


def _template(name: str, given: CommandTool, faults: list[str], *, taken: Collection[str]) -> CommandTemplate | None:
    """The command of a table; None if it has a fault."""
    if name in taken and name not in RESERVED:
        faults.append(f"this is the name of {_BUILT_IN}; choose another.")
    elif why := fault_of_name(name):
        faults.append(f"it {why}")
    template = read_template(
        name,
        given.run,
        description=given.description,
        access=given.access,
        faults=faults,
        asks=None if given.approve == "auto" else given.approve == "ask",
        timeout=given.timeout,
    )
    return None if faults else template


def _shown(argument: tuple[str | Placeholder, ...]) -> str:
    """An argument of a command as it is written."""
    return "".join(part if isinstance(part, str) else f"{{{part.name}}}" for part in argument)


def named_tools(library: PromptLibrary) -> frozenset[str]:
    """The tools that agents have by their files or the settings."""
    return frozenset(name for agent in library.definitions.values() for name in agent.tools)
