"""Where things lie on disk: the data folder, its configuration, and the folders the settings name.

Never: make a folder; `tenex init` and the store do.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal

from tenex.core.errors import ConfigurationError

from .sections import Settings

_PACKAGE = Path(__file__).parents[1]

CONFIG_NAMES = ("tenex.toml", "config/tenex.toml")
"""Where a data folder's configuration may lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders in use, absolute."""

    data: Path
    config: Path | None
    conversations: Path
    workspace: Path
    keys: Path
    agents: Path
    workflows: Path
    checkpoints: Path
    socket: Path


def find_data(explicit: Path | None, env: Mapping[str, str], cwd: Path) -> Path:
    """Choose the data folder, absolute; it need not exist (DESIGN section 10)."""
    if explicit is not None:
        return _absolute(explicit, cwd)
    if env.get("TENEX_DATA"):
        return _absolute(Path(env["TENEX_DATA"]), cwd)
    # `os.path`, because a folder we may not look into is not meant: `sudo -u tenex tenex status` in /root
    if any(os.path.isfile(cwd / name) for name in CONFIG_NAMES):  # noqa: PTH113
        return cwd.absolute()
    if env.get("STATE_DIRECTORY"):  # systemd lists several folders with colons; a unit of ours has one
        return Path(env["STATE_DIRECTORY"].split(":")[0])
    state = env.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):  # the XDG specification: a relative one is to be ignored
        home = env.get("HOME")
        state = str((Path(home) if home else Path.home()) / ".local" / "state")
    return Path(state) / "tenex"


def find_config(explicit: Path | None, data: Path) -> Path | None:
    """Choose the configuration file; None where there is none and the defaults hold.

    Raises:
        ConfigurationError: the file asked for does not exist, the data folder has two, or we may not look into it.
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
        raise ConfigurationError([f"{path}: cannot be looked at ({fault.strerror}); ask as its owner"]) from fault


def example_config() -> Path:
    """Find the file that explains every setting: in the installed package, else in the checkout."""
    installed = _PACKAGE / "config" / "tenex.example.toml"
    return installed if installed.is_file() else _PACKAGE.parent / "config" / "tenex.example.toml"


def example_folder(kind: Literal["agents", "workflows"]) -> Path:
    """Find the examples of a kind, as `example_config` finds its file."""
    installed = _PACKAGE / "config" / kind
    return installed if installed.is_dir() else _PACKAGE.parent / "config" / kind


def places(settings: Settings) -> Places:
    """Resolve the folders of the settings against their data folder."""
    data = settings.data.absolute()
    return Places(
        data=data,
        config=settings.file,
        conversations=_absolute(Path(settings.paths.conversations), data),
        workspace=_absolute(Path(settings.paths.workspace), data),
        keys=_absolute(Path(settings.paths.keys), data),
        agents=_absolute(Path(settings.paths.agents), data),
        workflows=_absolute(Path(settings.paths.workflows), data),
        checkpoints=_absolute(Path(settings.paths.checkpoints), data),
        socket=_absolute(Path(settings.paths.socket), data),
    )


def check_paths(settings: Settings) -> None:
    """Refuse folders that must not lie where they do; symbolic links are followed.

    Agents may read and change all of the workspace, so none of our own folders may be in it, nor it in one of them.

    Raises:
        ConfigurationError: with a sentence for each.
    """
    here = places(settings)
    ours = {
        "conversations": here.conversations,
        "keys": here.keys,
        "agents": here.agents,
        "workflows": here.workflows,
        "checkpoints": here.checkpoints,
    }
    faults = [
        f"paths.{name}: {path} is a file; it must be a folder"
        for name, path in {**ours, "workspace": here.workspace}.items()
        if path.exists() and not path.is_dir()
    ]
    workspace = _real(here.workspace)
    for name, path in ours.items():
        if _real(path) == workspace:
            faults.append(f"paths.workspace: {here.workspace} is our {name} folder too; {_ELSEWHERE}")
        elif _real(path).is_relative_to(workspace):
            faults.append(f"paths.workspace: {here.workspace} holds our {name} folder {path}; {_ELSEWHERE}")
        elif workspace.is_relative_to(_real(path)):
            faults.append(f"paths.workspace: {here.workspace} lies in our {name} folder {path}; {_ELSEWHERE}")
    if here.config is not None and _real(here.config).is_relative_to(workspace):
        faults.append(f"paths.workspace: {here.workspace} holds our configuration {here.config}; {_ELSEWHERE}")
    if _real(here.socket).is_relative_to(workspace):
        faults.append(f"paths.socket: {here.socket} lies in the workspace; {_ELSEWHERE}")
    if workspace == Path(workspace.anchor) or _home().is_relative_to(workspace):
        faults.append(f"paths.workspace: {here.workspace} is or holds the home folder; {_ELSEWHERE}")
    faults += [
        f"paths.{name} and paths.{other} are the same folder {ours[name]}; give each its own"
        for name, other in combinations(ours, 2)
        if _real(ours[name]) == _real(ours[other])
    ]
    if faults:
        raise ConfigurationError(faults)


def _real(path: Path) -> Path:
    """Where a path leads, links followed; one that leads to itself is left as it is, and cannot be made or read."""
    return Path(os.path.realpath(path))


def _home() -> Path:
    try:
        return Path.home().resolve()
    except RuntimeError:  # a user without a home
        return Path("/nonexistent")


_ELSEWHERE = "agents could change it. Choose a folder of its own"


def _absolute(path: Path, base: Path) -> Path:
    try:
        return (base / path.expanduser()).absolute()
    except RuntimeError as fault:  # `~nobody`: no such user
        raise ConfigurationError([f"{path}: {fault}; write the path in full"]) from fault
