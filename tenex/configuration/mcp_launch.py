"""What is started for an MCP server: its program in the sandbox of agents' commands, or as it is where that is set.

In the sandbox it may write to the workspace, but to no git repository in it, and sees besides only the system, its own
installation and the folders that are configured: a virtual environment or a folder of Node's packages, an
interpreter, a script that is an argument. None of our variables reach it but those that are configured. In a phase that
changes no files it is started in the view of a turn (`tools.turn_views`) in place of the workspace.

It runs under the supervisor of commands, with their limits.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tenex.core.errors import ConfigurationError
from tenex.mcp.config import Configured, ServerConfig
from tenex.mcp.stdio import Program
from tenex.settings import ProjectPaths
from tenex.tools import sandbox, workspace_scan
from tenex.tools.git_config import folders_elsewhere
from tenex.tools.process import supervised
from tenex.tools.project_environment import SYSTEM, SYSTEM_PATH
from tenex.tools.shell_runner import LIMITS
from tenex.tools.supervisor import TOO_MANY
from tenex.tools.toolchains import PARTS
from tenex.tools.witness import Witness
from tenex.tools.workspace_scan import Mark
from tenex.tools.workspace_view import WorkspaceView

INHERITED: Final = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""Variables that a program gets without a sandbox, besides those that are configured."""

OFFLINE: Final[Mapping[str, str]] = {"npm_config_offline": "true", "UV_OFFLINE": "1"}
"""Variables by which programs that install a server say at once that they have no network, in place of many tries."""

