"""Paths on disk: the data folder, its configuration, and the folders named in the settings."""

import hashlib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal

from tenex.core.errors import ConfigurationError, UsageError, kind_of
from tenex.core.text.foreign import decode

from .sections import Settings
from .trust import Trust, home_folder, trust_file

_PACKAGE = Path(__file__).parents[1]

CONFIG_NAMES = ("tenex.toml", "config/tenex.toml")
"""Possible paths of a data folder's configuration."""

NO_CURRENT = "the current folder cannot be used: it was deleted. Run `cd`, or give full paths, also with --data."

KEY_SUFFIX = ".api-key"
"""The end of the name of a file in the keys folder that holds a provider's key."""

_DATA_MARKS = (*CONFIG_NAMES, "keys/project.nsec")
"""Files that mark a data folder; one that uses the defaults has no configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPaths:
    """The folders in use, absolute."""

    data: Path
    config: Path | None
    conversations: Path
    workspace: Path
    keys: Path
    agents: Path
    tools: Path
    skills: Path
    workflows: Path
    checkpoints: Path
    socket: Path
    credentials: Path | None = None
    """The folder of what the service manager gives this process: systemd's `LoadCredential=`, compose's `secrets`."""
    code_refusal: str = ""
    """Why code of this data folder may not be run, and what to do; empty if it may."""

    @property
    def views(self) -> Path:
        """Where programs write what does not stay; emptied at each start."""
        return self.data / "views"

    @property
    def web_socket(self) -> Path:
        """The control socket of the pages, beside that of the daemon."""
        return self.socket.with_name(f"{self.socket.stem}-web{self.socket.suffix}")

    @property
    def packages(self) -> Path:
        """What package managers of agents have fetched and keep in a home folder."""
        return self.data / "packages"

    @property
    def check_logs(self) -> Path:
        """Where the output of the project's checks is kept, a folder for each conversation."""
        return self.data / "checks"

    @property
    def key_folders(self) -> tuple[Path, ...]:
        """Where keys are looked for, in this order; only the first is written to."""
        return (self.keys,) if self.credentials is None else (self.keys, self.credentials)


def find_data(explicit: Path | None, env: Mapping[str, str], cwd: Path | None) -> Path:
    """Choose the data folder, absolute; it need not exist. `cwd` is None where the current folder was deleted.

    Raises:
        ConfigurationError: it is in the workspace of another data folder, where agents write; or it cannot be chosen.
    """
    found = _found_data(explicit, env, cwd)
    known: list[Path] = []
    with suppress(ConfigurationError):  # neither is needed where another folder was named
        if env.get("TENEX_DATA"):
            known.append(_absolute(Path(env["TENEX_DATA"]), cwd))
    with suppress(ConfigurationError):
        known.append(_state_folder(env))
    workspace = _workspace_around(_real(found), known, env)
    if workspace is not None:
        raise ConfigurationError(
            [f"{found}: this folder is in the workspace {workspace}, where agents write. Choose another with --data."]
        )
    return found