EXCEEDED: Final[Mapping[int, str]] = {-TOO_MANY: f"it had more than {LIMITS.processes:,} processes and threads at once"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxedProgram(Program):
    """A program that may write to the workspace."""

    protected: Mapping[bytes, Mark | None]
    """What it may not write to there, as `workspace_scan.Survey.protections` has it."""
    witness: Witness
    """Sees which files it writes there."""

    def protects(self, survey: workspace_scan.Survey) -> bool:
        """Whether it cannot write to any repository of a survey."""
        return survey.protections().items() <= self.protected.items()

    def release(self) -> None:
        """Close the descriptor of its witness."""
        self.witness.close()


@dataclass(frozen=True, slots=True)
class Launcher:
    """Makes the command line of a server; blocks."""

    root: Path
    """The workspace, its real path."""
    data: Path
    """The data folder, which no server sees."""
    has_sandbox: bool
    umask: int = -1
    """Of the files that servers make; this process's unless given."""

    def __call__(self, config: ServerConfig) -> Program:
        """What is started.

        Raises:
            ConfigurationError: it may not be, or there is no such program.
        """
        folder, program = self.check(config)
        if config.sandbox:
            return self._sandboxed(config, program, folder)
        if not config.cwd:
            folder.mkdir(mode=0o700, exist_ok=True)
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return Program(
            command=_supervised([str(program), *config.args]),
            environment={**inherited, **config.env},
            folder=folder,
            umask=self.umask,
            exceeded=EXCEEDED,
        )

    def in_view(self, config: ServerConfig, view: WorkspaceView) -> Program:
        """What is started in a view of the workspace, where a server may write to repositories too.

        Raises:
            ConfigurationError: it may not be started, or there is no such program.
            OSError: the view cannot be mounted.
        """
        folder, program = self.check(config)
        prefix, mount = view.launch(network=config.network)
        shared = view.shared
        line = sandbox.wrapped(
            self.root,
            [str(program), *config.args],
            None,
            cwd=folder,
            can_write=True,
            network=config.network,
            folders=self._places(config, program, folder),
            scratch=view.tmp,
            mount=mount,
            joins=shared is not None and shared.has_network and not config.network,
        )
        return Program(
            command=_supervised([*prefix, *line]),
            environment=_environment(config, program),
            folder=self.root,
            umask=self.umask,
            descriptors=view.descriptors(network=config.network),
            exceeded=EXCEEDED,
        )

    def why_not(self, config: ServerConfig) -> str:
        """Why a server cannot be started, as far as that shows before; "" for nothing."""
        if not config.is_program:
            return ""
        try:
            self.check(config)
        except ConfigurationError as error:
            return " ".join(error.faults)
        return ""

    def check(self, config: ServerConfig) -> tuple[Path, Path]:
        """The folder in which a server is started, and its program.

        Raises:
            ConfigurationError: it may not be started, or there is no such program.
        """
        folder = self._folder(config)
        if config.cwd and not folder.is_dir():
            raise ConfigurationError([f"{config.place}.cwd: there is no folder {folder}. Correct it."])
        program = self._find(config, folder)
        if config.sandbox:
            if not self.has_sandbox:
                raise ConfigurationError(
                    [f"{config.place}: there is no sandbox here (bubblewrap). Install it, or set sandbox = false."]
                )
            for _ in self._configured(config):
                pass
            return folder, program
        scripts = [("args", folder / word) for word in config.args if self._is_file(folder / word)]
        for what, place in (("command", program), ("cwd", folder), *scripts):
            if self._is_in_workspace(place):
                raise ConfigurationError(
                    [f"{config.place}.{what}: {place} is in the workspace, where agents write. Set sandbox = true."]
                )
        return folder, program

    def _folder(self, config: ServerConfig) -> Path:
        """Where it starts: the workspace, or without a sandbox an empty folder: programs load what lies there."""
        if config.cwd or config.sandbox:
            return self.root / Path(config.cwd or "").expanduser()
        return self.data / "mcp"

    def _is_in_workspace(self, place: Path) -> bool:
        return Path(os.path.realpath(place)).is_relative_to(self.root)

    @staticmethod
    def _is_file(place: Path) -> bool:
        try:
            return place.is_file()
        except (OSError, ValueError):  # an argument may be too long, or hold a NUL
            return False

    def _find(self, config: ServerConfig, folder: Path) -> Path:
        named = Path(config.command).expanduser()
        path = config.env.get("PATH", os.environ.get("PATH", os.defpath))
        program = shutil.which(str(folder / named) if len(named.parts) > 1 else config.command, path=path)
        if program is None:
            raise ConfigurationError(
                [f"{config.place}.command: there is no program {config.command}. Install it, or give its full path."]
            )
        return Path(os.path.abspath(program))  # noqa: PTH100 - links are kept: by its name it finds its installation

    def _sandboxed(self, config: ServerConfig, program: Path, folder: Path) -> SandboxedProgram:
        before = workspace_scan.take(self.root)
        witness = Witness(self.root)
        try:
            line = sandbox.wrapped(
                self.root,
                [str(program), *config.args],
                None,
                cwd=folder,
                can_write=True,
                network=config.network,
                folders=self._places(config, program, folder),
                protected=[self.root / os.fsdecode(path) for path in before.protected()],
                witness=witness.descriptor,
            )
        except BaseException:
            witness.close()
            raise
        return SandboxedProgram(
            command=_supervised(line),
            environment=_environment(config, program),
            folder=self.root,
            descriptors=(witness.descriptor,),
            umask=self.umask,
            exceeded=EXCEEDED,
            protected=before.protections(),
            witness=witness,
        )

    def _places(self, config: ServerConfig, program: Path, folder: Path) -> list[Path]:
        """The folders that it sees besides the workspace and the system's."""
        shown = [*self._configured(config), *_installation(program), *folders_elsewhere(self.root)]
        if not folder.is_relative_to(self.root):
            shown.append(folder)
        for place in (program, *map(Path, config.args)):
            if not place.is_absolute() or not os.path.isfile(place):  # noqa: PTH113 - an argument may be too long
                continue
            modules = next((above for above in place.parents if above.name == "node_modules"), None)
            shown.append(modules or place)
        return [place for place in _outermost(shown) if place.exists() and not self._is_seen(place)]

    def _configured(self, config: ServerConfig) -> Iterator[Path]:
        for index, name in enumerate(config.folders):
            place = self.data / Path(name).expanduser()
            if self.data.is_relative_to(os.path.realpath(place)):
                raise ConfigurationError(
                    [f"{config.place}.folders[{index}]: {place} has the data folder with its keys. Name others."]
                )
            yield place

    def _is_seen(self, place: Path) -> bool:
        real = Path(os.path.realpath(place))
        is_inside = place.is_relative_to(self.root) or real.is_relative_to(self.root)
        holds_keys = self.data.is_relative_to(real)
        return is_inside or holds_keys or any(place.is_relative_to(folder) for folder in SYSTEM)


def _supervised(command: Sequence[str]) -> tuple[str, ...]:
    """The command line under the supervisor, which ends all that it starts with it."""
    return tuple(supervised(command, LIMITS))


def _environment(config: ServerConfig, program: Path) -> dict[str, str]:
    """All variables of a program in the sandbox."""
    return {
        **sandbox.clean_environment(sandbox.HOME),
        **(OFFLINE if config.cannot_install else {}),
        "PATH": os.pathsep.join([str(program.parent), *SYSTEM_PATH]),
        **config.env,
    }


def _outermost(places: Iterable[Path]) -> list[Path]:
    """The places that are not within another of them: nothing can be mounted on a link that is seen already."""
    every = list(dict.fromkeys(places))
    return [place for place in every if not any(place != other and place.is_relative_to(other) for other in every)]


def _installation(program: Path) -> Iterator[Path]:
    """The folders that a program's installation consists of, as far as its place tells."""
    for place in dict.fromkeys((program, Path(os.path.realpath(program)))):
        prefix = place.parent.parent
        if (prefix / "pyvenv.cfg").is_file():
            yield prefix
            base = Path(os.path.realpath(prefix / "bin" / "python")).parent.parent
            yield from (base / name for name in PARTS)
        elif (prefix / "lib" / "node_modules").is_dir():
            yield from (prefix / name for name in PARTS)


def unstartable(configured: Configured, where: ProjectPaths) -> dict[str, str]:
    """Why programs cannot be started, by the names of their servers, as far as that shows without starting them."""
    needs_sandbox = any(server.is_program and server.sandbox for server in configured.servers)
    has_sandbox = needs_sandbox and sandbox.probe_bubblewrap()
    launcher = Launcher(where.workspace.resolve(), where.data.resolve(), has_sandbox)
    reasons = {server.name: launcher.why_not(server) for server in configured.servers}
    return {name: why for name, why in reasons.items() if why}