def workspace_data(workspace: Path, env: Mapping[str, str]) -> Path:
    """The data folder for work in a folder that has none of its own: below the state folder, one for each.

    Two workspaces do not share one, because unfinished work of a data folder is continued in its workspace.

    Raises:
        ConfigurationError: this user has no home folder.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", workspace.name)[:20]
    return _state_folder(env) / "workspaces" / f"{name}-{hashlib.sha256(os.fsencode(_real(workspace))).hexdigest()[:8]}"


def required_trust(explicit: Path | None, env: Mapping[str, str], cwd: Path | None) -> Trust | None:
    """The trust that the data folder which `find_data` chooses needs; None where it is used as it is.

    A folder is used as it is if the user or the service named it, or if it is the state folder. Otherwise anyone who
    can write to the current folder could have a command that is typed there send keys away, or run their code.
    """
    if explicit is not None or env.get("TENEX_DATA"):
        return None
    found = _found_data(explicit, env, cwd)
    with suppress(ConfigurationError):  # a user without a home
        if _real(found) == _real(_state_folder(env)):
            return None
    return Trust(found, trust_file(env))


def _found_data(explicit: Path | None, env: Mapping[str, str], cwd: Path | None) -> Path:
    if explicit is not None:
        return _absolute(explicit, cwd)
    if env.get("TENEX_DATA"):
        return _absolute(Path(env["TENEX_DATA"]), cwd)
    if cwd is None:
        raise ConfigurationError([NO_CURRENT])
    # `os.path`, because a folder that may not be read is not meant: `sudo -u tenex tenex status` in /root
    if any(os.path.isfile(cwd / name) for name in CONFIG_NAMES):  # noqa: PTH113
        return cwd.absolute()
    return _state_folder(env)


def _state_folder(env: Mapping[str, str]) -> Path:
    """The data folder of this service, else of this user."""
    if env.get("STATE_DIRECTORY"):  # systemd separates several folders by colons; our unit has one
        return Path(env["STATE_DIRECTORY"].split(":")[0])
    state = env.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):  # the XDG specification: a relative one is to be ignored
        home = home_folder(env)
        if home is None:
            raise ConfigurationError(["this user has no home folder. Name the data folder: --data DIR, or TENEX_DATA."])
        state = f"{home}/.local/state"
    return Path(state) / "tenex"


def _workspace_around(folder: Path, known: Iterable[Path], env: Mapping[str, str]) -> Path | None:
    """The workspace of another data folder that contains `folder`, in which no link is left.

    Others are the folders above it and `known`.
    """
    others = (*folder.parents, *(data for data in known if _real(data) != folder))
    for data in others:
        if any(os.path.isfile(f"{data}/{name}") for name in _DATA_MARKS):  # noqa: PTH113
            workspace = _real(_absolute(Path(_workspace_setting(data, env)), data))
            if folder.is_relative_to(workspace):
                return workspace
    return None


def _workspace_setting(data: Path, env: Mapping[str, str]) -> str:
    """`paths.workspace` of a data folder; the default where its file cannot be read."""
    default = env.get("TENEX_PATHS__WORKSPACE") or "workspace"
    for name in CONFIG_NAMES:
        with suppress(OSError, ValueError, RecursionError):
            paths = tomllib.loads(decode((data / name).read_bytes())).get("paths")
            if isinstance(paths, dict) and isinstance(paths.get("workspace"), str):
                return env.get("TENEX_PATHS__WORKSPACE") or paths["workspace"]
    return default


def find_config(explicit: Path | None, data: Path) -> Path | None:
    """Choose the configuration file; None if there is none.

    Raises:
        ConfigurationError: the requested file does not exist, the data folder has two, or it may not be read.
    """
    if explicit is not None:
        if not _is_file(explicit):
            raise ConfigurationError([f"{explicit}: there is no such file; `tenex init` writes one"])
        return explicit.absolute()
    found = [data / name for name in CONFIG_NAMES if _is_file(data / name)]
    if len(found) > 1:
        raise ConfigurationError([f"{found[0]} and {found[1]} both exist; keep one of them"])
    return found[0] if found else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as fault:  # a folder on the way may not be entered
        raise ConfigurationError([f"{path}: cannot be read ({fault.strerror}); run this as its owner"]) from fault


def example_config() -> Path:
    """Path of the documented example configuration."""
    return _example("tenex.example.toml")


def example_folder(kind: Literal["agents", "workflows"]) -> Path:
    """Folder of the examples of a kind."""
    return _example(kind)


def _example(name: str) -> Path:
    """An example in the installed package, else in the checkout."""
    installed = _PACKAGE / "config" / name
    return installed if installed.exists() else _PACKAGE.parent / "config" / name


def resolve_paths(settings: Settings) -> ProjectPaths:
    """Resolve the folders of the settings against their data folder."""
    data = settings.data.absolute()
    folders = {name: _absolute(Path(path), data) for name, path in settings.paths}
    workspace = _real(folders["workspace"])
    refusal = ""
    if any(_real(folders[name]).is_relative_to(workspace) for name in ("agents", "tools", "workflows")):
        refusal = f"no code runs from the workspace {folders['workspace']}. Move it out of there"
    given = os.environ.get("CREDENTIALS_DIRECTORY")
    credentials = Path(given) if given else None
    return ProjectPaths(data=data, config=settings.file, credentials=credentials, code_refusal=refusal, **folders)


def code_paths(settings: Settings, here: ProjectPaths) -> tuple[Path, ...]:
    """Where a data folder has agents, tools, skills, workflows and MCP servers: folders, and files settings name."""
    named = [here.data / name for name in settings.workflows if ":" not in name]
    if settings.mcp.servers_file is not None:
        named.append(_absolute(Path(settings.mcp.servers_file), here.data))
    roots = (here.agents, here.tools, here.skills, here.workflows, *named)
    return tuple(Path(os.path.abspath(path)) for path in roots)  # noqa: PTH100 as named


def places_outside(settings: Settings, here: ProjectPaths) -> dict[str, Path]:
    """What a data folder has elsewhere, by its setting or name: files of keys, and folders; links are followed.

    What a variable or the command line names is left out: the user names it, and not the folder.
    """
    inside = _real(here.data)
    keys = _real(here.keys)
    found = {}
    for name, provider in settings.models.providers.items():
        if provider.api_key_file is not None:
            found[f"models.providers.{name}.api_key_file"] = _real(_absolute(Path(provider.api_key_file), here.data))
    found |= {f"paths.{name}": _real(getattr(here, name)) for name, _ in settings.paths}
    own = {name: place for name, place in found.items() if settings.origins.get(name) in (None, str(settings.file))}
    links = {f"keys/{link.name}": _real(link) for link in sorted(here.keys.glob(f"*{KEY_SUFFIX}"))}
    own |= {name: place for name, place in links.items() if not place.is_relative_to(keys)}
    return {name: place for name, place in own.items() if not place.is_relative_to(inside)}


def check_paths(settings: Settings) -> None:
    """Refuse folders that must not be where they are; symbolic links are followed.

    Agents may read and change the whole workspace, so none of the daemon's folders may be in it, nor it in one of them.

    Raises:
        ConfigurationError: one sentence for each.
    """
    here = resolve_paths(settings)
    names = ("conversations", "keys", "agents", "tools", "skills", "workflows", "checkpoints")
    ours = {name: getattr(here, name) for name in names}
    faults = [
        f"paths.{name}: {path} is a file; it must be a folder"
        for name, path in {**ours, "workspace": here.workspace}.items()
        if path.exists() and not path.is_dir()
    ]
    workspace = _real(here.workspace)
    for name, path in ours.items():
        if _real(path) == workspace:
            faults.append(f"paths.workspace: {here.workspace} is the {name} folder too; {_ELSEWHERE}")
        elif _real(path).is_relative_to(workspace):
            faults.append(f"paths.workspace: {here.workspace} contains the {name} folder {path}; {_ELSEWHERE}")
        elif workspace.is_relative_to(_real(path)):
            faults.append(f"paths.workspace: {here.workspace} is in the {name} folder {path}; {_ELSEWHERE}")
    trusted = trust_file(os.environ)
    if trusted is not None and _real(trusted).is_relative_to(workspace):
        faults.append(f"paths.workspace: {here.workspace} holds the list of trusted folders {trusted}; {_ELSEWHERE}")
    if here.config is not None and _real(here.config).is_relative_to(workspace):
        faults.append(f"paths.workspace: {here.workspace} contains the configuration {here.config}; {_ELSEWHERE}")
    if _real(here.socket).is_relative_to(workspace):
        faults.append(f"paths.socket: {here.socket} is in the workspace; {_ELSEWHERE}")
    if workspace == Path(workspace.anchor) or _home().is_relative_to(workspace):
        faults.append(f"paths.workspace: {here.workspace} is or contains the home folder; {_ELSEWHERE}")
    faults += [
        f"paths.{name} and paths.{other} are the same folder {ours[name]}; give each its own"
        for name, other in combinations(ours, 2)
        if _real(ours[name]) == _real(ours[other])
    ]
    if faults:
        raise ConfigurationError(faults)


def _real(path: Path) -> Path:
    """The path with links followed; a link to itself is left as it is, and cannot be created or read."""
    return Path(os.path.realpath(path))


def path_of(given: object, what: str) -> Path:
    """A path that users' code gives, which may not check types.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(given, str | Path) or not str(given):
        raise UsageError(f"{what} is {'an empty text' if given == '' else kind_of(given)}; give a path.")
    return Path(given)


def _home() -> Path:
    try:
        return Path.home().resolve()
    except RuntimeError:  # a user without a home
        return Path("/nonexistent")


_ELSEWHERE = "agents could change it. Choose a folder of its own"


def _absolute(path: Path, base: Path | None) -> Path:
    try:
        expanded = path.expanduser()
    except RuntimeError as fault:  # `~name`: no such user
        raise ConfigurationError([f"{path}: {fault}; write the path in full"]) from fault
    if base is None and not expanded.is_absolute():
        raise ConfigurationError([NO_CURRENT])
    return (base or Path("/")) / expanded
